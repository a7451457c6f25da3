"""A whole deployment in a folder: the API in this process, workers as real processes, short leases."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from app.main import create_app
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables import CheckRow, EventRow, ShardRow, WorkerRow
from seatrial.store.tables.workers import SCHEDULER
from tests import assets
from tests.databases import migrated
from tests.servers import Process, celery_worker, eventually, local_worker, stop_together

LEASE_S = 3.0

ENDED = {"succeeded", "failed", "cancelled"}


def on_both(first: str) -> pytest.MarkDecorator:
    """Run a test that takes ``deployment`` on ``first``, embedded or distributed, and with ``drill`` on the other."""
    (other,) = {"embedded", "distributed"} - {first}
    return pytest.mark.parametrize("deployment", [first, pytest.param(other, marks=pytest.mark.drill)], indirect=True)


class Deployment:
    """Embedded (SQLite, polling workers) or distributed (Postgres, broker, Celery workers and a scheduler)."""

    def __init__(
        self, home: Path, *, database_url: str = "", broker_url: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        self.is_distributed = bool(broker_url)
        self.environment = {
            "SEATRIAL_HOME": str(home),
            "SEATRIAL_DATABASE_URL": database_url,
            "SEATRIAL_BROKER_URL": broker_url,
            "SEATRIAL_LEASE_S": str(LEASE_S),
            "SEATRIAL_HEARTBEAT_S": "0.5",
            "SEATRIAL_REAP_S": "0.5",
            "SEATRIAL_POLL_S": "0.05",
            "SEATRIAL_TORCH_THREADS": "1",
            "SEATRIAL_REQUIRE_KEYS": "false",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        self.settings = Settings(
            home=home,
            database_url=database_url,
            broker_url=broker_url,
            require_keys=False,
            lease_s=LEASE_S,
            log_level="warning",
            heartbeat_s=0.5,
            torch_threads=1,
        )
        self.database: Database = migrated(self.settings)
        self.processes: list[Process] = []
        self._made: dict[str, Any] = {}
        self.client = TestClient(create_app(self.settings), base_url="http://127.0.0.1")

    def __enter__(self) -> Self:
        self.client.__enter__()
        if self.is_distributed:
            self._start(celery_worker(self.environment, self.home / "scheduler.log", queues="cpu", beat=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.logs())
        stop_together(self.processes)
        self.client.__exit__(kind, error, trace)
        self.database.dispose()

    def logs(self) -> str:
        """Return the end of every process's output."""
        return "\n".join(f"--- {p.log.name}\n{p.log.read_text()[-4000:]}" for p in self.processes)

    def _start(self, process: Process) -> Process:
        self.processes.append(process)
        return process

    def add_worker(self, **module: str) -> Process:
        """Start one more worker, of another ``module`` than the product's if one is given."""
        log = self.home / f"worker-{len(self.processes)}.log"
        start = celery_worker if self.is_distributed else local_worker
        before = self.workers_alive()
        process = self._start(start(self.environment, log, **module))
        eventually(lambda: self.workers_alive() > before, timeout_s=120, what="the worker telling it is there")
        return process

    def add_unhurried_worker(self) -> Process:
        """Start one more worker, none of whose shards begins and ends between two looks of a test on a busy machine."""
        self.environment["UNHURRIED"] = "yes"
        return self.add_worker(module="tests.e2e.unhurried_worker")

    def workers_alive(self) -> int:
        """Count the workers that told they are there and did not tell they leave."""
        with self.database.read() as session:
            told = select(func.count()).select_from(WorkerRow).where(WorkerRow.id != SCHEDULER)
            return session.scalar(told) or 0

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returned the first time it was asked for by this name here."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def upload(self, *, scale: float = 1.0, name: str = "digits") -> tuple[str, str]:
        """Upload the digits classifier and the held-out digits; return their ids."""
        model = self.client.post(
            "/v1/models", **assets.multipart(assets.model_manifest(name), "m.safetensors", assets.weights(scale))
        )
        assert model.status_code == 201, model.text
        data = self.client.post(
            "/v1/datasets", **assets.multipart(assets.dataset_manifest(name), "d.npz", assets.npz())
        )
        assert data.status_code == 201, data.text
        return model.json()["id"], data.json()["id"]

    def submit(self, model: str, dataset: str, **more: Any) -> str:
        """Submit an audit whose shards take an unhurried worker half a second, and return its id."""
        check = {
            "kind": "uncertainty_span",
            "epsilon": 0.1,
            "steps": 12,
            "effort": "quick",
            "random_start": True,
            **more.pop("params", {}),
        }
        body = {
            "model": model,
            "dataset": dataset,
            "seed": 7,
            "samples": 50,
            "batch_size": 10,
            "shards": 5,
            "checks": [check],
            **more,
        }
        answer = self.client.post("/v1/audits", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def audit(self, audit_id: str) -> dict[str, Any]:
        """Read an audit."""
        answer = self.client.get(f"/v1/audits/{audit_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(self, audit_id: str, *, timeout_s: float = 120.0) -> dict[str, Any]:
        """Wait until an audit has ended and return it."""
        eventually(
            lambda: self.audit(audit_id)["state"] in ENDED,
            timeout_s=timeout_s,
            every_s=0.2,
            what=f"the end of {audit_id}",
        )
        return self.audit(audit_id)

    def records(self, audit_id: str, stage: str = "attack") -> bytes:
        """Read the records of an audit's first check."""
        answer = self.client.get(f"/v1/audits/{audit_id}/records/0", params={"stage": stage, "format": "parquet"})
        assert answer.status_code == 200, answer.text
        return answer.content

    def shards(self, audit_id: str, stage: str = "attack") -> list[ShardRow]:
        """Read the rows of a stage's shards."""
        query = (
            select(ShardRow)
            .join(CheckRow, CheckRow.id == ShardRow.check_id)
            .where(CheckRow.audit_id == audit_id, ShardRow.stage == stage)
            .order_by(CheckRow.ordinal, ShardRow.ordinal)
        )
        with self.database.read() as session:
            return list(session.scalars(query))

    def until_shard(
        self, audit_id: str, condition: Callable[[list[ShardRow]], object], *, stage: str = "attack"
    ) -> None:
        """Wait until the shards of a stage are as wanted."""

        def look() -> object:
            return (shards := self.shards(audit_id, stage)) and condition(shards)

        try:
            eventually(look, timeout_s=60, every_s=0.01)
        except AssertionError:
            print([(row.stage, row.state, row.worker, row.finished_at) for row in self.shards(audit_id, stage)])
            print(self.logs())
            raise

    def events(self, audit_id: str) -> list[EventRow]:
        """Read the history of an audit."""
        with self.database.read() as session:
            return list(session.scalars(select(EventRow).where(EventRow.audit_id == audit_id).order_by(EventRow.seq)))

    def settle(self, seconds: float = 1.0) -> None:
        """Give a process that should do nothing the time to do something."""
        time.sleep(seconds)
