"""Trouble of the machine is waited for: it costs no attempt, fails nothing at once, and does not last for ever."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import ArtifactMissingError, LocalStore
from seatrial.store.database import Database, epoch_now
from seatrial.store.lifecycle import list_records, retry_audit
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ModelRow, ShardRow
from tests.runtime.bench import AuditBench, flip_bits
from workers.errors import MachineError
from workers.runtime import deferring
from workers.runtime.deferring import MOST_DEFERRALS, MOST_MISSING, put_off_s, trouble_of
from workers.runtime.sandboxed import SandboxedExecutor
from workers.runtime.worker import Worker


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


@pytest.fixture
def bench(db: Database, settings: Settings) -> AuditBench:
    return AuditBench(db, settings)


def wait_out(bench: AuditBench) -> None:
    """Let the time pass until which rows are put off."""
    with bench.db.write() as session:
        for table in (ModelRow, CheckRow, ShardRow):
            session.execute(update(table).where(table.token.is_(None)).values(lease_until=None))


def full(*arguments: object) -> Any:
    raise OSError(errno.ENOSPC, "cannot write /srv/somewhere/private")


def away(*arguments: object) -> Any:
    raise OperationalError("SELECT 1", {}, Exception("connection refused"))


def no_memory(*arguments: object) -> Any:
    raise OSError(errno.ENOMEM, "fork")


@pytest.mark.parametrize("trouble", [full, away, no_memory])
def test_no_attempt_is_counted_and_the_audit_ends_when_it_is_over(
    bench: AuditBench, monkeypatch: pytest.MonkeyPatch, trouble: Callable[..., Any]
) -> None:
    audit_id = bench.submit()
    worker = bench.worker()
    assert worker.step()
    with monkeypatch.context() as patch:
        patch.setattr(worker.executor, "run", trouble)
        for round_ in range(8):
            assert worker.step()
            # Nothing is claimed before its time.
            assert not worker.step()
            shard = bench.shards(audit_id)[0]
            assert (shard.state, shard.attempts, shard.deferrals) == ("queued", 0, round_ + 1)
            with bench.db.read() as session:
                left = session.query(ShardRow.lease_until - epoch_now()).scalar()
            assert put_off_s(round_) - 5 < left <= put_off_s(round_)
            wait_out(bench)
        assert (shard.error or {})["code"] == "machine-trouble"
        assert "private" not in str(shard.error)
    worker.drain()
    assert bench.audit(audit_id).state == "succeeded"
    assert {(shard.attempts, shard.error is None) for shard in bench.shards(audit_id)} == {(1, True)}


@pytest.mark.parametrize("trouble", [full, away])
def test_advancing_a_check_waits_too(
    bench: AuditBench, monkeypatch: pytest.MonkeyPatch, trouble: Callable[..., Any]
) -> None:
    audit_id = bench.submit()
    worker = bench.worker()
    with monkeypatch.context() as patch:
        patch.setattr(worker.executor, "advance", trouble)
        for _ in range(5):
            assert worker.step()
            assert not worker.step()
            wait_out(bench)
    check = bench.check(audit_id)
    assert (check.state, check.attempts, check.deferrals) == ("queued", 0, 5)
    worker.drain()
    assert bench.audit(audit_id).state == "succeeded"
    assert bench.check(audit_id).deferrals == 0


def test_a_model_s_check_waits_for_its_file(bench: AuditBench) -> None:
    with bench.db.write() as session:
        session.execute(update(ModelRow).values(state=ModelState.CHECKING, facts=None))
    file = bench.stored(bench.model.digest)
    data = file.read_bytes()
    file.unlink()
    worker = bench.worker()
    for _ in range(4):
        assert worker.step()
        wait_out(bench)

    def model() -> ModelRow:
        with bench.db.read() as session:
            return session.get_one(ModelRow, bench.model.id)

    assert (model().state, model().attempts, (model().problem or {})["code"]) == ("checking", 0, "machine-trouble")
    file.write_bytes(data)
    assert worker.step()
    assert model().state == "ready"


@pytest.mark.parametrize(("trouble", "told"), [(full, "machine-trouble"), (None, "unexpected-error")])
def test_a_model_whose_machine_stays_in_trouble_is_told_so(
    bench: AuditBench,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[..., Any] | None,
    told: str,
) -> None:
    values = {"state": ModelState.CHECKING, "facts": None, "deferrals": MOST_DEFERRALS}
    with bench.db.write() as session:
        session.execute(update(ModelRow).values(**values, attempts=settings.max_attempts - 1))
    worker = bench.worker()
    # None cannot be called: a mistake of the work.
    monkeypatch.setattr(worker.executor, "check", trouble)
    assert worker.step()
    with bench.db.read() as session:
        row = session.get_one(ModelRow, bench.model.id)
        assert (row.state, (row.problem or {})["code"]) == ("rejected", told)


def test_what_never_ends_fails_in_the_end(bench: AuditBench, monkeypatch: pytest.MonkeyPatch) -> None:
    # What runs in the worker's processes was uploaded: it could tell of a full disk for ever.
    assert sum(map(put_off_s, range(MOST_DEFERRALS))) == pytest.approx(86_400, rel=0.02)
    assert sum(map(put_off_s, range(MOST_MISSING))) == pytest.approx(900, rel=0.02)
    audit_id = bench.submit()
    worker = bench.worker()
    assert worker.step()
    monkeypatch.setattr(worker.executor, "run", full)
    with bench.db.write() as session:
        session.execute(update(ShardRow).values(deferrals=MOST_DEFERRALS))
    worker.drain()
    assert (bench.check(audit_id).error or {})["code"] == "machine-trouble"


def test_what_a_child_process_meets_is_told_by_name(
    bench: AuditBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id = bench.submit()
    store = LocalStore(bench.root)
    executor = SandboxedExecutor(store, settings)
    worker = Worker(bench.db, store, settings, executor=executor)
    try:
        assert worker.step()
        with monkeypatch.context() as patch:
            # The records of the shard, which the parent stores for it.
            patch.setattr(store, "put_bytes", full)
            assert worker.step()
        shard = bench.shards(audit_id)[0]
        assert (shard.state, shard.attempts, shard.deferrals) == ("queued", 0, 1)
        assert (shard.error or {})["detail"].startswith("No space left on device. ")
        bench.stored(bench.dataset.digest).unlink()
        executor.forget()
        wait_out(bench)
        assert worker.step()
        shard = bench.shards(audit_id)[0]
        assert (shard.state, shard.attempts, shard.deferrals) == ("queued", 0, 2)
        assert (shard.error or {})["detail"].startswith(f"a stored file is missing: {bench.dataset.digest}")
    finally:
        worker.leave()


def test_faults_of_the_work_are_none_of_the_machine_s() -> None:
    for error in (ValueError("x"), OSError("no number"), FileNotFoundError(errno.ENOENT, "x"), RuntimeError("CUDA")):
        assert trouble_of(error) is None
    assert trouble_of(MachineError("the store does not answer")) == "the store does not answer"
    assert trouble_of(ArtifactMissingError("sha256:0 is not in /private")) == "a stored file is missing: sha256:0"


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_retry_measures_again_what_the_store_has_lost(
    bench: AuditBench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    reference = bench.submit()
    bench.worker().drain()
    whole = bench.check(reference).result
    audit_id = bench.submit()
    worker = bench.worker()
    monkeypatch.setattr(deferring, "MOST_MISSING", 1)
    while len(bench.shards(audit_id)) < 3 or any(shard.state != "succeeded" for shard in bench.shards(audit_id)):
        assert worker.step()
    before = {shard.id: shard.records_digest for shard in bench.shards(audit_id)}
    lost = bench.shards(audit_id)[1]
    file = bench.stored(lost.records_digest)
    if how == "gone":
        file.unlink()
    else:
        flip_bits(file)
    worker.drain()
    wait_out(bench)
    worker.drain()
    assert bench.audit(audit_id).state == "failed"
    assert (bench.check(audit_id).error or {})["code"] == {"gone": "machine-trouble", "damaged": "artifact-damaged"}[
        how
    ]
    with bench.db.read() as session:
        assert {shard_id for shard_id, _ in list_records(session, audit_id)} == set(before)
    with bench.db.write() as session:
        assert retry_audit(session, audit_id, lost=[lost.id])
        assert session.get_one(CheckRow, lost.check_id).open_shards == 1
    worker.drain()
    assert bench.audit(audit_id).state == "succeeded"
    after = {shard.id: shard.records_digest for shard in bench.shards(audit_id)}
    assert {shard_id: after[shard_id] for shard_id in before} == before
    assert {shard.attempts for shard in bench.shards(audit_id)} == {1}
    assert bench.check(audit_id).result == whole


def test_a_retry_touches_no_other_audit(bench: AuditBench) -> None:
    first, second = bench.submit(), bench.submit(seed=1)
    bench.worker().drain()
    others = [shard.id for shard in bench.shards(second)]
    with bench.db.write() as session:
        session.execute(update(AuditRow).where(AuditRow.id == first).values(state="failed"))
        session.execute(update(CheckRow).where(CheckRow.audit_id == first).values(state="failed"))
    with bench.db.write() as session:
        assert retry_audit(session, first, lost=others)
    assert {shard.state for shard in bench.shards(second)} == {"succeeded"}
