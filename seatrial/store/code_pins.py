"""One code measures an audit: what becomes of audits whose code nobody runs any more."""

from datetime import timedelta

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import ACTIVE, RunState
from seatrial.store.checkpoints import discard
from seatrial.store.database import Database
from seatrial.store.events import record_event
from seatrial.store.tables import AuditRow, CheckRow, ShardRow, StageRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.transitions import lock, move

ALIVE_S = 60.0
"""Seconds within which a worker that lives has told so."""


def living_codes(session: Session) -> list[str]:
    """Return the codes that workers run which live."""
    seen = WorkerRow.last_seen_at > utc_now() - timedelta(seconds=ALIVE_S)
    return list(session.scalars(select(WorkerRow.code).where(WorkerRow.code.is_not(None), seen).distinct()))


def restart_orphans(database: Database, code: str, *, alive_s: float) -> int:
    """Begin anew the unfinished checks of audits whose code no worker runs any more; return how many audits.

    What they had measured is dropped: their numbers would be some of one code and some of another. Checks of the same
    audit that have ended keep their results, and shards tell which code measured them.

    Args:
        database: The truth.
        code: What the caller runs.
        alive_s: Seconds within which a worker that lives has been seen.
    """
    with database.read() as session:
        orphans = session.scalars(_orphans(code, alive_s)).all()
    restarted = 0
    for audit_id in orphans:
        with database.write() as session:
            restarted += _restart(session, audit_id, code, alive_s)
    return restarted


def _orphans(code: str, alive_s: float) -> Select[str]:
    seen = WorkerRow.last_seen_at > utc_now() - timedelta(seconds=alive_s)
    alive = select(WorkerRow.code).where(WorkerRow.code.is_not(None), seen)
    running = (
        select(ShardRow.id)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .where(CheckRow.audit_id == AuditRow.id, ShardRow.state == RunState.RUNNING)
    )
    held = select(CheckRow.id).where(CheckRow.audit_id == AuditRow.id, CheckRow.token.is_not(None))
    return select(AuditRow.id).where(
        AuditRow.state.in_(ACTIVE),
        AuditRow.code.is_not(None),
        AuditRow.code != code,
        AuditRow.code.not_in(alive),
        # Whoever works on it lives, whatever the table of workers says.
        ~running.exists(),
        ~held.exists(),
    )


def _restart(session: Session, audit_id: str, code: str, alive_s: float) -> bool:
    if lock(session, AuditRow, audit_id) is None:
        return False
    if session.scalar(_orphans(code, alive_s).where(AuditRow.id == audit_id)) is None:
        return False
    unfinished = (CheckRow.audit_id == audit_id, CheckRow.state.in_(ACTIVE))
    for check_id in session.scalars(select(CheckRow.id).where(*unfinished)).all():
        own = ShardRow.check_id == check_id
        for digest in session.scalars(select(ShardRow.saved_digest).where(own, ShardRow.saved_digest.is_not(None))):
            discard(session, digest)
        session.execute(delete(ShardRow).where(own))
        session.execute(delete(StageRow).where(StageRow.check_id == check_id))
        anew = {"reused": None, "stage": None, "open_shards": 0, "attempts": 0, "deferrals": 0, "lease_until": None}
        if move(session, CheckRow, RunState.QUEUED, CheckRow.id == check_id, sources={RunState.RUNNING}, **anew):
            record_event(session, audit_id, "check", {"check": check_id, "state": RunState.QUEUED})
    session.execute(
        update(AuditRow).where(AuditRow.id == audit_id).values(code=None).execution_options(synchronize_session=False)
    )
    return True
