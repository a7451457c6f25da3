"""Dropping rows nobody needs any more: idempotent responses, sessions, workers that are gone, old messages.

Workers see only to their own table: the role they have in the database need not reach sessions or messages.
"""

from datetime import timedelta

from sqlalchemy import delete

from seatrial.store.database import Database
from seatrial.store.tables import DeliveryRow, IdempotencyRow, SessionRow, WorkerRow
from seatrial.store.tables.base import utc_now

IDEMPOTENCY_KEPT = timedelta(days=1)
WORKER_KEPT = timedelta(hours=1)
DELIVERY_KEPT = timedelta(days=30)


def sweep_workers(database: Database) -> None:
    """Forget workers that have not been seen for long. Of every worker, and the scheduler."""
    with database.write() as session:
        session.execute(delete(WorkerRow).where(WorkerRow.last_seen_at < utc_now() - WORKER_KEPT))


def sweep_old(database: Database) -> None:
    """Delete expired responses, sessions and messages. Of the API."""
    with database.write() as session:
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < utc_now() - IDEMPOTENCY_KEPT))
        session.execute(delete(SessionRow).where(SessionRow.expires_at < utc_now()))
        # By the columns of the index; of a delivery that has ended, when it was last due is about when it ended.
        ended = DeliveryRow.status.in_(("delivered", "failed")), DeliveryRow.due_at < utc_now() - DELIVERY_KEPT
        session.execute(delete(DeliveryRow).where(*ended))
