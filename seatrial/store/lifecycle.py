"""What happens to an audit between its states: shards close, checks settle, audits end; cancel, retry.

Locking: a transaction that changes an audit, its checks or its shards locks the audit's row first, so two of them on
one audit queue up instead of deadlocking. Claims and heartbeats touch one row only and lock nothing else.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import ACTIVE, TERMINAL, RunState
from seatrial.contracts.webhooks import AuditEvent
from seatrial.store.checkpoints import drop_checkpoints
from seatrial.store.counters import CHECK_SECONDS, SHARD_FAILURES, SHARD_SECONDS, SHARDS_REQUEUED, count, observe
from seatrial.store.database import epoch_now
from seatrial.store.events import record_event
from seatrial.store.outbox import announce
from seatrial.store.tables import AuditRow, CheckRow, ShardRow, StageRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.workers import SCHEDULER
from seatrial.store.transitions import heartbeat, holds, lock, move, release

ENDS: dict[RunState, AuditEvent] = {
    RunState.SUCCEEDED: "audit.succeeded",
    RunState.FAILED: "audit.failed",
    RunState.CANCELLED: "audit.cancelled",
}


def count_workers(session: Session) -> int:
    """Count the workers in the table, at least 1: one that has just started may not have told."""
    return max(1, session.scalar(select(func.count()).select_from(WorkerRow).where(WorkerRow.id != SCHEDULER)) or 0)


def audit_of_check(session: Session, check_id: str) -> str | None:
    """Return the audit a check belongs to."""
    return session.scalar(select(CheckRow.audit_id).where(CheckRow.id == check_id))


def open_stage(
    session: Session,
    check_id: str,
    token: str,
    *,
    name: str,
    source: str,
    examples: int,
    shards: list[ShardRow],
    estimated_s: float | None = None,
    looks: list[dict[str, Any]] | None = None,
    code: str | None = None,
    measured_with: str | None = None,
) -> bool:
    """Begin a stage, or go on with one: its row, its shards, the check running on them; False when the claim was lost.

    Of a stage that goes on, as at the next look of an audit that stops when it is decided, ``examples`` are all it then
    has and ``shards`` those that are added. Where it begins a look, ``looks`` are those that left the check open.

    From then on the audit is measured by ``code``; False also where another code has begun to measure it since.
    ``measured_with`` is kept of the worker that begins the check.
    """
    audit_id = audit_of_check(session, check_id)
    if audit_id is None or (audit := lock(session, AuditRow, audit_id)) is None:
        return False
    if code is not None:
        if audit.code not in (None, code):
            return False
        audit.code = code
        session.flush()
    moved = move(
        session,
        CheckRow,
        RunState.RUNNING,
        *holds(CheckRow, check_id, token),
        sources={RunState.QUEUED},
        started_at=utc_now(),
    )
    still_ours = session.scalar(
        select(CheckRow.id).where(*holds(CheckRow, check_id, token), CheckRow.state == RunState.RUNNING)
    )
    if still_ours is None:
        return False
    done = examples - sum(shard.stop - shard.start for shard in shards)
    _lengthen(session, check_id, name, source=source, examples=examples, shards=len(shards))
    session.add_all(shards)
    session.execute(
        update(CheckRow)
        .where(CheckRow.id == check_id)
        .values(
            stage=name,
            open_shards=len(shards),
            token=None,
            lease_until=None,
            attempts=0,
            deferrals=0,
            estimated_s=estimated_s,
            **({"measured_with": measured_with} if moved else {}),
            **({} if looks is None else {"looks": looks}),
        )
        .execution_options(synchronize_session=False)
    )
    _sum_estimates(session, audit_id)
    if move(
        session, AuditRow, RunState.RUNNING, AuditRow.id == audit_id, sources={RunState.QUEUED}, started_at=utc_now()
    ):
        record_event(session, audit_id, "audit", {"state": RunState.RUNNING})
    if moved:
        record_event(session, audit_id, "check", {"check": check_id, "state": RunState.RUNNING})
    record_event(session, audit_id, "progress", {"check": check_id, "stage": name, "done": done, "total": examples})
    return True


def _lengthen(session: Session, check_id: str, name: str, *, source: str, examples: int, shards: int) -> None:
    """Add a stage to a check, or examples and shards to a stage that it has."""
    stage = session.get(StageRow, (check_id, name))
    if stage is not None:
        stage.examples, stage.shards = examples, stage.shards + shards
        return
    ordinal = session.scalar(select(func.count()).select_from(StageRow).where(StageRow.check_id == check_id)) or 0
    session.add(
        StageRow(check_id=check_id, name=name, ordinal=ordinal, source=source, examples=examples, shards=shards)
    )


def leave_open(session: Session, check_id: str, token: str, looks: list[dict[str, Any]]) -> bool:
    """Write down the looks that did not decide a check, which then goes on; False when the claim was lost."""
    return release(session, CheckRow, check_id, token, looks=looks, attempts=0, deferrals=0)


def _sum_estimates(session: Session, audit_id: str) -> None:
    """Give the audit the sum of its checks' estimates, once all of them have one."""
    estimates = session.scalars(select(CheckRow.estimated_s).where(CheckRow.audit_id == audit_id)).all()
    known = [seconds for seconds in estimates if seconds is not None]
    if len(known) == len(estimates):
        session.execute(
            update(AuditRow)
            .where(AuditRow.id == audit_id, AuditRow.estimated_s.is_(None))
            .values(estimated_s=sum(known))
            .execution_options(synchronize_session=False)
        )


def close_shard(session: Session, shard_id: str, token: str | None, state: RunState, **values: Any) -> bool:
    """End a shard once; False when it is no longer the caller's, and then nothing is written.

    Args:
        session: An open write transaction.
        shard_id: Which shard.
        token: The worker's claim; None for the reaper, which ends what nobody holds any more.
        state: A terminal state.
        values: Result columns, stored in the same statement.
    """
    owner = lock_owner(session, shard_id)
    if owner is None:
        return False
    mine = holds(ShardRow, shard_id, token) if token else (ShardRow.id == shard_id, ShardRow.lease_until < epoch_now())
    if not move(session, ShardRow, state, *mine, token=None, lease_until=None, **values):
        return False
    audit_id, check_id = owner
    drop_checkpoints(session, ShardRow.id == shard_id)
    _count_closed(session, check_id, 1)
    _record_progress(session, audit_id, check_id)
    _settle_cancelled(session, audit_id)
    _count_end(session, shard_id, state, values)
    return True


def _count_end(session: Session, shard_id: str, state: RunState, values: dict[str, Any]) -> None:
    family, stage = family_and_stage(session, shard_id)
    if state == RunState.FAILED:
        count(session, SHARD_FAILURES, family, str((values.get("error") or {}).get("code", "none")))
    elif state == RunState.SUCCEEDED and values.get("seconds") is not None:
        observe(session, SHARD_SECONDS, family, stage, seconds=values["seconds"])


def family_and_stage(session: Session, shard_id: str) -> tuple[str, str]:
    """Return what measures a shard, and in which of its stages."""
    query = select(CheckRow.kind, ShardRow.stage).join(ShardRow, ShardRow.check_id == CheckRow.id)
    family, stage = session.execute(query.where(ShardRow.id == shard_id)).one()
    return family, stage


def lock_owner(session: Session, shard_id: str) -> tuple[str, str] | None:
    """Lock a shard's audit and return the ids of audit and check; None when they are gone."""
    owner = session.execute(
        select(CheckRow.audit_id, CheckRow.id)
        .join(ShardRow, ShardRow.check_id == CheckRow.id)
        .where(ShardRow.id == shard_id)
    ).one_or_none()
    if owner is None or lock(session, AuditRow, owner.audit_id) is None:
        return None
    return owner.audit_id, owner.id


def _count_closed(session: Session, check_id: str, closed: int) -> None:
    session.execute(
        update(CheckRow)
        .where(CheckRow.id == check_id)
        .values(open_shards=CheckRow.open_shards - closed)
        .execution_options(synchronize_session=False)
    )


def _record_progress(session: Session, audit_id: str, check_id: str) -> None:
    stage = session.scalar(select(CheckRow.stage).where(CheckRow.id == check_id))
    done, total = session.execute(
        select(
            func.coalesce(func.sum(ShardRow.done), 0), func.coalesce(func.sum(ShardRow.stop - ShardRow.start), 0)
        ).where(ShardRow.check_id == check_id, ShardRow.stage == stage)
    ).one()
    record_event(
        session, audit_id, "progress", {"check": check_id, "stage": stage, "done": int(done), "total": int(total)}
    )


def report_progress(session: Session, shard_id: str, token: str, done: int, *, lease_s: float) -> bool:
    """Store how far a shard is and prolong its lease; False when it is no longer the caller's."""
    owner = lock_owner(session, shard_id)
    if owner is None:
        return False
    if not heartbeat(session, ShardRow, shard_id, token, lease_s=lease_s, done=done):
        return False
    _record_progress(session, *owner)
    return True


def close_check(session: Session, check_id: str, token: str | None, state: RunState, **values: Any) -> bool:
    """End a check that has no open shards; False when it is no longer the caller's."""
    audit_id = audit_of_check(session, check_id)
    if audit_id is None or lock(session, AuditRow, audit_id) is None:
        return False
    mine = holds(CheckRow, check_id, token) if token else (CheckRow.id == check_id, CheckRow.lease_until < epoch_now())
    if not move(session, CheckRow, state, *mine, CheckRow.open_shards == 0, token=None, lease_until=None, **values):
        return False
    record_event(session, audit_id, "check", {"check": check_id, "state": state})
    settle_audit(session, audit_id)
    check = session.get_one(CheckRow, check_id)
    if check.started_at is not None:
        seconds = (utc_now() - check.started_at).total_seconds()
        observe(session, CHECK_SECONDS, check.kind, str(state), seconds=seconds)
    return True


def settle_audit(session: Session, audit_id: str) -> None:
    """End an audit whose checks have all ended, and tell its project's webhooks. The caller holds the audit's row."""
    states = set(session.scalars(select(CheckRow.state).where(CheckRow.audit_id == audit_id)))
    if not states <= TERMINAL:
        return
    audit_state = session.scalar(select(AuditRow.state).where(AuditRow.id == audit_id))
    if RunState.FAILED in states:
        end = RunState.FAILED
    elif audit_state == RunState.CANCELLING or RunState.CANCELLED in states:
        end = RunState.CANCELLED
    else:
        end = RunState.SUCCEEDED
    if move(session, AuditRow, end, AuditRow.id == audit_id):
        record_event(session, audit_id, "audit", {"state": end})
        announce(session, audit_id, ENDS[end])


def cancel_audit(session: Session, audit_id: str) -> bool:
    """Ask an audit to stop: what waits is cancelled now, what runs stops at its next batch. False when it has ended."""
    if lock(session, AuditRow, audit_id) is None:
        return False
    if not move(session, AuditRow, RunState.CANCELLING, AuditRow.id == audit_id):
        return session.scalar(select(AuditRow.state).where(AuditRow.id == audit_id)) == RunState.CANCELLING
    record_event(session, audit_id, "audit", {"state": RunState.CANCELLING})
    checks = session.scalars(select(CheckRow.id).where(CheckRow.audit_id == audit_id, CheckRow.state.in_(ACTIVE))).all()
    for check_id in checks:
        move(session, CheckRow, RunState.CANCELLING, CheckRow.id == check_id)
        record_event(session, audit_id, "check", {"check": check_id, "state": RunState.CANCELLING})
        waiting = move(session, ShardRow, RunState.CANCELLED, ShardRow.check_id == check_id, sources={RunState.QUEUED})
        drop_checkpoints(session, ShardRow.check_id == check_id)
        _count_closed(session, check_id, waiting)
    _settle_cancelled(session, audit_id)
    return True


def _settle_cancelled(session: Session, audit_id: str) -> None:
    """End the checks that were being cancelled and have nothing running any more."""
    idle = select(CheckRow.id).where(
        CheckRow.audit_id == audit_id, CheckRow.state == RunState.CANCELLING, CheckRow.open_shards == 0
    )
    for check_id in session.scalars(idle).all():
        # Whoever was advancing it loses the claim here and writes nothing.
        move(session, CheckRow, RunState.CANCELLED, CheckRow.id == check_id, token=None, lease_until=None)
        record_event(session, audit_id, "check", {"check": check_id, "state": RunState.CANCELLED})
    settle_audit(session, audit_id)


def list_records(session: Session, audit_id: str) -> list[tuple[str, str]]:
    """Return id and records' digest of every finished shard of an audit's failed checks: what a retry builds on."""
    query = (
        select(ShardRow.id, ShardRow.records_digest)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .where(
            CheckRow.audit_id == audit_id,
            CheckRow.state == RunState.FAILED,
            ShardRow.state == RunState.SUCCEEDED,
            ShardRow.records_digest.is_not(None),
        )
    )
    return [(shard_id, str(digest)) for shard_id, digest in session.execute(query)]


def retry_audit(session: Session, audit_id: str, *, lost: Collection[str] = ()) -> bool:
    """Queue a failed audit's failed shards again, from their beginning; those that succeeded keep their records.

    False when the audit has not failed.

    Args:
        session: An open write transaction.
        audit_id: Which audit.
        lost: Shards whose records are gone, see :func:`list_records`: they are measured again too. They go on naming
            what they had stored, so that a shard of a later stage waits until it is there again.
    """
    if lock(session, AuditRow, audit_id) is None:
        return False
    again = {"error": None, "verdict": None}
    if not move(session, AuditRow, RunState.RUNNING, AuditRow.id == audit_id, sources={RunState.FAILED}, **again):
        return False
    record_event(session, audit_id, "audit", {"state": RunState.RUNNING})
    failed = select(CheckRow.id).where(CheckRow.audit_id == audit_id, CheckRow.state == RunState.FAILED)
    for check_id in session.scalars(failed).all():
        anew = {"attempts": 0, "deferrals": 0, "error": None, "done": 0, "finished_at": None}
        own = ShardRow.check_id == check_id
        queued = move(session, ShardRow, RunState.QUEUED, own, sources={RunState.FAILED}, **anew)
        gone = ShardRow.id.in_(lost)
        queued += move(session, ShardRow, RunState.QUEUED, own, gone, sources={RunState.SUCCEEDED}, **anew)
        move(
            session,
            CheckRow,
            RunState.RUNNING,
            CheckRow.id == check_id,
            sources={RunState.FAILED},
            open_shards=CheckRow.open_shards + queued,
            attempts=0,
            deferrals=0,
            error=None,
        )
        record_event(session, audit_id, "check", {"check": check_id, "state": RunState.RUNNING})
    return True


def give_back(
    session: Session, shard_id: str, token: str, *, counts: bool, put_off_s: float = 0.0, **values: Any
) -> bool:
    """Queue a shard again with what it saved: its worker stops (the attempt does not count) or stumbled (it does).

    With ``put_off_s`` nobody may claim it for so many seconds, and that is counted as a deferral. A shard whose check
    is being cancelled ends instead: nobody claims it any more, and the audit would wait for it for ever.
    """
    owner = lock_owner(session, shard_id)
    if owner is None:
        return False
    if session.scalar(select(CheckRow.state).where(CheckRow.id == owner[1])) == RunState.CANCELLING:
        return close_shard(session, shard_id, token, RunState.CANCELLED)
    if not counts:
        values["attempts"] = ShardRow.attempts - 1
    if put_off_s:
        values["deferrals"] = ShardRow.deferrals + 1
    moved = move(
        session,
        ShardRow,
        RunState.QUEUED,
        *holds(ShardRow, shard_id, token),
        sources={RunState.RUNNING},
        token=None,
        lease_until=epoch_now() + put_off_s if put_off_s else None,
        done=0,
        **values,
    )
    if moved:
        reason = "put_off" if put_off_s else "error" if counts else "worker_stopped"
        count(session, SHARDS_REQUEUED, family_and_stage(session, shard_id)[0], reason)
    return bool(moved)
