"""What a hardening is refused for before anything is queued, what is told of one, and what no two requests share."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from seatrial.contracts.hardenings import HardeningRead, HardeningSummary
from tests import assets
from tests.e2e.deployment import Deployment

pytestmark = pytest.mark.slow

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 2}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A service without workers."""
    with Deployment(tmp_path_factory.mktemp("service")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def asked(service: Deployment) -> dict[str, Any]:
    """A request that is in order."""
    model, audited = service.upload()
    images, labels = assets.digits()
    stream = io.BytesIO()
    np.savez(stream, images=images[:300], labels=labels[:300])
    manifest = assets.dataset_manifest("training", split="train")
    uploaded = service.client.post("/v1/datasets", **assets.multipart(manifest, "t.npz", stream.getvalue()))
    return {
        "model": model,
        "dataset": uploaded.json()["id"],
        "method": "adversarial",
        "params": {"epochs": 2, "steps": 3},
        "audit": {"dataset": audited, "checks": [CHECK], "samples": 50},
    }


def changed(asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    audit = {**asked["audit"], **more.pop("audit", {})}
    return {**asked, "audit": audit, **more}


@pytest.mark.parametrize(
    ("more", "code", "pointer"),
    [
        ({"method": "magic"}, "invalid-request", "/method"),
        ({"method": "pgd_k", "params": {}}, "task-mismatch", "/method"),
        ({"params": {"epochs": 0}}, "invalid-request", "/params/epochs"),
        ({"params": {"epsilonn": 0.1}}, "invalid-request", "/params/epsilonn"),
        ({"model": "mdl_none"}, "unknown-reference", "/model"),
        ({"dataset": "dat_none"}, "unknown-reference", "/dataset"),
        ({"validation_dataset": "dat_none"}, "unknown-reference", "/validation_dataset"),
        ({"audit": {"dataset": "dat_none"}}, "unknown-reference", "/audit/dataset"),
        ({"audit": {"policy": "none"}}, "unknown-policy", "/audit/policy"),
        ({"promote": "champion"}, "invalid-request", "/audit/policy"),
        ({"version": "1"}, "conflict", "/version"),
    ],
)
def test_it_is_refused_by_the_field_at_fault(
    service: Deployment, asked: dict[str, Any], more: dict[str, Any], code: str, pointer: str
) -> None:
    for path in ("/v1/hardenings", "/v1/hardenings/estimate"):
        answer = service.client.post(path, json=changed(asked, **more))
        assert answer.status_code in (409, 422), answer.text
        assert (answer.json()["code"], answer.json()["errors"][0]["pointer"]) == (code, pointer)


def test_the_audited_file_is_not_trained_on_under_any_name(service: Deployment, asked: dict[str, Any]) -> None:
    manifest = assets.dataset_manifest("another-name", split="train")
    again = service.client.post("/v1/datasets", **assets.multipart(manifest, "x.npz", assets.npz())).json()["id"]
    for dataset in (asked["audit"]["dataset"], again):
        answer = service.client.post("/v1/hardenings", json=changed(asked, dataset=dataset))
        assert (answer.status_code, answer.json()["code"]) == (422, "training-overlaps-audit")


def test_an_estimate_tells_passes_and_splits_as_the_worker_does(service: Deployment, asked: dict[str, Any]) -> None:
    told = service.client.post("/v1/hardenings/estimate", json=asked).json()
    assert (told["examples"], told["validation_examples"]) == (270, 30)
    # An epoch: three steps of the attack and one of the weights; each is judged clean and attacked.
    assert told["backward_passes"] == 2 * (270 * 4 + 30 * 3)
    assert told["forward_passes"] == 2 * 30 * 2
    fitted = changed(asked, method="recalibrate", params={})
    assert service.client.post("/v1/hardenings/estimate", json=fitted).json()["validation_examples"] == 300


def test_two_at_once_make_two_versions_and_never_one_twice(service: Deployment, asked: dict[str, Any]) -> None:
    client = service.client
    first, second = (client.post("/v1/hardenings", json=asked).json() for _ in range(2))
    versions = [each["spec"]["version"] for each in (first, second)]
    assert versions == ["1+adversarial.1", "1+adversarial.2"]
    answer = client.post("/v1/hardenings", json=changed(asked, version=versions[1]))
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/version")
    for each in (first, second):
        client.post(f"/v1/hardenings/{each['id']}/cancel")


def test_one_key_is_one_hardening_which_is_read_listed_and_cancelled(
    service: Deployment, asked: dict[str, Any]
) -> None:
    client, headers = service.client, {"Idempotency-Key": "once"}
    first, second = (client.post("/v1/hardenings", json=asked, headers=headers) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (202, second.json()["id"])
    told = HardeningRead.model_validate(client.get(first.headers["location"]).json())
    assert (told.state, told.spec["version"], told.params["steps"]) == ("queued", "1+adversarial.1", 3)
    items = client.get("/v1/hardenings", params={"model": asked["model"]}).json()["items"]
    assert HardeningSummary.model_validate(items[0]).id == told.id
    assert client.post(f"/v1/hardenings/{told.id}/retry").status_code == 409
    assert client.post(f"/v1/hardenings/{told.id}/cancel").json()["state"] == "cancelled"
    assert client.post(f"/v1/hardenings/{told.id}/cancel").status_code == 409
    assert client.get("/v1/hardenings/hrd_none").status_code == 404
    events = client.get(f"/v1/hardenings/{told.id}/events").text
    assert events.count("event: hardening") == 2
    weights = client.get(f"/v1/models/{asked['model']}/weights")
    assert weights.content == assets.weights()
