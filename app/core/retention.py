"""Dropping what is too old: idempotent responses after a day, workers gone, audits after the operator's time."""

from datetime import timedelta

from sqlalchemy import delete

from app.contracts.states import TERMINAL
from app.core.database import Database
from app.core.settings import Settings
from app.core.tables import AuditRow, IdempotencyRow, WorkerRow
from app.core.tables.base import utc_now

IDEMPOTENCY_KEPT = timedelta(days=1)
WORKER_KEPT = timedelta(hours=1)


def sweep_old(database: Database, settings: Settings) -> None:
    """Delete expired rows; artifacts stay, since another audit may share them."""
    with database.write() as session:
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < utc_now() - IDEMPOTENCY_KEPT))
        session.execute(delete(WorkerRow).where(WorkerRow.last_seen_at < utc_now() - WORKER_KEPT))
        if settings.retention_days:
            oldest = utc_now() - timedelta(days=settings.retention_days)
            # Checks, stages, shards and events go with their audit.
            session.execute(delete(AuditRow).where(AuditRow.state.in_(TERMINAL), AuditRow.finished_at < oldest))
