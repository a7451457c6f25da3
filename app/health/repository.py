"""SQL of the health routes."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import ModelState, RunState
from seatrial.store.tables import AuditRow, ModelRow, ShardRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.workers import SCHEDULER

MIN_ALIVE_S = 30.0
"""Seconds a worker is believed alive at least: a slow disk or a long garbage collection is no death."""


@dataclass(frozen=True)
class Work:
    """What there is to do, and who does it."""

    audits: dict[str, int]
    queued_shards: int
    running_shards: int
    models_checking: int
    workers_alive: int


def count_workers(session: Session) -> int:
    """Return how many workers were seen lately.

    A worker says that it lives every ten seconds at least, whatever it does; one that was killed is counted until it
    has missed three.
    """
    alive = timedelta(seconds=MIN_ALIVE_S)
    query = (
        select(func.count())
        .select_from(WorkerRow)
        .where(WorkerRow.last_seen_at > utc_now() - alive, WorkerRow.id != SCHEDULER)
    )
    return session.scalar(query) or 0


def count_work(session: Session) -> Work:
    """Count audits by state, shards, models and workers."""
    audits = session.execute(select(AuditRow.state, func.count()).group_by(AuditRow.state)).all()
    active = (RunState.QUEUED, RunState.RUNNING)
    open_shards = session.execute(
        select(ShardRow.state, func.count()).where(ShardRow.state.in_(active)).group_by(ShardRow.state)
    ).all()
    shards = {state: count for state, count in open_shards}
    checking = select(func.count()).select_from(ModelRow).where(ModelRow.state == ModelState.CHECKING)
    return Work(
        audits={str(state): 0 for state in RunState} | {state: count for state, count in audits},
        queued_shards=shards.get(RunState.QUEUED, 0),
        running_shards=shards.get(RunState.RUNNING, 0),
        models_checking=session.scalar(checking) or 0,
        workers_alive=count_workers(session),
    )
