"""Plans by real workers, which are killed in every job of one, and the broker with them."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from app.cli import main
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.states import TERMINAL
from seatrial.store.tables import AuditRow, HardeningRow
from tests import assets
from tests.e2e.deployment import Deployment
from tests.e2e.test_hardenings import add_worker, body, saved, weights
from tests.servers import Process, Valkey, eventually

pytestmark = pytest.mark.slow


@dataclass
class Disaster:
    """Kills every worker at once, and the broker, and starts others."""

    deployment: Deployment
    valkey: Valkey | None
    workers: list[Process] = field(default_factory=list)
    seen: int = 0

    def strike(self, moment: Callable[[], object]) -> None:
        """Kill as soon as the moment has come, and only then start others."""
        eventually(moment, timeout_s=180, every_s=0.01, what="the moment")
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
        if self.valkey is not None:
            self.valkey.stop()
        for worker in self.workers:
            worker.wait()
        assert moment(), "it was over before anybody was killed"
        self.seen += 1
        if self.valkey is not None:
            self.valkey.start()
        self.begin()

    def begin(self) -> None:
        """Start as many workers as the set-up has."""
        self.workers = [add_worker(self.deployment) for _ in range(2 if self.valkey else 1)]


def submitted(deployment: Deployment, asked: dict[str, Any], *, seed: int) -> str:
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 40, "effort": "quick", "random_start": True}
    audit = {"model": "hardened", "dataset": asked["audit"]["dataset"], "checks": [check], "samples": 200, "seed": seed}
    policy = {"name": "release", "rules": [{"metric": "uncertainty_span.mus", "max": 2.3}]}
    steps = [
        {"kind": "harden", "hardening": asked},
        {"kind": "audit", "audit": {**audit, "batch_size": 20, "shards": 10}},
        {"kind": "judge", "policy": policy},
        {"kind": "attest"},
    ]
    answer = deployment.client.post("/v1/plans", json={"name": "release", "steps": steps})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def read(deployment: Deployment, plan: str) -> dict[str, Any]:
    told: dict[str, Any] = deployment.client.get(f"/v1/plans/{plan}").json()
    return told


def ended(deployment: Deployment, plan: str) -> dict[str, Any]:
    eventually(
        lambda: read(deployment, plan)["state"] in TERMINAL, timeout_s=300, every_s=0.3, what=f"the end of {plan}"
    )
    return read(deployment, plan)


@pytest.mark.drill
@pytest.mark.parametrize("setup", ["embedded", "distributed"])
def test_workers_and_broker_killed_in_every_job_change_nothing(
    request: pytest.FixtureRequest, setup: str, tmp_path: Path
) -> None:
    valkey = request.getfixturevalue("valkey") if setup == "distributed" else None
    deployment: Deployment = request.getfixturevalue("distributed_on_valkey" if valkey else "embedded")
    KeyFolder(deployment.settings.home / "signing").create()
    disaster = Disaster(deployment, valkey)
    disaster.begin()
    asked = body(deployment, epochs=12, max_accuracy_loss=1.0)
    plan = submitted(deployment, asked, seed=1)

    def job(step: int) -> str:
        return str(read(deployment, plan)["steps"][step]["job"])

    def hardening() -> HardeningRow:
        with deployment.database.read() as session:
            return session.get_one(HardeningRow, job(0))

    def is_running(audit: str | None) -> bool:
        with deployment.database.read() as session:
            query = select(func.count()).select_from(AuditRow).where(AuditRow.id == audit, AuditRow.state == "running")
            return bool(session.scalar(query))

    eventually(lambda: read(deployment, plan)["steps"][0]["job"], what="the hardening")
    disaster.strike(lambda: hardening().stage == "training" and saved(deployment, job(0)))
    disaster.strike(lambda: is_running(hardening().audit_before) or is_running(hardening().audit_after))
    disaster.strike(lambda: read(deployment, plan)["steps"][1]["job"] and is_running(job(1)))
    told = ended(deployment, plan)
    assert (told["state"], told["verdict"], told["error"]) == ("succeeded", "passed", None), told
    assert disaster.seen == 3

    undisturbed = ended(deployment, submitted(deployment, asked, seed=1))
    assert undisturbed["state"] == "succeeded", undisturbed
    made = [one["steps"][0]["result"]["model"] for one in (told, undisturbed)]
    ours, theirs = (weights(deployment.client, model) for model in made)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    first, second = (one["steps"][1]["job"] for one in (told, undisturbed))
    assert deployment.records(first) == deployment.records(second)
    # Each job was made once, whatever was killed: two plans, two hardenings with a pair each, two audits of their own.
    with deployment.database.read() as session:
        counts = [session.scalar(select(func.count()).select_from(table)) for table in (HardeningRow, AuditRow)]
    assert counts == [2, 6]
    judgement = told["steps"][2]["result"]["judgement"]
    signed = deployment.client.get(f"/v1/audits/{first}/attestation", params={"judgement": judgement})
    assert signed.headers["etag"] == f'"{told["steps"][3]["result"]["digest"]}"'
    (tmp_path / "verdict.jsonl").write_bytes(signed.content)
    (tmp_path / "m.safetensors").write_bytes(deployment.client.get(f"/v1/models/{made[0]}/content").content)
    (tmp_path / "keys.json").write_bytes(deployment.client.get("/.well-known/seatrial-keys.json").content)
    words = [str(tmp_path / name) for name in ("verdict.jsonl", "m.safetensors", "keys.json")]
    verified = CliRunner().invoke(main, ["verify", words[0], "--model", words[1], "--public-key", words[2]])
    assert verified.exit_code == 0, verified.output
    # The model as it was is another one, whatever the name says.
    (tmp_path / "m.safetensors").write_bytes(assets.weights())
    refused = CliRunner().invoke(main, ["verify", words[0], "--model", words[1], "--public-key", words[2]])
    assert refused.exit_code == 1, refused.output
