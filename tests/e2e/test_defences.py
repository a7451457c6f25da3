"""Test-time defences over HTTP: what was promised, and games that go on after their worker was killed."""

import signal
from typing import Any

import pytest

from tests import assets
from tests.e2e.deployment import Deployment
from tests.servers import eventually

pytestmark = pytest.mark.slow

RMC = {
    "name": "rmc",
    "changes": {"neighbours": 60, "adversarial_passes": 1, "attack_steps": 2, "epochs": 6, "learning_rate": 0.002},
}


def upload(deployment: Deployment) -> tuple[str, str, str]:
    """Return the ids of the digits classifier, digits to audit and digits to learn from, uploaded once."""

    def sent() -> tuple[str, str, str]:
        model, dataset = deployment.once("digits", deployment.upload)
        training = deployment.client.post(
            "/v1/datasets", **assets.multipart(assets.dataset_manifest("training"), "t.npz", assets.npz(200, first=0))
        )
        assert training.status_code == 201, training.text
        return model, dataset, training.json()["id"]

    return deployment.once("defences", sent)


def submit(deployment: Deployment, model: str, dataset: str, training: str, **params: Any) -> str:
    check = {
        "kind": "transductive_attack",
        "defences": [RMC],
        "attacks": ["transfer_pgd", "fpa", "gmsa_min"],
        "epsilon": 0.15,
        "step_size": 0.03,
        "steps": 5,
        "iterations": 2,
        "training_dataset": training,
        **params,
    }
    body = {"model": model, "dataset": dataset, "seed": 7, "samples": 20, "checks": [check]}
    answer = deployment.client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def all_records(deployment: Deployment, audit_id: str, stages: list[str]) -> list[bytes]:
    found = []
    for stage in stages:
        answer = deployment.client.get(
            f"/v1/audits/{audit_id}/records/transductive_attack", params={"stage": stage, "format": "parquet"}
        )
        assert answer.status_code == 200, answer.text
        found.append(answer.content)
    return found


@pytest.mark.drill
def test_a_killed_worker_costs_no_round_that_was_saved_and_no_number(embedded: Deployment) -> None:
    deployment = embedded
    model, dataset, training = upload(deployment)
    worker = deployment.add_worker()
    killed = submit(deployment, model, dataset, training, attacks=["transfer_pgd", "gmsa_min"])
    eventually(
        lambda: any(s.state == "running" and s.done >= 3 for s in deployment.shards(killed, "rmc.gmsa_min.0")),
        timeout_s=240,
        every_s=0.02,
    )
    worker.signal(signal.SIGKILL)
    worker.wait()
    deployment.add_worker()
    ended = deployment.wait(killed, timeout_s=240)
    assert ended["state"] == "succeeded", ended
    undisturbed = submit(deployment, model, dataset, training, attacks=["transfer_pgd", "gmsa_min"])
    expected = deployment.wait(undisturbed, timeout_s=240)
    stages = ["static", *(f"rmc.{attack}.0" for attack in ("clean", "transfer_pgd", "gmsa_min"))]
    assert all_records(deployment, killed, stages) == all_records(deployment, undisturbed, stages)
    assert ended["checks"][0]["result"] == expected["checks"][0]["result"]


@pytest.mark.drill
def test_an_attack_that_knows_the_defence_sees_through_it(shared: Deployment) -> None:
    model, dataset, training = upload(shared)
    defences = [RMC, {"name": "identity"}]
    audit_id = submit(shared, model, dataset, training, defences=defences)
    ended = shared.wait(audit_id, timeout_s=240)
    assert ended["state"] == "succeeded", ended
    result = ended["checks"][0]["result"]
    found = {name: one["value"] for name, one in result["estimates"].items()}
    assert found["robustness[defence=identity,attack=transfer_pgd]"] == found["static_robustness"]
    assert found["clean_accuracy[defence=identity]"] == found["static_accuracy"]
    assert found["robustness[defence=rmc,attack=transfer_pgd]"] > found["static_robustness"]
    assert found["robustness[defence=rmc,attack=fpa]"] < found["robustness[defence=rmc,attack=transfer_pgd]"]
    report = shared.client.get(f"/v1/audits/{audit_id}/report", headers={"Accept": "text/html"})
    assert report.status_code == 200
    assert "Test-time defences" in report.text


@pytest.mark.drill
def test_what_cannot_be_is_said_at_once(shared: Deployment) -> None:
    model, dataset, _ = upload(shared)
    check: dict[str, Any] = {"kind": "transductive_attack", "defences": [{"name": "rmc"}]}
    body = {"model": model, "dataset": dataset, "samples": 20, "checks": [check]}
    refused = shared.client.post("/v1/audits", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/checks/0/training_dataset"
    refused = shared.client.post("/v1/audits", json={**body, "checks": [{**check, "training_dataset": dataset}]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/checks/0/training_dataset"
    unknown = {**body, "checks": [{"kind": "transductive_attack", "defences": [{"name": "nobody"}]}]}
    ended = shared.wait(shared.client.post("/v1/audits", json=unknown).json()["id"])
    assert ended["checks"][0]["error"]["field"] == "/checks/0/defences/0"
    # The digits classifier has no batch norm, so DENT cannot work on it.
    unfit = {**body, "checks": [{"kind": "transductive_attack", "defences": [{"name": "identity"}, {"name": "dent"}]}]}
    error = shared.wait(shared.client.post("/v1/audits", json=unfit).json()["id"])["checks"][0]["error"]
    assert error["field"] == "/checks/0/defences/1"
    assert "BatchNorm2d" in error["detail"]
