"""One worker in this process: models checked, shards run, interruptions heeded."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy import Update, insert, select, update
from sqlalchemy.orm import Session
from torch import Tensor

from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import LocalStore
from seatrial.store.claiming import claim_check, claim_shard
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.lifecycle import cancel_audit, open_stage
from seatrial.store.settings import Settings
from seatrial.store.tables import CheckRow, ModelRow, ShardRow, WorkerRow
from tests import assets, texts
from tests.rows import add_audit, add_project
from tests.runtime.inline import InlineWorker
from tests.servers import eventually
from workers.errors import PreflightError
from workers.models.endpoint import EndpointClassifier
from workers.runtime import advancing, checking, inline
from workers.runtime.claims import Claim
from workers.runtime.interruptions import LeaseLost, ShardCancelled, ShuttingDown
from workers.runtime.seeds import example_generators
from workers.runtime.stages import make_shards


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=2, heartbeat_s=0.1, device="cpu", torch_threads=1)


@pytest.fixture
def worker(db: Database, settings: Settings, tmp_path: Path) -> InlineWorker:
    return InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)


def add_model(db: Database, worker: InlineWorker, data: bytes, **manifest: Any) -> str:
    row = ModelRow(
        id=new_id("mdl"),
        project_id=add_project(db),
        name="m",
        version="1",
        task="image-classification",
        manifest=assets.model_manifest(**manifest),
        digest=worker.store.put_bytes(data),
        size_bytes=len(data),
        format="safetensors",
    )
    with db.write() as session:
        session.add(row)
    return row.id


def read_model(db: Database, model_id: str) -> ModelRow:
    with db.read() as session:
        return session.get_one(ModelRow, model_id)


def add_endpoint(db: Database, worker: InlineWorker) -> str:
    manifest = texts.model_manifest(
        labels=texts.LABELS,
        architecture={
            "kind": "endpoint",
            "url": "https://models.example.com/",
            "request": {"inputs": "{{texts}}"},
            "scores": "$.scores[*]",
            "outputs": "logits",
            "query_budget": 20,
        },
    )
    row = ModelRow(
        id=new_id("mdl"),
        project_id=add_project(db),
        name="m",
        version="1",
        task="text-classification",
        manifest=manifest,
        digest=worker.store.put_bytes(b"manifest"),
        size_bytes=1,
        format="endpoint",
    )
    with db.write() as session:
        session.add(row)
    return row.id


def answer(endpoint: EndpointClassifier, asked: list[str]) -> list[Tensor]:
    endpoint.check_cancelled()
    endpoint.sent += len(asked)
    assert endpoint.spent + endpoint.sent <= 20
    return [torch.tensor([0.0, len(text) / 10], dtype=torch.float64) for text in asked]


def test_a_cancelled_audit_of_an_endpoint_says_nothing_about_the_next_check_of_it(
    db: Database, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EndpointClassifier, "logits", answer)
    first = add_endpoint(db, worker)
    assert worker.drain() == 1
    assert read_model(db, first).state == ModelState.READY

    def cancelled() -> None:
        raise ShardCancelled("of an audit that has ended")

    endpoint = worker.executor.resources.scoring(read_model(db, first)).classifier
    assert isinstance(endpoint, EndpointClassifier)
    endpoint.work_for(cancelled, spent=20)
    # The same endpoint in another project.
    second = add_endpoint(db, worker)
    assert worker.drain() == 1
    assert read_model(db, second).state == ModelState.READY


def test_a_check_of_an_endpoint_is_given_back_when_the_process_stops(
    db: Database, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = threading.Event()
    worker._is_stopping = stopping.is_set

    def stop(endpoint: EndpointClassifier, asked: list[str]) -> list[Tensor]:
        stopping.set()
        return answer(endpoint, asked)

    monkeypatch.setattr(EndpointClassifier, "logits", stop)
    model_id = add_endpoint(db, worker)
    worker.drain()
    row = read_model(db, model_id)
    assert (row.state, row.token, row.attempts) == (ModelState.CHECKING, None, 0)


@pytest.mark.slow
def test_a_good_model_becomes_ready_with_its_facts(db: Database, worker: InlineWorker) -> None:
    model_id = add_model(db, worker, assets.weights())
    assert worker.drain() == 1
    row = read_model(db, model_id)
    assert row.state == ModelState.READY
    assert row.token is None
    assert row.facts is not None
    assert row.facts["parameters"] == sum(p.numel() for p in assets.trained().parameters())
    assert row.facts["classes"] == 10
    assert row.facts["backward_s"] > 0


def test_weights_that_do_not_fit_are_rejected_by_name(db: Database, worker: InlineWorker) -> None:
    layers = [*assets.LAYERS[:2], ["conv", 16, 8, 3, 2, 1], ["relu"], ["flatten"], ["linear", 128, 10]]
    model_id = add_model(db, worker, assets.weights(), architecture={"kind": "layers", "layers": layers})
    worker.drain()
    row = read_model(db, model_id)
    assert row.state == ModelState.REJECTED
    assert row.problem is not None
    assert "5.weight" in row.problem["detail"]


def test_a_model_that_stumbles_is_rejected_after_three_attempts(
    db: Database, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(checking, "AGAIN_S", 0.0)
    monkeypatch.setattr(worker.executor, "check", stumble)
    model_id = add_model(db, worker, assets.weights())
    assert worker.drain() == 3
    row = read_model(db, model_id)
    assert row.state == ModelState.REJECTED
    assert row.problem is not None
    assert row.problem["code"] == "unexpected-error"


def test_an_idle_worker_tells_it_is_alive_and_that_it_leaves(db: Database, worker: InlineWorker) -> None:
    worker.drain()
    with db.read() as session:
        assert session.scalars(select(WorkerRow.device)).all() == ["cpu"]
    worker.leave()
    with db.read() as session:
        assert session.scalars(select(WorkerRow)).all() == []


def test_a_kind_the_worker_does_not_know_fails_with_a_reason_and_the_worker_goes_on(
    db: Database, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advancing, "POSTPONED_S", 0.0)
    audit_id = add_audit(db)
    with db.write() as session:
        session.execute(update(CheckRow).where(CheckRow.audit_id == audit_id).values(kind="from_a_newer_api"))
    assert worker.drain() == 3
    with db.read() as session:
        check = session.scalars(select(CheckRow).where(CheckRow.audit_id == audit_id)).one()
    assert check.state == "failed"
    assert check.error is not None
    assert "from_a_newer_api" in check.error["detail"]


def test_a_busy_worker_tells_it_is_alive(db: Database, settings: Settings, shard: tuple[str, tuple[str, str]]) -> None:
    told = threading.Event()
    with Claim(db, settings, ShardRow, *shard[1], is_stopping=lambda: False, on_beat=lambda session: told.set()):
        assert told.wait(5)


@pytest.fixture
def shard(db: Database) -> tuple[str, tuple[str, str]]:
    """Return an audit and a claim on its only shard."""
    audit_id = add_audit(db)
    with db.write() as session:
        check = claim_check(session, lease_s=60, worker="w")
        assert check is not None
    with db.write() as session:
        rows = make_shards(check[0], "attack", [(0, 100)])
        open_stage(session, *check, name="attack", source="sample", examples=100, shards=rows)
    with db.write() as session:
        claimed = claim_shard(session, lease_s=0.4, worker="w")
        assert claimed is not None
    return audit_id, claimed


def test_a_claim_lives_as_long_as_it_is_worked_on(
    db: Database, settings: Settings, shard: tuple[str, tuple[str, str]]
) -> None:
    _, claimed = shard
    with Claim(db, settings, ShardRow, *claimed, is_stopping=lambda: False) as claim:
        time.sleep(0.8)
        claim.poll_cancelled()
    with db.read() as session:
        assert session.get_one(ShardRow, claimed[0]).state == "running"


def test_cancel_reaches_the_working_thread(
    db: Database, settings: Settings, shard: tuple[str, tuple[str, str]]
) -> None:
    audit_id, claimed = shard
    with Claim(db, settings, ShardRow, *claimed, is_stopping=lambda: False) as claim:
        claim.check_cancelled()
        with db.write() as session:
            cancel_audit(session, audit_id)
        with pytest.raises(ShardCancelled):
            claim.poll_cancelled()
        with pytest.raises(ShardCancelled):
            claim.check_cancelled()


def test_a_lost_lease_reaches_the_working_thread_without_a_look(
    db: Database, settings: Settings, shard: tuple[str, tuple[str, str]]
) -> None:
    _, claimed = shard
    with Claim(db, settings, ShardRow, *claimed, is_stopping=lambda: False) as claim:
        with db.write() as session:
            session.execute(update(ShardRow).where(ShardRow.id == claimed[0]).values(token="somebody else"))
        with pytest.raises(LeaseLost):
            eventually(claim.check_cancelled, timeout_s=5)


def test_a_stopping_process_reaches_the_working_thread(
    db: Database, settings: Settings, shard: tuple[str, tuple[str, str]]
) -> None:
    stopping = threading.Event()
    with Claim(db, settings, ShardRow, *shard[1], is_stopping=stopping.is_set) as claim:
        claim.check_cancelled()
        stopping.set()
        with pytest.raises(ShuttingDown):
            claim.check_cancelled()


def test_randomness_follows_the_example_and_nothing_else() -> None:
    def draws(seed: int, purpose: str, ids: list[int]) -> list[int]:
        return [generator.initial_seed() for generator in example_generators(seed, "family", purpose, ids)]

    assert draws(0, "over", [5, 6])[1] == draws(0, "over", [6, 9])[0]
    every = draws(0, "over", [1, 2, 3]) + draws(0, "under", [1, 2, 3]) + draws(1, "over", [1, 2, 3])
    assert len(set(every)) == 9


@pytest.mark.parametrize(
    ("named", "pointer"),
    [
        ("transfer_model", "/checks/1/transfer_model"),
        ("attacks/2", "/checks/1/attacks/2"),
        ("model", "/model"),
        ("/file", "/file"),
        (None, None),
    ],
)
def test_the_field_to_blame_is_a_pointer_into_the_request(
    db: Database, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch, named: str | None, pointer: str | None
) -> None:
    def refused(kind: str) -> None:
        raise PreflightError("refused", "Refused", "for the test", field=named)

    monkeypatch.setattr(inline, "find_family", refused)
    audit_id = add_audit(db, checks=2)
    worker.drain()
    with db.read() as session:
        checks = session.scalars(select(CheckRow).where(CheckRow.audit_id == audit_id).order_by(CheckRow.ordinal)).all()
    assert [check.state for check in checks] == ["failed", "failed"]
    assert checks[1].error is not None
    assert checks[1].error["field"] == pointer


def test_an_idle_worker_says_that_it_lives_and_takes_back_what_dead_ones_held(
    db: Database, settings: Settings, tmp_path: Path
) -> None:
    quick = settings.model_copy(update={"reap_s": 0.05})
    worker = InlineWorker(db, LocalStore(tmp_path / "artifacts"), quick)
    add_audit(db)
    with db.write() as session:
        claimed = claim_check(session, lease_s=0.01, worker="dead")
        assert claimed is not None

    def seen() -> Any:
        with db.read() as session:
            return session.scalar(select(WorkerRow.last_seen_at).where(WorkerRow.id == worker.id))

    def is_free() -> bool:
        with db.read() as session:
            return session.get_one(CheckRow, claimed[0]).token is None

    # No scheduler, and nothing that it is asked to do.
    worker.begin()
    eventually(lambda: seen() is not None, what="the first sign of life")
    first = seen()
    eventually(lambda: seen() > first, what="another one")
    eventually(is_free, what="the dead worker's claim")
    worker.leave()
    assert seen() is None


def test_two_first_signs_of_life_at_once_are_one(db: Database, settings: Settings, tmp_path: Path) -> None:
    worker = InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)

    class Late(Session):
        """Another thread writes the row between the look and the writing."""

        def execute(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
            told = super().execute(statement, *args, **kwargs)
            if isinstance(statement, Update) and not told.rowcount:
                super().execute(insert(WorkerRow).values(id=worker.id, device="cpu", pid=1))
            return told

    with Late(db.engine) as session:
        worker._tell_alive(session)
        session.commit()
    with db.read() as session:
        assert session.scalars(select(WorkerRow.id)).all() == [worker.id]
