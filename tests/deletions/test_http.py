"""Deleting over HTTP: who may, what refuses, what stays, and that nobody gets a green light by it."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.attestations.repository import count_other_seeds
from app.main import create_app
from app.web.housekeeping import Keeping
from app.web.services import Services
from seatrial.attestation.dsse import read_envelopes
from seatrial.attestation.key_folder import KeyFolder
from seatrial.store.ids import new_id
from seatrial.store.keeping import apply_retention
from seatrial.store.settings import Settings
from seatrial.store.tables import (
    ActivityRow,
    AttestationRow,
    AuditRow,
    BaselineRow,
    HardeningRow,
    JudgementRow,
    ModelRow,
    ReleaseRow,
)
from seatrial.store.tables.base import utc_now
from tests.audits.acting import SVG, end_check, first_check, make_ready, open_stage, run_shard, submit
from tests.conftest import BASE_URL, key_for
from tests.uploads import model_manifest, upload, upload_both, weights
from tests.web.test_problems import assert_problem


@pytest.fixture
def pair(client: httpx.Client) -> tuple[str, str]:
    return upload_both(client)


def ended(client: httpx.Client, services: Services, pair: tuple[str, str], **more: Any) -> str:
    """Submit an audit and take it to its end; return its id."""
    make_ready(services)
    audit = submit(client, pair, **more)
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    run_shard(services)
    end_check(services)
    return audit


def age(services: Services, seconds: float) -> None:
    """Let every stored file be so old."""
    for digest in services.store.digests():
        then = time.time() - seconds
        os.utime(services.store.local_path(digest), (then, then))


def bytes_used(client: httpx.Client) -> dict[str, int]:
    used: dict[str, int] = client.get("/v1/projects/default").json()["disk"]
    return used


def test_what_is_used_stays_and_what_is_deleted_is_gone_with_its_files(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    audit = ended(client, services, pair)
    refused = client.delete(f"/v1/models/{pair[0]}")
    assert_problem(refused, 409, "in-use")
    assert [use["id"] for use in refused.json()["uses"]] == [audit]
    assert refused.json()["can_cascade"]
    files = set(services.store.digests())

    gone = client.delete(f"/v1/models/{pair[0]}", params={"cascade": True})
    assert gone.status_code == 200, gone.text
    assert (gone.json()["along"], gone.json()["actor"]) == ([audit], "operator")
    assert client.delete(f"/v1/models/{pair[0]}").json() == gone.json()
    assert_problem(client.get(f"/v1/models/{pair[0]}"), 410, "deleted")
    for of in ("", "/report", "/judgements", "/events", "/records/0", "/figures/0/span", "/cancel", "/judge"):
        ask = client.post if of in ("/cancel", "/judge") else client.get
        body = {"json": {"policy": "standard"}} if of == "/judge" else {}
        assert_problem(ask(f"/v1/audits/{audit}{of}", **body), 410, "deleted")
    assert_problem(client.get("/v1/audits/aud_never"), 404, "not-found")
    told = client.get(f"/v1/tombstones/{audit}").json()
    assert (told["cascade_of"], told["details"]["state"], told["details"]["seed"]) == (pair[0], "succeeded", 0)
    assert [one["subject"] for one in client.get("/v1/tombstones", params={"kind": "model"}).json()["items"]] == [
        pair[0]
    ]

    # Nobody may be about to name them: files go an hour after they came.
    Keeping(services)()
    assert set(services.store.digests()) == files
    age(services, 7200)
    with services.database.write() as session:
        session.execute(update(ReleaseRow).values(due_at=0.0))
    Keeping(services)()
    left = set(services.store.digests())
    assert left == {client.get(f"/v1/datasets/{pair[1]}").json()["digest"]}
    # The same bytes come again, as another model.
    again = upload(client, "models", model_manifest(), weights())
    assert again.status_code == 201
    assert again.json()["id"] != pair[0]
    assert client.get(f"/v1/models/{again.json()['id']}/content").content == weights()


def test_what_runs_is_never_deleted(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    refused = client.delete(f"/v1/models/{pair[0]}", params={"cascade": True})
    assert_problem(refused, 409, "in-use")
    assert "being checked" in refused.json()["detail"]
    make_ready(services)
    audit = submit(client, pair)
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    for path in (f"audits/{audit}", f"models/{pair[0]}", f"datasets/{pair[1]}"):
        refused = client.delete(f"/v1/{path}", params={"cascade": True})
        assert_problem(refused, 409, "in-use")
        assert not refused.json()["can_cascade"]
    run_shard(services)
    end_check(services)
    assert client.get(f"/v1/audits/{audit}").json()["state"] == "succeeded"
    assert client.delete(f"/v1/audits/{audit}").status_code == 200


def test_a_baseline_goes_only_with_its_name_told(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    audit = ended(client, services, pair)
    client.post("/v1/baselines", json={"audit": audit, "name": "champion"})
    assert_problem(client.delete(f"/v1/audits/{audit}"), 409, "in-use")
    gone = client.delete(f"/v1/audits/{audit}", params={"cascade": True}).json()
    assert [one["name"] for one in gone["details"]["baselines"]] == ["champion"]
    assert client.get("/v1/baselines").json()["items"] == []
    log = client.get("/v1/activity", params={"subject": audit}).json()["items"]
    assert [(one["action"], one["actor"]) for one in log] == [
        ("audit.deleted", "operator"),
        ("baseline.promoted", "operator"),
    ]


def test_only_an_admin_of_the_project_deletes(keyed: TestClient) -> None:
    pair = upload_both(keyed, headers=key_for(keyed, "run"))
    make_ready(keyed.app.state.services)  # type: ignore[attr-defined]
    path = f"/v1/datasets/{pair[1]}"
    assert_problem(keyed.delete(path, headers=key_for(keyed, "run")), 403, "forbidden")
    assert_problem(keyed.delete(path, headers=key_for(keyed, "admin", "other")), 404, "not-found")
    admin = key_for(keyed, "admin")
    gone = keyed.delete(path, headers=admin).json()
    assert gone["actor"].startswith("key_")
    assert_problem(keyed.get(f"/v1/tombstones/{pair[1]}", headers=key_for(keyed, "admin", "other")), 404, "not-found")
    assert keyed.get("/v1/activity", headers=admin).json()["items"][0]["request_id"]


@pytest.fixture
def signing(settings: Settings) -> Iterator[TestClient]:
    """A client of an API that signs."""
    KeyFolder.of(settings).create()
    with TestClient(create_app(settings), base_url=BASE_URL, raise_server_exceptions=False) as opened:
        yield opened


def test_deleting_what_failed_and_asking_again_is_counted(signing: TestClient) -> None:
    services = signing.app.state.services  # type: ignore[attr-defined]
    tried = []
    for seed in range(3):
        pair = upload_both(signing)
        tried.append(ended(signing, services, pair, seed=seed))
        if seed < 2:
            with services.database.read() as session:
                registered = session.scalars(select(AttestationRow.content)).one()
            # The model, the dataset and all there was of the audit.
            gone = signing.delete(f"/v1/models/{pair[0]}", params={"cascade": True})
            assert gone.json()["along"] == tried[-1:]
            assert signing.delete(f"/v1/datasets/{pair[1]}").status_code == 200
            [signed] = signing.get(f"/v1/tombstones/{tried[-1]}").json()["details"]["attestations"]
            assert signed["content"] == registered
            assert len(read_envelopes(signed["content"].encode())) == 1
    with services.database.read() as session:
        now = JudgementRow(created_at=utc_now())
        assert count_other_seeds(session, session.get_one(AuditRow, tried[-1]), now) == 2


def attest(session: Session, audit: str) -> None:
    judged = JudgementRow(id=new_id("jdg"), audit_id=audit, is_own=True, verdict="passed", judgement={}, document={})
    session.add(judged)
    session.flush()
    session.add(
        AttestationRow(id=new_id("att"), audit_id=audit, judgement_id=judged.id, key_id="k", content="", digest="")
    )


def test_audits_of_a_hardening_are_kept_unless_attested_ones_go(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    before, after = (ended(client, services, pair, seed=seed) for seed in range(2))
    with services.database.write() as session:
        project = session.get_one(AuditRow, before).project_id
        named = {"model_id": pair[0], "dataset_id": pair[1], "audited_id": pair[1]}
        audits = {"audit_before": before, "audit_after": after}
        session.add(
            HardeningRow(
                id="hrd_1",
                project_id=project,
                method="gaussian",
                params={},
                seed=0,
                spec={},
                state="succeeded",
                **named,
                **audits,
            )
        )
        attest(session, after)
        session.execute(update(AuditRow).values(finished_at=utc_now() - timedelta(days=100)))
    client.patch("/v1/projects/default", json={"retention": {"audits": 90}})
    assert apply_retention(services.database) == 0
    client.patch("/v1/projects/default", json={"retention": {"attested_audits": 90}})
    # With it goes the hardening, and so what kept the other.
    assert apply_retention(services.database) == 1
    with services.database.read() as session:
        assert after not in set(session.scalars(select(AuditRow.id)))
        assert session.scalar(select(func.count()).select_from(HardeningRow)) == 0
    apply_retention(services.database)
    with services.database.read() as session:
        assert session.scalars(select(AuditRow.id)).all() == []


def test_projects_keep_things_for_as_long_as_they_say(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    kept, attested, old, young = (ended(client, services, pair, seed=seed) for seed in range(4))
    spare = upload(client, "models", model_manifest(version="2"), weights()).json()["id"]
    make_ready(services)
    client.post("/v1/baselines", json={"audit": kept, "name": "champion"})
    with services.database.write() as session:
        attest(session, attested)
        long_ago = utc_now() - timedelta(days=100)
        session.execute(update(AuditRow).where(AuditRow.id != young).values(finished_at=long_ago))
        session.execute(update(ModelRow).values(created_at=long_ago))
    assert apply_retention(services.database) == 0
    changed = client.patch("/v1/projects/default", json={"retention": {"audits": 90, "models": 90}})
    kinds = ("audits", "attested_audits", "hardenings", "models", "datasets")
    assert changed.json()["retention"] == dict.fromkeys(kinds) | {"audits": 90, "models": 90}
    # The old audit, and the model that no audit uses.
    assert apply_retention(services.database) == 2
    assert {one["subject"]: one["actor"] for one in client.get("/v1/tombstones").json()["items"]} == {
        old: "retention",
        spare: "retention",
    }
    client.patch("/v1/projects/default", json={"retention": {"attested_audits": 90, "audits": None}})
    assert apply_retention(services.database) == 1
    with services.database.read() as session:
        assert set(session.scalars(select(AuditRow.id))) == {kept, young}
        assert session.scalar(select(func.count()).select_from(BaselineRow)) == 1
        changes = session.scalars(select(ActivityRow.details).where(ActivityRow.action == "project.changed")).all()
    assert changes[-1] == {"retention": {"attested_audits": 90, "audits": None}}


def test_files_are_counted_once(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    ended(client, services, pair)
    before = bytes_used(client)
    assert before["models"] == len(weights())
    assert upload(client, "models", model_manifest(version="2"), weights()).status_code == 201
    assert bytes_used(client) == before
    assert before["figures"] == len(SVG)
    # All of them are here, and nothing else is in the store.
    assert before["total"] == sum(services.store.measure(digest)[0] for digest in services.store.digests())
