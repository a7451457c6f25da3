"""The rows. ``state`` columns are written by :mod:`seatrial.store.transitions` alone."""

from seatrial.store.tables.access import IdempotencyRow, KeyRow, ProjectRow, SessionRow
from seatrial.store.tables.audits import AuditRow, CheckRow, EventRow, ShardRow, StageRow
from seatrial.store.tables.base import Base
from seatrial.store.tables.counters import CounterRow
from seatrial.store.tables.files import DiscardRow
from seatrial.store.tables.gates import AttestationRow, BaselineRow, JudgementRow, PolicyRow
from seatrial.store.tables.hardenings import HardeningEventRow, HardeningRow
from seatrial.store.tables.keeping import ActivityRow, QuotaRow, ReleaseRow, RetentionRow, TombstoneRow
from seatrial.store.tables.plans import PlanRow, PlanStepRow
from seatrial.store.tables.resources import DatasetRow, ModelRow
from seatrial.store.tables.schema import SchemaRow
from seatrial.store.tables.tags import TagRow
from seatrial.store.tables.webhooks import DeliveryRow, WebhookRow
from seatrial.store.tables.workers import WorkerRow

__all__ = [
    "ActivityRow",
    "AttestationRow",
    "AuditRow",
    "Base",
    "BaselineRow",
    "CheckRow",
    "CounterRow",
    "DatasetRow",
    "DeliveryRow",
    "DiscardRow",
    "EventRow",
    "HardeningEventRow",
    "HardeningRow",
    "IdempotencyRow",
    "JudgementRow",
    "KeyRow",
    "ModelRow",
    "PlanRow",
    "PlanStepRow",
    "PolicyRow",
    "ProjectRow",
    "QuotaRow",
    "ReleaseRow",
    "RetentionRow",
    "SchemaRow",
    "SessionRow",
    "ShardRow",
    "StageRow",
    "TagRow",
    "TombstoneRow",
    "WebhookRow",
    "WorkerRow",
]
