"""Takes back what workers held when they died or hung: leases that have run out."""

from typing import Any

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ACTIVE, ModelState, RunState
from seatrial.store.counters import LEASE_EXPIRIES, SHARDS_REQUEUED, count
from seatrial.store.database import Database, epoch_now
from seatrial.store.hardening import LET_GO, end_training, record_hardening
from seatrial.store.lifecycle import close_check, close_shard, family_and_stage, lock_owner
from seatrial.store.tables import CheckRow, HardeningRow, ModelRow, ShardRow
from seatrial.store.transitions import move


def reap(database: Database, *, max_attempts: int) -> int:
    """Take back everything whose lease has run out; what was tried too often ends with a reason. Return how much.

    One transaction per row, so that two sweeps never wait for each other's locks in a circle.
    """
    taken = 0
    sweeps = (
        ("shard", _expired_shards, _reap_shard),
        ("check", _expired_checks, _reap_check),
        ("model", _expired_models, _reap_model),
        ("training", _expired_trainings, _reap_training),
    )
    for claim, find, take_back in sweeps:
        with database.read() as session:
            expired = session.scalars(find()).all()
        for row_id in expired:
            with database.write() as session:
                if not take_back(session, row_id, max_attempts):
                    continue
                taken += 1
                count(session, LEASE_EXPIRIES, claim, _family(session, claim, row_id))
    return taken


def _family(session: Session, claim: str, row_id: str) -> str:
    """Return what a claim was to run: a family, or a method of training."""
    if claim == "shard":
        return family_and_stage(session, row_id)[0]
    if claim == "check":
        return session.get_one(CheckRow, row_id).kind
    return "none" if claim == "model" else session.get_one(HardeningRow, row_id).method


def _expired_shards() -> Select[Any]:
    return select(ShardRow.id).where(ShardRow.state == RunState.RUNNING, ShardRow.lease_until < epoch_now())


def _expired_checks() -> Select[Any]:
    return select(CheckRow.id).where(CheckRow.token.is_not(None), CheckRow.lease_until < epoch_now())


def _expired_models() -> Select[Any]:
    return select(ModelRow.id).where(ModelRow.token.is_not(None), ModelRow.lease_until < epoch_now())


def _expired_trainings() -> Select[Any]:
    return select(HardeningRow.id).where(HardeningRow.token.is_not(None), HardeningRow.lease_until < epoch_now())


def _reap_training(session: Session, hardening_id: str, max_attempts: int) -> bool:
    row = session.get_one(HardeningRow, hardening_id)
    if row.state == RunState.CANCELLING:
        return end_training(session, hardening_id, None, RunState.CANCELLED)
    if row.attempts >= max_attempts:
        problem = _died(f"its worker ({row.worker}) died or hung {row.attempts} times while training it")
        return end_training(session, hardening_id, None, RunState.FAILED, error=problem)
    expired = HardeningRow.id == hardening_id, HardeningRow.lease_until < epoch_now()
    if not move(session, HardeningRow, RunState.QUEUED, *expired, sources={RunState.RUNNING}, **LET_GO):
        return False
    record_hardening(session, hardening_id, "hardening", {"state": RunState.QUEUED})
    return True


def _reap_shard(session: Session, shard_id: str, max_attempts: int) -> bool:
    # Before its check is looked at: a cancellation in between would leave a queued shard behind, which nobody claims.
    if lock_owner(session, shard_id) is None:
        return False
    shard = session.get_one(ShardRow, shard_id)
    check = session.get_one(CheckRow, shard.check_id)
    if check.state == RunState.CANCELLING:
        return close_shard(session, shard_id, None, RunState.CANCELLED)
    if shard.attempts >= max_attempts:
        problem = _died(f"its worker ({shard.worker}) died or hung {shard.attempts} times while running it")
        return close_shard(session, shard_id, None, RunState.FAILED, error=problem)
    moved = move(
        session,
        ShardRow,
        RunState.QUEUED,
        ShardRow.id == shard_id,
        ShardRow.lease_until < epoch_now(),
        sources={RunState.RUNNING},
        token=None,
        lease_until=None,
        done=0,
    )
    if moved:
        count(session, SHARDS_REQUEUED, check.kind, "worker_died")
    return bool(moved)


def _reap_check(session: Session, check_id: str, max_attempts: int) -> bool:
    check = session.get_one(CheckRow, check_id)
    if check.attempts >= max_attempts and check.state in ACTIVE:
        problem = _died(f"its worker ({check.worker}) died or hung {check.attempts} times between two stages")
        return close_check(session, check_id, None, RunState.FAILED, error=problem)
    return _free(session, CheckRow, check_id)


def _reap_model(session: Session, model_id: str, max_attempts: int) -> bool:
    model = session.get_one(ModelRow, model_id)
    if model.attempts < max_attempts:
        return _free(session, ModelRow, model_id)
    return bool(
        move(
            session,
            ModelRow,
            ModelState.REJECTED,
            ModelRow.id == model_id,
            ModelRow.lease_until < epoch_now(),
            token=None,
            lease_until=None,
            problem=_died("every worker that loaded the model died; it may need more memory than the workers have"),
        )
    )


def _free(session: Session, table: type[ModelRow | CheckRow], row_id: str) -> bool:
    statement = update(table).where(table.id == row_id, table.token.is_not(None), table.lease_until < epoch_now())
    freed = session.execute(statement.values(token=None, lease_until=None).execution_options(synchronize_session=False))
    return bool(freed.rowcount)  # type: ignore[attr-defined]


def _died(detail: str) -> dict[str, Any]:
    return StoredProblem(code="worker-died", title="The work killed its worker", detail=detail).model_dump()
