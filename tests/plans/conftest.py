"""A service whose plans are advanced by hand, on both databases."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.gates.service import judge_ended
from app.hardenings.advancing import _add_version
from app.main import create_app
from app.plans import advancing
from app.web.services import Services
from seatrial.attestation.key_folder import KeyFolder
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import (
    AuditRow,
    CheckRow,
    DatasetRow,
    DeliveryRow,
    HardeningRow,
    ModelRow,
    ProjectRow,
    WebhookRow,
)
from tests.conftest import BASE_URL, TestClient
from tests.databases import migrated_file, new_migrated_database
from tests.reports import fabricated
from tests.rows import FACTS

__all__ = ["world"]

RULE = {"metric": "uncertainty_span.mus", "max": 2.0}
ALL = ("audit", "judge", "attest", "notify")
HARDENED = ("harden", *ALL)
OUTCOME = {"digest": "sha256:" + "2" * 64, "weights_digest": "sha256:" + "3" * 64, "recalibration": None}
TOLD = {
    **{"differences": [], "not_compared": {}, "accuracy": None, "accuracy_holds": "passed", "judgement": None},
    **{"is_promotable": False, "promoted": None, "summary": ""},
}
"""What a hardening ends with, unless a test says otherwise."""


@dataclass
class World:
    """A service, and what a plan is made of."""

    client: TestClient
    services: Services
    project: str
    model: str
    dataset: str
    webhook: str
    training: str

    def steps(self, *kinds: str, most: float = 2.0) -> list[dict[str, Any]]:
        """Return steps of these kinds; ``most`` is what the policy lets the span be."""
        model = "hardened" if "harden" in kinds else self.model
        checks = [{"kind": "uncertainty_span"}]
        asked = {"model": model, "dataset": self.dataset, "checks": checks}
        hardening = {
            **{"model": self.model, "dataset": self.training, "method": "adversarial", "params": {"epochs": 2}},
            "audit": {"dataset": self.dataset, "checks": checks, "samples": 50},
        }
        policy = {"name": "release", "rules": [{**RULE, "max": most}]}
        known: dict[str, dict[str, Any]] = {
            "harden": {"hardening": hardening},
            "audit": {"audit": asked},
            "judge": {"policy": policy},
            "attest": {},
            "notify": {"webhook": self.webhook},
        }
        return [{"kind": kind, **known[kind]} for kind in kinds]

    def submit(self, *kinds: str, **more: Any) -> str:
        """Submit a plan and return its id."""
        answer = self.client.post("/v1/plans", json={"steps": self.steps(*kinds, **more)})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def plan(self, plan_id: str) -> dict[str, Any]:
        """Read a plan."""
        told: dict[str, Any] = self.client.get(f"/v1/plans/{plan_id}").json()
        return told

    def states(self, plan_id: str) -> list[str]:
        """Return the states of the plan and of its steps."""
        told = self.plan(plan_id)
        return [told["state"], *(step["state"] for step in told["steps"])]

    def advance(self, **more: Any) -> int:
        """Do what is due."""
        return advancing.advance_plans(self.services, **more)

    def advance_one(self) -> None:
        """Do one step that is due, and leave what is due then."""
        step = advancing._claim(self.services, advancing.LEASE_S)
        if step is not None:
            advancing._ACTIONS[step.kind](self.services, step)

    def end_jobs(self, state: str = "succeeded", *, status: str = "delivered", **told: Any) -> None:
        """End every hardening, audit and message there is, as workers and receivers would."""
        with self.services.database.write() as session:
            for row in session.query(HardeningRow).filter(HardeningRow.state.in_(["queued", "running"])):
                row.state, row.stage = state, "auditing"
                if state == "succeeded":
                    row.outcome = {**OUTCOME, "size_bytes": 1}
                    row.hardened_id = _add_version(session, row)
                    session.get_one(ModelRow, row.hardened_id).state = "ready"
                    row.verdict, row.result = told.pop("verdict", None), {**TOLD, **told}
            for audit in session.query(AuditRow).filter(AuditRow.state.in_(["queued", "running"])):
                audit.state = state
                for check in session.query(CheckRow).filter_by(audit_id=audit.id):
                    check.state = state
                    check.result = fabricated.result() if state == "succeeded" else None
            session.query(DeliveryRow).filter_by(status="pending").update({"status": status})

    def judge(self) -> None:
        """Judge the audits that have ended by their own policies."""
        judge_ended(self.services)

    def run(self, plan_id: str) -> dict[str, Any]:
        """Advance a plan to its end."""
        for _ in range(20):
            self.advance()
            self.end_jobs()
        return self.plan(plan_id)

    def jobs(self) -> dict[str, int]:
        """Count what plans have made."""
        tables = ("audits", "judgements", "deliveries", "hardenings")
        with self.services.database.read() as session:
            connection = session.connection()
            counts = {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in tables}
            query = "SELECT count(*) FROM attestations WHERE judgement_id IS NOT NULL"
            return {**counts, "attestations": connection.exec_driver_sql(query).scalar_one()}


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A service that signs, with a model, a dataset and a webhook."""
    if request.param == "sqlite":
        yield from _on_sqlite(tmp_path)
        return
    with new_migrated_database(request.getfixturevalue("postgres_url")) as url:
        yield from _opened(Settings(home=tmp_path, require_keys=False, database_url=url))


@pytest.fixture
def sqlite_world(tmp_path: Path) -> Iterator[World]:
    """The same, of what the database makes no difference to."""
    yield from _on_sqlite(tmp_path)


def _on_sqlite(home: Path) -> Iterator[World]:
    shutil.copy(migrated_file(), home / "seatrial.db")
    yield from _opened(Settings(home=home, require_keys=False))


def _opened(settings: Settings) -> Iterator[World]:
    KeyFolder(settings.home / "signing").create()
    app = create_app(settings)
    services: Services = app.state.services
    # Not entered: nobody advances anything but the test.
    client = TestClient(app, base_url=BASE_URL, raise_server_exceptions=False)
    audit_id = fabricated.finished(services.database, services.store)
    with services.database.write() as session:
        training = DatasetRow(
            **{"id": new_id("dat"), "name": "training", "version": "1", "split": "train", "manifest": {}},
            **{"task": "image-classification", "digest": "sha256:" + "1" * 64, "size_bytes": 1, "format": "npz"},
            **{"facts": FACTS, "project_id": session.get_one(AuditRow, audit_id).project_id},
        )
        session.add(training)
        training_id = training.id
        audit = session.get_one(AuditRow, audit_id)
        project, model, dataset = audit.project_id, audit.model_id, audit.dataset_id
        session.get_one(ModelRow, model).state = "ready"
        # Of the operator, who asks without a key.
        session.query(ProjectRow).filter_by(name="default").update({"name": f"was-{project}"})
        session.flush()
        session.get_one(ProjectRow, project).name = "default"
        webhook = WebhookRow(
            id=new_id("whk"), project_id=project, url="http://127.0.0.1:1/", description="", secrets=[], events=[]
        )
        session.add(webhook)
        webhook_id = webhook.id
        session.query(CheckRow).filter_by(audit_id=audit_id).delete()
        session.delete(audit)
    yield World(client, services, project, model, dataset, webhook_id, training_id)
    services.database.dispose()
