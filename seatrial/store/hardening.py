"""What happens to a hardening between its states: training reported, closed, given back; cancel, retry.

Every write of a worker is conditional on its token, as those of shards are; what is written together with an event
holds the hardening's row by that event's number.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from seatrial.contracts.hardenings import HardeningEventKind
from seatrial.contracts.states import RunState
from seatrial.store.checkpoints import drop_checkpoint, drop_checkpoints
from seatrial.store.database import epoch_now
from seatrial.store.lifecycle import cancel_audit, retry_audit
from seatrial.store.tables import AuditRow, HardeningEventRow, HardeningRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.hardenings import AUDITING, TRAINING
from seatrial.store.transitions import heartbeat, holds, lock, move

LET_GO: dict[str, Any] = {"token": None, "lease_until": None}


def record_hardening(session: Session, hardening_id: str, kind: HardeningEventKind, data: dict[str, Any]) -> None:
    """Append one event in the caller's transaction; the counter on the row keeps numbers without gaps."""
    seq = session.scalar(
        update(HardeningRow)
        .where(HardeningRow.id == hardening_id)
        .values(event_seq=HardeningRow.event_seq + 1)
        .returning(HardeningRow.event_seq)
        .execution_options(synchronize_session=False)
    )
    if seq is not None:
        row = {"hardening_id": hardening_id, "seq": seq, "kind": kind, "data": data, "created_at": utc_now()}
        session.execute(insert(HardeningEventRow).values(**row))


def report_training(
    session: Session, hardening_id: str, token: str, progress: dict[str, Any], curves: list[Any], *, lease_s: float
) -> bool:
    """Store how far a training is and prolong its lease; False when it is no longer the caller's."""
    values = {"progress": progress, "curves": curves}
    if not heartbeat(session, HardeningRow, hardening_id, token, lease_s=lease_s, **values):
        return False
    record_hardening(session, hardening_id, "progress", progress)
    return True


def close_training(session: Session, hardening_id: str, token: str, **values: Any) -> bool:
    """Go on to the audits, once; False when the training is no longer the caller's, and then nothing is written."""
    own = (*holds(HardeningRow, hardening_id, token), HardeningRow.state == RunState.RUNNING)
    statement = update(HardeningRow).where(*own).values(stage=AUDITING, error=None, **LET_GO, **values)
    if not session.execute(statement.execution_options(synchronize_session=False)).rowcount:  # type: ignore[attr-defined]
        return False
    drop_checkpoint(session, hardening_id)
    record_hardening(session, hardening_id, "hardening", {"state": RunState.RUNNING, "stage": AUDITING})
    return True


def end_training(session: Session, hardening_id: str, token: str | None, state: RunState, **values: Any) -> bool:
    """End a hardening whose training failed or was cancelled; False when it is no longer the caller's.

    Args:
        session: An open write transaction.
        hardening_id: Which.
        token: The worker's claim; None for the reaper.
        state: A terminal state.
        values: Further columns.
    """
    expired = (HardeningRow.id == hardening_id, HardeningRow.lease_until < epoch_now())
    mine = holds(HardeningRow, hardening_id, token) if token else expired
    if not move(session, HardeningRow, state, *mine, **LET_GO, **values):
        return False
    drop_checkpoints(session, HardeningRow.id == hardening_id, table=HardeningRow)
    record_hardening(session, hardening_id, "hardening", {"state": state})
    return True


def give_training_back(
    session: Session, hardening_id: str, token: str, *, counts: bool, put_off_s: float = 0.0, **values: Any
) -> bool:
    """Queue a training again with what it saved, as :func:`seatrial.store.lifecycle.give_back` does a shard."""
    if not counts:
        values["attempts"] = HardeningRow.attempts - 1
    if put_off_s:
        values["deferrals"] = HardeningRow.deferrals + 1
    again = epoch_now() + put_off_s if put_off_s else None
    mine = holds(HardeningRow, hardening_id, token)
    values |= {"token": None, "lease_until": again}
    return bool(move(session, HardeningRow, RunState.QUEUED, *mine, sources={RunState.RUNNING}, **values))


def end_hardening(session: Session, hardening_id: str, state: RunState, **values: Any) -> bool:
    """End a hardening whose audits are over, or that could not be audited; False where it does not wait for them."""
    own = HardeningRow.id == hardening_id, HardeningRow.stage == AUDITING
    if not move(session, HardeningRow, state, *own, sources={RunState.RUNNING}, **values):
        return False
    told = {"state": state} | {name: values[name] for name in ("verdict",) if values.get(name) is not None}
    record_hardening(session, hardening_id, "hardening", told)
    return True


def cancel_hardening(session: Session, hardening_id: str) -> bool:
    """Ask a hardening to stop: what waits ends now, a training at its next step. False when it has ended."""
    row = lock(session, HardeningRow, hardening_id)
    if row is None:
        return False
    if row.state == RunState.CANCELLING:
        return True
    own = HardeningRow.id == hardening_id
    if row.token is not None:
        moved = move(session, HardeningRow, RunState.CANCELLING, own, sources={RunState.RUNNING})
        end = RunState.CANCELLING
    else:
        waiting = {RunState.QUEUED, RunState.RUNNING}
        moved = move(session, HardeningRow, RunState.CANCELLED, own, sources=waiting, error=None)
        end = RunState.CANCELLED
    if not moved:
        return False
    if end == RunState.CANCELLED:
        drop_checkpoints(session, own, table=HardeningRow)
        for audit_id in (row.audit_before, row.audit_after):
            if audit_id is not None:
                cancel_audit(session, audit_id)
    record_hardening(session, hardening_id, "hardening", {"state": end})
    return True


def audits_of(session: Session, hardening_id: str) -> list[str]:
    """Return the audits a hardening has submitted."""
    row = session.get(HardeningRow, hardening_id)
    return [] if row is None else [audit for audit in (row.audit_before, row.audit_after) if audit is not None]


def retry_hardening(session: Session, hardening_id: str, *, lost: Collection[str] = ()) -> bool:
    """Retry what failed: the training anew, or the audits that failed. False when it has not failed.

    A training that has succeeded is not repeated.

    Args:
        session: An open write transaction.
        hardening_id: Which hardening.
        lost: Shards of its audits whose records are gone, see :func:`seatrial.store.lifecycle.retry_audit`.
    """
    row = lock(session, HardeningRow, hardening_id)
    if row is None or row.state != RunState.FAILED:
        return False
    anew: dict[str, Any] = {"error": None, "result": None, "verdict": None, "finished_at": None, "attempts": 0}
    own = HardeningRow.id == hardening_id
    if row.stage == TRAINING:
        state, more = RunState.QUEUED, {"deferrals": 0, "progress": None, "curves": None, **LET_GO}
    else:
        state, more = RunState.RUNNING, {}
        for column in ("audit_before", "audit_after"):
            audit_id = getattr(row, column)
            audit = None if audit_id is None else lock(session, AuditRow, audit_id)
            if audit is not None and audit.state == RunState.FAILED:
                retry_audit(session, audit.id, lost=lost)
            elif audit is not None and audit.state in (RunState.CANCELLED, RunState.CANCELLING):
                # Whoever cancelled it meant that audit: another is submitted.
                more[column] = None
    move(session, HardeningRow, state, own, sources={RunState.FAILED}, **anew, **more)
    record_hardening(session, hardening_id, "hardening", {"state": state})
    return True
