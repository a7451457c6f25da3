"""Writing the history of an audit."""

from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from seatrial.contracts.events import EventKind
from seatrial.store.tables import AuditRow, EventRow
from seatrial.store.tables.base import utc_now


def record_event(session: Session, audit_id: str, kind: EventKind, data: dict[str, Any]) -> None:
    """Append one event in the caller's transaction.

    The counter on the audit's row serialises writers of the same audit, so numbers commit in order and a reader that
    has seen n never misses n - 1.
    """
    seq = session.scalar(
        update(AuditRow)
        .where(AuditRow.id == audit_id)
        .values(event_seq=AuditRow.event_seq + 1)
        .returning(AuditRow.event_seq)
        .execution_options(synchronize_session=False)
    )
    if seq is not None:
        session.execute(insert(EventRow).values(audit_id=audit_id, seq=seq, kind=kind, data=data, created_at=utc_now()))
