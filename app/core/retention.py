"""Dropping rows nobody needs any more: idempotent responses after a day, sessions and workers that are gone."""

from datetime import timedelta

from sqlalchemy import delete

from app.core.database import Database
from app.core.tables import IdempotencyRow, SessionRow, WorkerRow
from app.core.tables.base import utc_now

IDEMPOTENCY_KEPT = timedelta(days=1)
WORKER_KEPT = timedelta(hours=1)


def sweep_old(database: Database) -> None:
    """Delete expired rows."""
    with database.write() as session:
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < utc_now() - IDEMPOTENCY_KEPT))
        session.execute(delete(WorkerRow).where(WorkerRow.last_seen_at < utc_now() - WORKER_KEPT))
        session.execute(delete(SessionRow).where(SessionRow.expires_at < utc_now()))
