"""The rows. ``state`` columns are written by :mod:`app.core.transitions` alone."""

from app.core.tables.access import IdempotencyRow, KeyRow, ProjectRow, SessionRow
from app.core.tables.audits import AuditRow, CheckRow, EventRow, ShardRow, StageRow
from app.core.tables.base import Base
from app.core.tables.files import DiscardRow
from app.core.tables.gates import BaselineRow, JudgementRow, PolicyRow
from app.core.tables.resources import DatasetRow, ModelRow
from app.core.tables.webhooks import DeliveryRow, WebhookRow
from app.core.tables.workers import WorkerRow

__all__ = [
    "AuditRow",
    "Base",
    "BaselineRow",
    "CheckRow",
    "DatasetRow",
    "DeliveryRow",
    "DiscardRow",
    "EventRow",
    "IdempotencyRow",
    "JudgementRow",
    "KeyRow",
    "ModelRow",
    "PolicyRow",
    "ProjectRow",
    "SessionRow",
    "ShardRow",
    "StageRow",
    "WebhookRow",
    "WorkerRow",
]
