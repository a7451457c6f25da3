"""Audits of models behind a URL follow from something that their vendors cannot know before."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from app.cli.replay import asked_again
from app.web.services import Services
from seatrial.contracts.noise import Noise
from seatrial.noise.copies import noisy_copy
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.noise.seeding import audit_seeds, noise_generator
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow
from tests import assets, texts
from tests.audits.acting import ended
from tests.runtime.inline import InlineWorker
from tests.uploads import submission, upload_both
from workers.models.endpoint import EndpointClassifier

ATTACKERS = ["inner_shuffle", "keyboard_typo"]


class Vendor:
    """Answers by a text's words, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def logits(self, endpoint: EndpointClassifier, asked: list[str]) -> list[torch.Tensor]:
        endpoint.sent += len(asked)
        self.asked += asked
        return [torch.tensor([1.0, 1.0 + self.opinion(text)], dtype=torch.float64) for text in asked]

    @staticmethod
    def opinion(text: str) -> float:
        return sum((word in texts.POSITIVE) - (word in texts.NEGATIVE) for word in text.split())


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Vendor:
    serving = Vendor()
    monkeypatch.setattr(EndpointClassifier, "logits", lambda endpoint, asked: serving.logits(endpoint, asked))
    return serving


@pytest.fixture
def worker(services: Services, settings: Settings, vendor: Vendor) -> InlineWorker:
    return InlineWorker(services.database, services.store, settings)


@pytest.fixture
def served(client: httpx.Client, worker: InlineWorker, tmp_path: Path) -> dict[str, Any]:
    architecture = {
        "kind": "endpoint",
        "url": "https://models.example.com/",
        "request": {"inputs": "{{texts}}"},
        "scores": "$.logits[*]",
        "outputs": "logits",
    }
    manifest = texts.model_manifest("served", labels=texts.LABELS, architecture=architecture)
    model = client.post("/v1/models", json={"manifest": manifest})
    assert model.status_code == 201, model.text
    path = texts.jsonl(tmp_path / "reviews.jsonl", texts.sentences(40, seed=6))
    data = client.post(
        "/v1/datasets", **assets.multipart(texts.dataset_manifest(name="asked"), path.name, path.read_bytes())
    )
    assert data.status_code == 201, data.text
    worker.drain()
    check = {"kind": "temperature_attack", "arms": [], "label_queries": 10, "query_budget": 60}
    return {"model": model.json()["id"], "dataset": data.json()["id"], "samples": 8, "checks": [check]}


def test_the_same_request_asks_other_texts_and_its_own_salt_the_same_ones(
    client: httpx.Client, services: Services, settings: Settings, vendor: Vendor, served: dict[str, Any]
) -> None:
    def audited(**more: Any) -> tuple[dict[str, Any], list[str], list[bytes]]:
        vendor.asked.clear()
        # A worker of its own, which remembers no answers.
        audit = ended(client, InlineWorker(services.database, services.store, settings), {**served, **more})
        stages = ("probe", "attack_deepwordbug", "closing")
        records = [client.get(f"/v1/audits/{audit['id']}/records/0", params={"stage": one}).content for one in stages]
        return audit, list(vendor.asked), records

    first, asked, records = audited()
    second, others, other_records = audited()
    assert first["spec"]["drawn_salt"] != second["spec"]["drawn_salt"]
    assert first["spec_digest"] == second["spec_digest"]
    # What is asked of texts as they are, and no more than that and what is like it by chance.
    assert len(set(asked) & set(others)) < len(set(asked)) / 2
    assert records != other_records

    repeated = asked_again(first["spec"])
    assert repeated["salt"] == first["spec"]["drawn_salt"]
    again, same, same_records = audited(salt=repeated["salt"])
    assert (same, same_records) == (asked, records)
    flags = [{flag["code"] for flag in one["checks"][0]["result"]["flags"]} for one in (first, again)]
    assert flags[1] - flags[0] == {"chosen_salt"}


def noised(attacker: str, text: str, number: int) -> str:
    """Return what anybody can make of a text of a dataset who knows the seed."""
    perturber = Perturber(attacker, Noise(), Lexicons(None))
    return noisy_copy(perturber, (text,), 0.5, noise_generator(audit_seeds(3), attacker, 0.5, 0, number)).parts[0]


def test_noise_is_none_that_a_vendor_could_make_before(
    client: httpx.Client, worker: InlineWorker, vendor: Vendor, served: dict[str, Any]
) -> None:
    told = {**served, "seed": 3, "checks": [{"kind": "low_level_attack", "attackers": ATTACKERS, "levels": [0.5]}]}
    asked = []
    for _ in range(2):
        vendor.asked.clear()
        ended(client, worker, told)
        asked.append(set(vendor.asked))
    rows = texts.sentences(40, seed=6)
    plain = {text for text, _ in rows}
    made = {noised(name, text, number) for name in ATTACKERS for number, (text, _) in enumerate(rows)}
    assert len(asked[0] - plain) > 8
    assert not (asked[0] - plain) & made
    assert not (asked[0] & asked[1]) - plain


def test_nobody_reads_a_salt_before_all_is_measured(
    client: httpx.Client, services: Services, worker: InlineWorker, served: dict[str, Any]
) -> None:
    audit = client.post("/v1/audits", json=served).json()
    with services.database.read() as session:
        drawn = session.get_one(AuditRow, audit["id"]).spec["drawn_salt"]
    told = [client.get(f"/v1/audits/{audit['id']}"), client.get(f"/v1/audits/{audit['id']}/report")]
    client.post(f"/v1/audits/{audit['id']}/cancel")
    # A cancelled one may be taken up again.
    told += [client.get(f"/v1/audits/{audit['id']}"), client.get(f"/v1/audits/{audit['id']}/report")]
    told.append(client.get(f"/v1/audits/{audit['id']}/events"))
    assert [one.status_code for one in told] == [200] * 5
    assert not any(drawn in one.text for one in told)
    bundle = client.get(f"/v1/audits/{audit['id']}/bundle")
    assert drawn.encode() not in bundle.content


def test_a_salt_is_of_models_behind_a_url(client: httpx.Client, services: Services, served: dict[str, Any]) -> None:
    here = submission(*upload_both(client))
    answer = client.post("/v1/audits", json={**here, "salt": "0" * 32})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/salt"]
    told = client.post("/v1/audits", json=here).json()
    with services.database.read() as session:
        assert "drawn_salt" not in session.get_one(AuditRow, told["id"]).spec
    answer = client.post("/v1/audits", json={**served, "salt": "mine"})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/salt"]
