"""What is asked and told over HTTP of records that are taken over."""

import io
import json
import zipfile
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from app.cli.replay import asked_again
from app.web.services import Services
from seatrial.contracts.registry import params_contract
from seatrial.store.reuse import asked_digest
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, ModelRow, WorkerRow
from seatrial.store.tables.base import utc_now
from tests import assets
from tests.audits.acting import ended
from tests.runtime.inline import InlineWorker
from tests.tables import flowers

SPAN = {"kind": "uncertainty_span", "epsilon": 0.2, "steps": 2, "effort": "quick"}


@pytest.fixture
def asked(client: httpx.Client) -> dict[str, Any]:
    """An audit of a linear model."""
    ids = []
    for path, manifest, name, data in (
        ("/v1/models", flowers.model_manifest(), "m.safetensors", flowers.weights()),
        ("/v1/datasets", flowers.dataset_manifest(), "d.csv", flowers.csv()),
    ):
        answer = client.post(path, **assets.multipart(manifest, name, data))
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["id"])
    return {"model": ids[0], "dataset": ids[1], "samples": 20, "checks": [SPAN], "policy": "lenient"}


@pytest.fixture
def worker(services: Services, settings: Settings, asked: dict[str, Any]) -> InlineWorker:
    working = InlineWorker(services.database, services.store, settings)
    working.drain()
    return working


def estimated(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/v1/audits/estimate", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_what_is_there_costs_nothing_and_everything_says_whose_it_is(
    client: httpx.Client, services: Services, worker: InlineWorker, asked: dict[str, Any]
) -> None:
    first = ended(client, worker, asked)
    assert "reuse" not in first["spec"]
    again = {**asked, "reuse": True}
    told = estimated(client, again)
    named = told["checks"][0]["reused"]
    assert (named["audit"], named["check"]) == (first["id"], first["checks"][0]["id"])
    assert (told["seconds"], told["forward_passes"], told["backward_passes"]) == (0.0, 0, 0)
    # Beside another check, the memory is what that one takes.
    more = {**asked, "checks": [*asked["checks"], {**asked["checks"][0], "epsilon": 0.01}]}
    alone = estimated(client, {**more, "checks": more["checks"][1:]})["memory_bytes"]
    assert (told["memory_bytes"], estimated(client, {**more, "reuse": True})["memory_bytes"]) == (0, alone)
    assert alone > 0
    assert "reused" not in estimated(client, asked)["checks"][0]
    # What costs nothing may have to be measured after all: both say so of a quota, in the same words.
    client.patch("/v1/projects/default", json={"quotas": {"audit_s": 1e-6}})
    refused = client.post("/v1/audits", json=again)
    assert refused.status_code == 413
    assert estimated(client, again)["refused"] == refused.json()["detail"]
    client.patch("/v1/projects/default", json={"quotas": {"audit_s": None}})
    assert "refused" not in estimated(client, again)

    second = ended(client, worker, {**again, "policy": "strict"})
    assert second["checks"][0]["reused"] == named
    assert second["checks"][0]["result"] == first["checks"][0]["result"]
    # The same computation, whoever did it, and whatever judges it.
    assert second["spec_digest"] == first["spec_digest"]
    records = [client.get(f"/v1/audits/{one['id']}/records/0") for one in (first, second)]
    assert records[0].content == records[1].content
    assert [one.headers.get("Seatrial-Reused-From") for one in records] == [None, first["id"]]
    for one, whose in ((first, None), (second, named)):
        bundle = zipfile.ZipFile(io.BytesIO(client.get(f"/v1/audits/{one['id']}/bundle").content))
        index = json.loads(bundle.read("audit.json"))
        assert index["checks"][0]["reused"] == whose
        assert "reuse" not in asked_again(index["spec"])
        stated = client.post(f"/v1/audits/{one['id']}/judge", json={"policy": "lenient"})
        assert stated.status_code == 200, stated.text
        statements = client.get(f"/v1/audits/{one['id']}/statements", params={"judgement": stated.json()["id"]}).json()
        assert statements["measured"]["predicate"]["checks"][0].get("reused") == whose


def test_nothing_is_promised_that_no_worker_would_keep(
    client: httpx.Client, services: Services, worker: InlineWorker, asked: dict[str, Any]
) -> None:
    ended(client, worker, asked)
    again = {**asked, "reuse": True}
    with services.database.write() as session:
        session.execute(update(WorkerRow).values(last_seen_at=utc_now() - timedelta(hours=1)))
    told = estimated(client, again)
    assert told["checks"][0]["reused"] is None
    assert told["seconds"] > 0
    with services.database.write() as session:
        session.execute(update(WorkerRow).values(last_seen_at=utc_now()))
    assert estimated(client, again)["checks"][0]["reused"] is not None


def test_of_what_answers_behind_a_url_nothing_is_kept_to_be_found_again(
    client: httpx.Client, services: Services, worker: InlineWorker, asked: dict[str, Any]
) -> None:
    check = params_contract("uncertainty_span").model_validate(SPAN)
    spec = {"seed": 0, "samples": 20, "batch_size": 64, "max_error_rate": 0.05}
    with services.database.read() as session:
        rows = {
            "model": session.get_one(ModelRow, asked["model"]),
            "dataset": session.get_one(DatasetRow, asked["dataset"]),
        }
        assert asked_digest(check, spec, rows, None) is not None
        rows["model"].format = "endpoint"
        assert asked_digest(check, spec, rows, None) is None
        session.expunge_all()
