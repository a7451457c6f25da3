"""Certificates over HTTP: killed workers, shards and workers change no number, on both set-ups."""

import io
import signal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import nn

from tests import assets
from tests.e2e.deployment import Deployment
from tests.servers import eventually

pytestmark = pytest.mark.slow

LAYERS: list[list[Any]] = [["conv", 1, 4, 3, 2, 1], ["relu"], ["flatten"], ["linear", 64, 10]]
SIGMA = 0.25


@lru_cache(maxsize=1)
def trained() -> bytes:
    """Return a tiny CNN trained on noisy digits, as safetensors."""
    images, labels = assets.digits()
    inputs, targets = torch.tensor(images[:1000]).float() / 255, torch.tensor(labels[:1000])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
        optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
        for _ in range(25):
            for batch in torch.randperm(len(inputs)).split(100):
                optimizer.zero_grad()
                noisy = inputs[batch] + SIGMA * torch.randn_like(inputs[batch])
                nn.functional.cross_entropy(network(noisy), targets[batch]).backward()
                optimizer.step()
    return save_safetensors(network.state_dict())


def upload(deployment: Deployment) -> tuple[str, str]:
    """Return the ids of the tiny CNN and 500 digits, uploaded once."""

    def sent() -> tuple[str, str]:
        manifest = {**assets.model_manifest("noisy-digits"), "architecture": {"kind": "layers", "layers": LAYERS}}
        model = deployment.client.post("/v1/models", **assets.multipart(manifest, "m.safetensors", trained()))
        assert model.status_code == 201, model.text
        npz = assets.npz(count=500)
        data = deployment.client.post(
            "/v1/datasets", **assets.multipart(assets.dataset_manifest("digits-500"), "d.npz", npz)
        )
        assert data.status_code == 201, data.text
        return model.json()["id"], data.json()["id"]

    return deployment.once("certificates", sent)


def submit(deployment: Deployment, model: str, dataset: str, *, shards: int, samples: int = 60, **params: Any) -> str:
    check = {"kind": "certified_calibration", "sigma": SIGMA, "n": 2000, "radii": [0.0, 0.1, 0.25], **params}
    body = {"model": model, "dataset": dataset, "seed": 7, "samples": samples, "shards": shards, "checks": [check]}
    answer = deployment.client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def records(deployment: Deployment, audit_id: str, stage: str = "certify") -> bytes:
    answer = deployment.client.get(
        f"/v1/audits/{audit_id}/records/certified_calibration", params={"stage": stage, "format": "parquet"}
    )
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


@pytest.mark.drill
def test_500_images_and_10_000_draws_survive_a_killed_worker(embedded: Deployment) -> None:
    model, dataset = upload(embedded)
    worker = embedded.add_worker()
    killed = submit(embedded, model, dataset, shards=6, samples=500, n=10_000)
    eventually(
        lambda: sum(s.state == "succeeded" for s in embedded.shards(killed, "certify")) >= 2,
        timeout_s=240,
    )
    eventually(lambda: any(s.state == "running" for s in embedded.shards(killed, "certify")), every_s=0.01)
    worker.signal(signal.SIGKILL)
    worker.wait()
    embedded.add_worker()
    embedded.add_worker()
    ended = embedded.wait(killed, timeout_s=300)
    assert ended["state"] == "succeeded"
    assert sorted(shard.attempts for shard in embedded.shards(killed, "certify")) == [1] * 5 + [2]
    undisturbed = submit(embedded, model, dataset, shards=1, samples=500, n=10_000)
    expected = embedded.wait(undisturbed, timeout_s=300)
    assert records(embedded, killed) == records(embedded, undisturbed)
    assert ended["checks"][0]["result"] == expected["checks"][0]["result"]
    table = pq.read_table(io.BytesIO(records(embedded, killed)))
    assert table.num_rows == 500
    assert set(table["draws"].to_pylist()) == {10_000}


@pytest.mark.drill
def test_neither_shards_nor_workers_nor_a_kill_change_a_certificate(distributed: Deployment) -> None:
    deployment = distributed
    model, dataset = upload(deployment)
    worker = deployment.add_worker()
    params = {"sampling": "adaptive", "ace_attacks": ["ace_lower_true"], "attack_steps": 5, "attack_draws": 4}
    whole = submit(deployment, model, dataset, shards=1, **params)
    expected = deployment.wait(whole)
    assert expected["state"] == "succeeded", expected
    deployment.add_worker()
    cut = submit(deployment, model, dataset, shards=7, **params, n0=100)
    eventually(lambda: any(s.state == "running" for s in deployment.shards(cut, "certify")), every_s=0.01)
    worker.signal(signal.SIGKILL)
    worker.wait()
    ended = deployment.wait(cut)
    assert ended["state"] == "succeeded", ended
    assert len(deployment.shards(cut, "certify")) == 7
    for stage in ("certify", "ace_lower_true"):
        assert records(deployment, cut, stage) == records(deployment, whole, stage)
    assert ended["checks"][0]["result"] == expected["checks"][0]["result"]


@pytest.mark.drill
def test_the_answer_holds_what_was_promised(shared: Deployment) -> None:
    model, dataset = upload(shared)
    audit_id = submit(
        shared,
        model,
        dataset,
        shards=2,
        solvers=["exact", "admm", "dece", "brier"],
        ace_attacks=["ace_lower_true", "ace_raise_predicted"],
        attack_steps=5,
        attack_draws=4,
    )
    ended = shared.wait(audit_id)
    assert ended["state"] == "succeeded", ended
    found = {name: one["value"] for name, one in ended["checks"][0]["result"]["estimates"].items()}
    for radius in ("0", "0.1", "0.25"):
        below = [found[f"{name}[radius={radius}]"] for name in ("acce", "dece", "brier_ece", "ece")]
        assert max(below) <= found[f"cce[radius={radius}]"] + 1e-9
    for attack in ("ace_lower_true", "ace_raise_predicted"):
        assert found[f"ece[attack={attack},radius=0.25]"] <= found["cce[radius=0.25]"]
    accuracies = [found[f"certified_accuracy[radius={radius}]"] for radius in ("0", "0.1", "0.25")]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] > 0.3
    report = shared.client.get(f"/v1/audits/{audit_id}/report", headers={"Accept": "text/html"})
    assert report.status_code == 200
    assert "Certified calibration" in report.text
    for figure in ("certified", "reliability", "interval_width"):
        drawn = shared.client.get(f"/v1/audits/{audit_id}/figures/certified_calibration/{figure}")
        assert drawn.status_code == 200


@pytest.mark.drill
def test_what_cannot_be_certified_is_said_at_once(shared: Deployment) -> None:
    model, dataset = upload(shared)
    check = {"kind": "certified_calibration", "n": 20, "alpha": 1e-9}
    body = {"model": model, "dataset": dataset, "samples": 20, "checks": [check]}
    audit_id = shared.client.post("/v1/audits", json=body).json()["id"]
    ended = shared.wait(audit_id)
    error = ended["checks"][0]["error"]
    assert (error["code"], error["field"]) == ("too-few-draws", "/checks/0/n")
    body["checks"] = [{"kind": "certified_calibration", "radii": [0.5, 0.1]}]
    refused = shared.client.post("/v1/audits", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/checks/0/radii"


@pytest.mark.drill
def test_cancel_stops_between_two_forward_passes(shared: Deployment) -> None:
    model, dataset = upload(shared)
    audit_id = submit(shared, model, dataset, shards=1, samples=200, n=1_000_000)
    eventually(lambda: any(s.state == "running" for s in shared.shards(audit_id, "certify")), every_s=0.01)
    assert shared.client.post(f"/v1/audits/{audit_id}/cancel").status_code in (200, 202)
    assert shared.wait(audit_id, timeout_s=20)["state"] == "cancelled"


def test_cancel_stops_a_solver_and_frees_the_worker(shared: Deployment) -> None:
    """ADMM computes for minutes after the last stage; the next audit must not wait for it."""
    model, dataset = upload(shared)
    radii = [0.005 * number for number in range(1, 33)]
    audit_id = submit(shared, model, dataset, shards=1, samples=300, n=200, radii=radii, solvers=["admm"])
    eventually(
        lambda: any(s.state == "succeeded" for s in shared.shards(audit_id, "certify")), timeout_s=60, every_s=0.05
    )
    assert shared.client.post(f"/v1/audits/{audit_id}/cancel").status_code in (200, 202)
    assert shared.wait(audit_id, timeout_s=20)["state"] == "cancelled"
    following = submit(shared, model, dataset, shards=1, samples=10, n=200)
    assert shared.wait(following, timeout_s=60)["state"] == "succeeded"


@pytest.mark.drill
def test_non_finite_outputs_are_errored_and_never_certified(shared: Deployment) -> None:
    """The last layer's weights overflow on some images, and on more of them with noise."""
    manifest = {**assets.model_manifest("overflowing"), "architecture": {"kind": "layers", "layers": LAYERS}}

    tensors = load_safetensors(trained())
    name = next(name for name in tensors if tensors[name].shape == (10, 64))
    tensors[name] = tensors[name] * np.float32(3e37)
    _, dataset = upload(shared)
    answer = shared.client.post("/v1/models", **assets.multipart(manifest, "m.safetensors", save_safetensors(tensors)))
    assert answer.status_code == 201, answer.text
    audit_id = submit(shared, answer.json()["id"], dataset, shards=1, samples=20)
    ended = shared.wait(audit_id)
    assert ended["state"] == "failed"
    assert ended["checks"][0]["error"]["code"] in ("too-many-errors", "outputs-not-finite")
