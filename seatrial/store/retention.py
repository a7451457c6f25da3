"""Dropping rows nobody needs any more: idempotent responses, sessions, workers that are gone, old messages.

Workers see only to their own table: the role they have in the database need not reach sessions or messages.
"""

import os
from datetime import timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from seatrial.store.database import Database
from seatrial.store.tables import DeliveryRow, IdempotencyRow, SessionRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.workers import SCHEDULER

IDEMPOTENCY_KEPT = timedelta(days=1)
WORKER_KEPT = timedelta(hours=1)
DELIVERY_KEPT = timedelta(days=30)


def sweep_workers(database: Database) -> None:
    """Forget workers that have not been seen for long. Of every worker, and the scheduler."""
    old = WorkerRow.last_seen_at < utc_now() - WORKER_KEPT
    with database.write() as session:
        # That of the scheduler says since when there is none.
        session.execute(delete(WorkerRow).where(old, WorkerRow.id != SCHEDULER))


def tell_scheduler_alive(database: Database) -> None:
    """Write that the scheduler has swept, now."""
    with database.write() as session:
        told = update(WorkerRow).where(WorkerRow.id == SCHEDULER).values(last_seen_at=utc_now())
        if not session.execute(told).rowcount:  # type: ignore[attr-defined]
            session.add(WorkerRow(id=SCHEDULER, device="none", pid=os.getpid()))


def scheduler_age_s(session: Session) -> float | None:
    """Return the seconds since the scheduler swept last; None where none ever did."""
    seen = session.scalar(select(WorkerRow.last_seen_at).where(WorkerRow.id == SCHEDULER))
    return None if seen is None else max(0.0, (utc_now() - seen).total_seconds())


def sweep_old(database: Database) -> None:
    """Delete expired responses, sessions and messages. Of the API."""
    with database.write() as session:
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < utc_now() - IDEMPOTENCY_KEPT))
        session.execute(delete(SessionRow).where(SessionRow.expires_at < utc_now()))
        # By the columns of the index; of a delivery that has ended, when it was last due is about when it ended.
        ended = DeliveryRow.status.in_(("delivered", "failed")), DeliveryRow.due_at < utc_now() - DELIVERY_KEPT
        session.execute(delete(DeliveryRow).where(*ended))
