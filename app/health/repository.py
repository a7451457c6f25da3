"""SQL of the health routes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import ACTIVE, TERMINAL, UNFINISHED, ModelState, RunState
from seatrial.contracts.webhooks import DeliveryStatus
from seatrial.store.counters import Values, read_counts
from seatrial.store.retention import scheduler_age_s
from seatrial.store.tables import AuditRow, CheckRow, DeliveryRow, ModelRow, ProjectRow, ShardRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.workers import SCHEDULER
from seatrial.store.usage import disk_use
from seatrial.store.worker_usage import WorkerUsage

MIN_ALIVE_S = 30.0
"""Seconds a worker is believed alive at least: a slow disk or a long garbage collection is no death."""


@dataclass(frozen=True)
class Work:
    """What there is to do, and who does it.

    Attributes:
        audits: Audits that have not ended, by state.
        queued_shards: Shards nobody has claimed.
        running_shards: Those somebody has.
        retries: Attempts beyond the first, by family.
        oldest_queued_s: How long the audit that has waited longest has; 0 where none waits.
        models_checking: Models a worker has not looked at to the end.
        workers_alive: Workers that gave a sign of life lately.
        scheduler_age_s: Since the periodic work was last begun; None where it never was.
        pending: Messages to be sent.
        by_project: Audits that have not ended, by project and state.
        counts: What workers count, by name.
        workers: What each takes of its machine.
    """

    audits: dict[str, int]
    queued_shards: int
    running_shards: int
    retries: dict[str, int]
    oldest_queued_s: float
    models_checking: int
    workers_alive: int
    scheduler_age_s: float | None
    pending: int
    by_project: dict[tuple[str, ...], int]
    counts: Mapping[str, Values]
    workers: list[WorkerUsage]


@dataclass(frozen=True)
class Use:
    """What is stored and what came of it, counted over all there is.

    Attributes:
        ended: Audits that have ended, by state.
        sent: Messages that are not to be sent any more, by status.
        stored: Bytes by project and kind.
        verdicts: Audits by verdict.
        checks: Checks by family and state.
    """

    ended: dict[str, int]
    sent: dict[str, int]
    stored: dict[tuple[str, ...], int]
    verdicts: dict[str, int]
    checks: dict[tuple[str, ...], int]


def count_workers(session: Session) -> int:
    """Return how many workers were seen lately.

    A worker says that it lives every ten seconds at least, whatever it does; one that was killed is counted until it
    has missed three.
    """
    return session.scalar(select(func.count()).select_from(WorkerRow).where(*_alive())) or 0


def _alive() -> tuple[ColumnElement[bool], ...]:
    return WorkerRow.last_seen_at > utc_now() - timedelta(seconds=MIN_ALIVE_S), WorkerRow.id != SCHEDULER


def list_worker_usage(session: Session) -> list[WorkerUsage]:
    """Return what workers use that were seen lately; those of a version that does not tell are left out."""
    told = session.scalars(select(WorkerRow.usage).where(*_alive(), WorkerRow.usage.is_not(None)))
    return [WorkerUsage.model_validate(one) for one in told]


def count_work(session: Session) -> Work:
    """Count what has not ended, models and workers, and read what is counted as it happens.

    Asked every few seconds: nothing here reads what has ended.
    """
    audits = session.execute(_AUDITS.where(AuditRow.state.in_(UNFINISHED)))
    active = (RunState.QUEUED, RunState.RUNNING)
    open_shards = session.execute(
        select(ShardRow.state, func.count()).where(ShardRow.state.in_(active)).group_by(ShardRow.state)
    ).all()
    shards = {state: count for state, count in open_shards}
    oldest = session.scalar(select(func.min(AuditRow.created_at)).where(AuditRow.state == RunState.QUEUED))
    checking = select(func.count()).select_from(ModelRow).where(ModelRow.state == ModelState.CHECKING)
    return Work(
        audits={str(state): 0 for state in UNFINISHED} | {state: count for state, count in audits},
        queued_shards=shards.get(RunState.QUEUED, 0),
        running_shards=shards.get(RunState.RUNNING, 0),
        retries={str(kind): int(count) for kind, count in session.execute(_RETRIES.where(ShardRow.state.in_(active)))},
        oldest_queued_s=0.0 if oldest is None else max(0.0, (utc_now() - oldest).total_seconds()),
        models_checking=session.scalar(checking) or 0,
        workers_alive=count_workers(session),
        scheduler_age_s=scheduler_age_s(session),
        pending=session.scalar(_PENDING) or 0,
        by_project={(name, state): count for name, state, count in session.execute(_BY_PROJECT)},
        counts=read_counts(session),
        workers=list_worker_usage(session),
    )


_RETRIES = (
    select(CheckRow.kind, func.sum(ShardRow.attempts - 1))
    .join(CheckRow, CheckRow.id == ShardRow.check_id)
    .where(ShardRow.attempts > 1)
    .group_by(CheckRow.kind)
)
_AUDITS = select(AuditRow.state, func.count()).group_by(AuditRow.state)
_PENDING = select(func.count()).select_from(DeliveryRow).where(DeliveryRow.status == "pending")
_SENT = select(DeliveryRow.status, func.count()).where(DeliveryRow.status != "pending").group_by(DeliveryRow.status)
_BY_PROJECT = (
    select(ProjectRow.name, AuditRow.state, func.count())
    .join(ProjectRow, ProjectRow.id == AuditRow.project_id)
    .where(AuditRow.state.in_(ACTIVE))
    .group_by(ProjectRow.name, AuditRow.state)
)


def read_use(session: Session) -> Use:
    """Return what is stored and what came of it, over everything there is."""
    stored: dict[tuple[str, ...], int] = {}
    for project_id, name in session.execute(select(ProjectRow.id, ProjectRow.name)).all():
        disk = disk_use(session, project_id)
        stored |= {(name, kind): size for kind, size in disk.by_kind.items()}
    judged = select(AuditRow.verdict, func.count()).where(AuditRow.verdict.is_not(None)).group_by(AuditRow.verdict)
    checks = select(CheckRow.kind, CheckRow.state, func.count()).group_by(CheckRow.kind, CheckRow.state)
    statuses = [status for status in get_args(DeliveryStatus) if status != "pending"]
    ended = session.execute(_AUDITS.where(AuditRow.state.in_(TERMINAL)))
    return Use(
        ended={str(state): 0 for state in TERMINAL} | {state: count for state, count in ended},
        sent=dict.fromkeys(statuses, 0) | {status: count for status, count in session.execute(_SENT)},
        stored=stored,
        verdicts={str(verdict): count for verdict, count in session.execute(judged)},
        checks={(kind, state): count for kind, state, count in session.execute(checks)},
    )
