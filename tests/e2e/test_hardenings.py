"""Hardenings by real workers: killed in mid-training, resumed by another, audited in pairs, cancelled."""

import io
import signal
import time
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load
from sqlalchemy import select

from seatrial.store.tables import HardeningRow
from tests import assets
from tests.e2e.deployment import Deployment, on_both
from tests.servers import Process, eventually

pytestmark = pytest.mark.slow


def add_worker(deployment: Deployment) -> Process:
    deployment.environment["SAVING"] = "yes"
    return deployment.add_worker(module="tests.e2e.saving_worker")


def npz(start: int, stop: int) -> bytes:
    images, labels = assets.digits()
    stream = io.BytesIO()
    np.savez(stream, images=images[start:stop], labels=labels[start:stop])
    return stream.getvalue()


def body(deployment: Deployment, *, epochs: int, **more: Any) -> dict[str, Any]:
    """Upload a model, what it is trained on and what it is audited on; return a hardening of it."""
    model, audited = deployment.once("uploads", deployment.upload)
    manifest = assets.dataset_manifest("training", split="train")
    uploaded = deployment.client.post("/v1/datasets", **assets.multipart(manifest, "t.npz", npz(0, 400)))
    assert uploaded.status_code == 201, uploaded.text
    params = {"epochs": epochs, "batch_size": 40, "steps": 4, "epsilon": 0.2, "learning_rate": 0.02, "keep": "last"}
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5, "effort": "quick"}
    return {
        "model": model,
        "dataset": uploaded.json()["id"],
        "method": "adversarial",
        "params": params,
        "seed": 7,
        "audit": {"dataset": audited, "checks": [check], "samples": 60},
        **more,
    }


def submit(deployment: Deployment, asked: dict[str, Any]) -> str:
    answer = deployment.client.post("/v1/hardenings", json=asked)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def read(deployment: Deployment, hardening: str) -> dict[str, Any]:
    told: dict[str, Any] = deployment.client.get(f"/v1/hardenings/{hardening}").json()
    return told


def until(deployment: Deployment, hardening: str, *states: str) -> dict[str, Any]:
    def ended() -> bool:
        return read(deployment, hardening)["state"] in states

    eventually(ended, timeout_s=180, every_s=0.2, what=f"{hardening} being {states}")
    return read(deployment, hardening)


def saved(deployment: Deployment, hardening: str) -> str | None:
    with deployment.database.read() as session:
        return session.scalar(select(HardeningRow.saved_digest).where(HardeningRow.id == hardening))


def weights(client: httpx.Client, model: str) -> dict[str, np.ndarray]:
    answer = client.get(f"/v1/models/{model}/weights")
    assert answer.status_code == 200, answer.text
    return load(answer.content)


@on_both("embedded")
def test_a_worker_killed_in_mid_training_costs_no_bit_and_the_pair_is_compared(deployment: Deployment) -> None:
    policy = {"name": "release", "rules": [{"metric": "uncertainty_span.mus", "max": 2.0}]}
    asked = body(deployment, epochs=12, max_accuracy_loss=1.0, promote="hardened")
    asked["audit"]["policy"] = policy
    killed = add_worker(deployment)
    disturbed = submit(deployment, asked)
    eventually(lambda: saved(deployment, disturbed), timeout_s=120, every_s=0.02, what="a save")
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert read(deployment, disturbed)["hardened"] is None
    add_worker(deployment)
    if deployment.is_distributed:
        add_worker(deployment)
    first = until(deployment, disturbed, "succeeded", "failed")
    second = until(deployment, submit(deployment, {**asked, "promote": None}), "succeeded", "failed")
    assert first["error"] is second["error"] is None
    with deployment.database.read() as session:
        assert session.get_one(HardeningRow, disturbed).attempts == 2
    client = deployment.client
    ours, theirs, before = (weights(client, each) for each in (first["hardened"], second["hardened"], asked["model"]))
    assert all(np.array_equal(ours[name], theirs[name]) for name in before)
    assert any(not np.array_equal(ours[name], before[name]) for name in before)
    assert first["curves"] == second["curves"]
    assert [point["epoch"] for point in first["curves"]] == [*range(1, 13)]
    # The new version is a model like any other, the next of the one it was made of.
    made = client.get(f"/v1/models/{first['hardened']}").json()
    assert (made["name"], made["version"], made["derived_from"]) == ("digits", "1+adversarial.1", asked["model"])
    result = first["result"]
    span = next(one for one in result["differences"] if one["metric"] == "uncertainty_span.mus")
    assert span["worse_by"]["method"] == "paired"
    assert span["worse_by"]["value"] == pytest.approx(span["after"]["value"] - span["before"]["value"], abs=1e-9)
    assert result["accuracy"]["worse_by"]["n"] == 60
    assert (first["verdict"], result["is_promotable"], second["result"]["promoted"]) == ("passed", True, None)
    baseline = client.get("/v1/baselines").json()["items"][0]
    assert (baseline["id"], baseline["audit"]) == (result["promoted"], first["audit_after"])
    events = client.get(f"/v1/hardenings/{disturbed}/events").text
    assert "event: verdict" in events
    assert events.count('"point"') >= 12


@on_both("embedded")
def test_a_training_is_cancelled_within_a_second_of_a_step(deployment: Deployment) -> None:
    add_worker(deployment)
    hardening = submit(deployment, body(deployment, epochs=1000))
    eventually(lambda: saved(deployment, hardening), timeout_s=120, every_s=0.02, what="a save")
    assert deployment.client.post(f"/v1/hardenings/{hardening}/cancel").json()["state"] == "cancelling"
    began_at = time.monotonic()
    told = until(deployment, hardening, "cancelled")
    # Looks are a second apart; a step of this training takes milliseconds, and this machine may be busy.
    assert time.monotonic() - began_at < 10
    assert (told["hardened"], told["audit_after"]) == (None, None)
    assert saved(deployment, hardening) is None
