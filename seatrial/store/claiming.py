"""Which work is claimed next: projects take turns, and in each the oldest audit goes on until it ends.

A project's ``turn`` is the service it has had, in seconds of workers over its weight; the least comes first (Stride
scheduling: Waldspurger and Weihl, 1995). A claim counts a second at once, so that workers that claim at the same time
spread over projects, and what it took beyond that is added at its end (:func:`charge`). So neither many audits nor
long shards make a project's share larger, and a project that waited does not save up for later: one that has nothing
queued or running begins where the others are (:func:`join_queue`).
"""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Row, Select, and_, func, literal_column, or_, select, true, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import ModelState, RunState
from seatrial.store.sizes import ANY_SIZE, Sizes
from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ModelRow, ProjectRow, ShardRow
from seatrial.store.tables.audits import ADVANCEABLE, QUEUED, UNFINISHED
from seatrial.store.tables.hardenings import TRAINING
from seatrial.store.transitions import claim, is_free

CLAIM_S = 1.0
"""Seconds a claim counts before it is known what it takes."""

AHEAD_S = 60.0
"""Checks of uploads come before all measuring, until their project is so far ahead of the one that has had least: ever
more uploads do not keep the others' audits waiting."""

MOST_PROJECTS = 20
"""Projects looked at for one claim: the first nearly always has something that nobody else takes."""

LeasedTable = type[ModelRow] | type[CheckRow] | type[ShardRow] | type[HardeningRow]

Claimed = tuple[LeasedTable, str, str]
"""Table, id and token of what was claimed."""


def in_words(
    table: type[AuditRow] | type[CheckRow] | type[ShardRow] | type[HardeningRow], condition: str
) -> ColumnElement[bool]:
    """Return a condition of a partial index as its words, without parameters."""
    named = re.sub(r"\b(?=(state|open_shards)\b)", f"{table.__tablename__}.", f"({condition})")
    return literal_column(named, Boolean)


def waiting_models() -> Select[Any]:
    """Select the models that wait for their checks."""
    return (
        select(ModelRow.id)
        .join(ProjectRow, ProjectRow.id == ModelRow.project_id)
        .where(ModelRow.state == ModelState.CHECKING, is_free(ModelRow))
    )


def advanceable() -> Select[Any]:
    """Select the checks whose present stage is over and whose model has been checked."""
    return (
        select(CheckRow.id)
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .where(in_words(CheckRow, ADVANCEABLE), is_free(CheckRow), ModelRow.state != ModelState.CHECKING)
    )


def waiting_shards() -> Select[Any]:
    """Select the shards that wait."""
    return (
        select(ShardRow.id)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .where(in_words(ShardRow, QUEUED), is_free(ShardRow))
    )


def waiting_trainings() -> Select[Any]:
    """Select the hardenings that wait to be trained and whose model has been checked."""
    return (
        select(HardeningRow.id)
        .join(ModelRow, ModelRow.id == HardeningRow.model_id)
        .where(in_words(HardeningRow, QUEUED), is_free(HardeningRow), ModelRow.state != ModelState.CHECKING)
    )


def _own(code: str | None, sizes: Sizes) -> ColumnElement[bool]:
    """Return the condition that an audit is measured by this code, or by none so far, and its model of such a size."""
    return and_(
        true() if code is None else or_(AuditRow.code.is_(None), AuditRow.code == code),
        sizes.of_audits(),
    )


_OLDEST = (AuditRow.priority.desc(), AuditRow.id)


def claim_model(
    session: Session,
    *,
    lease_s: float,
    worker: str,
    project_id: str | None = None,
    most_turn: float | None = None,
    sizes: Sizes = ANY_SIZE,
) -> tuple[str, str] | None:
    """Take a model that waits for its checks, the oldest of the project whose turn it is.

    Args:
        session: An open write transaction.
        lease_s: Seconds the claim holds without a heartbeat.
        worker: Who takes it, for people.
        project_id: Of one project only.
        most_turn: Of projects only that are not further than this.
        sizes: Of such sizes only.
    """
    waiting = (
        waiting_models().where(sizes.of_models()).order_by(ProjectRow.priority.desc(), ProjectRow.turn, ModelRow.id)
    )
    if project_id is not None:
        waiting = waiting.where(ModelRow.project_id == project_id)
    if most_turn is not None:
        waiting = waiting.where(ProjectRow.turn <= most_turn)
    return claim(session, ModelRow, waiting, lease_s=lease_s, worker=worker)


def claim_check(
    session: Session,
    *,
    lease_s: float,
    worker: str,
    project_id: str | None = None,
    is_begun: bool = False,
    code: str | None = None,
    sizes: Sizes = ANY_SIZE,
) -> tuple[str, str] | None:
    """Take the check of the oldest audit that can be advanced to its next stage or to its result.

    Args:
        session: An open write transaction.
        lease_s: Seconds the claim holds without a heartbeat.
        worker: Who takes it, for people.
        project_id: Of one project only.
        is_begun: Only one that has begun.
        code: Of audits only that no other code measures.
        sizes: Of audits only whose model is of such a size.
    """
    found = advanceable().where(_own(code, sizes)).order_by(*_OLDEST, CheckRow.id)
    if project_id is not None:
        found = found.where(AuditRow.project_id == project_id, in_words(AuditRow, UNFINISHED))
    if is_begun:
        found = found.where(CheckRow.state == RunState.RUNNING)
    return claim(session, CheckRow, found, lease_s=lease_s, worker=worker)


def claim_shard(
    session: Session,
    *,
    lease_s: float,
    worker: str,
    project_id: str | None = None,
    code: str | None = None,
    sizes: Sizes = ANY_SIZE,
) -> tuple[str, str] | None:
    """Take the oldest queued shard of the oldest audit, of one project only where that is named.

    And of audits only that no code but ``code`` measures, and whose model is of such a size.
    """
    queued = waiting_shards().where(_own(code, sizes)).order_by(*_OLDEST, ShardRow.id)
    if project_id is not None:
        queued = queued.where(AuditRow.project_id == project_id, in_words(AuditRow, UNFINISHED))
    return claim(session, ShardRow, queued, lease_s=lease_s, worker=worker)


def claim_training(
    session: Session, *, lease_s: float, worker: str, project_id: str | None = None, sizes: Sizes = ANY_SIZE
) -> tuple[str, str] | None:
    """Take the oldest hardening that waits to be trained, of one project only where that is named."""
    waiting = waiting_trainings().where(sizes.of_models()).order_by(HardeningRow.id)
    if project_id is not None:
        waiting = waiting.where(HardeningRow.project_id == project_id)
    return claim(session, HardeningRow, waiting, lease_s=lease_s, worker=worker)


def claim_work(
    session: Session, *, lease_s: float, worker: str, code: str | None = None, sizes: Sizes = ANY_SIZE
) -> Claimed | None:
    """Take what is to be done next; None where nothing can be claimed.

    Audits that another ``code`` measures are left to those who run it, and models of other sizes to who takes them.

    Checks of uploads first, since audits wait for them. Then the project whose turn it is: what has begun is advanced,
    and the shards of its oldest audit are run, before another audit is begun. A hardening older than that audit is
    trained before it.
    """
    projects = _projects_with_work(session, code, sizes)
    ahead = min(row.turn for row in projects) + AHEAD_S if projects else None
    if (model := claim_model(session, lease_s=lease_s, worker=worker, most_turn=ahead, sizes=sizes)) is not None:
        _take_turn(session, select(ModelRow.project_id).where(ModelRow.id == model[0]))
        return (ModelRow, *model)
    for project in projects:
        claimed = _claim_of(session, project.id, code, lease_s=lease_s, worker=worker, sizes=sizes)
        if claimed is not None:
            _take_turn(session, select(ProjectRow.id).where(ProjectRow.id == project.id))
            return claimed
    return None


def _claim_of(session: Session, project_id: str, code: str | None, **by: Any) -> Claimed | None:
    sizes: Sizes = by["sizes"]
    if (model := claim_model(session, project_id=project_id, **by)) is not None:
        return (ModelRow, *model)
    if (check := claim_check(session, project_id=project_id, is_begun=True, code=code, **by)) is not None:
        return (CheckRow, *check)
    own = (AuditRow.project_id == project_id, in_words(AuditRow, UNFINISHED), _own(code, sizes))
    shard = session.execute(_oldest(waiting_shards().where(*own))).one_or_none()
    begin = session.execute(_oldest(advanceable().where(*own))).one_or_none()
    training = session.scalar(
        waiting_trainings()
        .where(HardeningRow.project_id == project_id, sizes.of_models())
        .order_by(HardeningRow.id)
        .limit(1)
    )
    audits = [row for row in (shard, begin) if row is not None]
    if training is not None and all(row.priority <= 0 and _age(training) < _age(row.id) for row in audits):
        claimed = claim_training(session, project_id=project_id, **by)
        if claimed is not None:
            return (HardeningRow, *claimed)
    # Of one audit, what has begun before what has not.
    is_shard_first = begin is None or (shard is not None and (-shard.priority, shard.id) <= (-begin.priority, begin.id))
    for is_shard in (is_shard_first, not is_shard_first):
        if is_shard and (claimed := claim_shard(session, project_id=project_id, code=code, **by)) is not None:
            return (ShardRow, *claimed)
        if not is_shard and (claimed := claim_check(session, project_id=project_id, code=code, **by)) is not None:
            return (CheckRow, *claimed)
    if training is not None and (claimed := claim_training(session, project_id=project_id, **by)) is not None:
        return (HardeningRow, *claimed)
    return None


def _age(row_id: str) -> str:
    """Return the part of an id that rises with time."""
    return row_id.partition("_")[2]


def _oldest(found: Select[Any]) -> Select[int, str]:
    return found.with_only_columns(AuditRow.priority, AuditRow.id).order_by(*_OLDEST).limit(1)


def _projects_with_work(
    session: Session, code: str | None = None, sizes: Sizes = ANY_SIZE
) -> Sequence[Row[str, float]]:
    """Return the projects that have something to claim, in the order of their turns."""
    own = (AuditRow.project_id == ProjectRow.id, in_words(AuditRow, UNFINISHED), _own(code, sizes))
    model = select(ModelRow.id).where(
        ModelRow.state == ModelState.CHECKING,
        is_free(ModelRow),
        ModelRow.project_id == ProjectRow.id,
        sizes.of_models(),
    )
    training = waiting_trainings().where(HardeningRow.project_id == ProjectRow.id, sizes.of_models())
    exists = or_(
        model.correlate(ProjectRow).exists(),
        waiting_shards().where(*own).correlate(ProjectRow).exists(),
        advanceable().where(*own).correlate(ProjectRow).exists(),
        training.correlate(ProjectRow).exists(),
    )
    query = select(ProjectRow.id, ProjectRow.turn).where(exists)
    return session.execute(
        query.order_by(ProjectRow.priority.desc(), ProjectRow.turn, ProjectRow.id).limit(MOST_PROJECTS)
    ).all()


def _take_turn(session: Session, project: Select[Any]) -> None:
    _add(session, project, CLAIM_S)


def _add(session: Session, project: Select[Any], seconds: float) -> None:
    session.execute(
        update(ProjectRow)
        .where(ProjectRow.id == project.scalar_subquery())
        .values(turn=ProjectRow.turn + seconds / ProjectRow.weight)
        .execution_options(synchronize_session=False)
    )


def charge(session: Session, table: LeasedTable, row_id: str, seconds: float) -> None:
    """Add what a claim took of a worker, whatever came of it, to its project's turn."""
    project = select(ModelRow.project_id).where(ModelRow.id == row_id)
    if table is HardeningRow:
        project = select(HardeningRow.project_id).where(HardeningRow.id == row_id)
    elif table is not ModelRow:
        project = select(AuditRow.project_id).join(CheckRow, CheckRow.audit_id == AuditRow.id)
        if table is ShardRow:
            project = project.join(ShardRow, ShardRow.check_id == CheckRow.id)
        project = project.where(table.id == row_id)
    _add(session, project, seconds - CLAIM_S)


def ids_of(session: Session, table: LeasedTable, row_id: str) -> dict[str, str]:
    """Return the ids of what a claimed row belongs to, as logs name them: of a shard its check, audit and project too.

    ``request_id`` is of the request that asked for the audit, where one did.
    """
    if table in (ModelRow, HardeningRow):
        project = session.scalar(select(table.project_id).where(table.id == row_id))
        found = {"model_id" if table is ModelRow else "hardening_id": row_id, "project_id": project}
    else:
        query = select(AuditRow.id, AuditRow.project_id, AuditRow.request_id, CheckRow.id)
        query = query.join(CheckRow, CheckRow.audit_id == AuditRow.id)
        if table is ShardRow:
            query = query.join(ShardRow, ShardRow.check_id == CheckRow.id)
        audit, project, request, check = session.execute(query.where(table.id == row_id)).one()
        found = {"audit_id": audit, "project_id": project, "request_id": request, "check_id": check}
        found |= {"shard_id": row_id} if table is ShardRow else {}
    return {name: one for name, one in found.items() if one is not None}


def trace_of(session: Session, audit_id: str) -> str | None:
    """Return the context of the trace that an audit is part of; None where there is none."""
    return session.scalar(select(AuditRow.traceparent).where(AuditRow.id == audit_id))


def join_queue(session: Session, project_id: str) -> None:
    """Begin where the others are, with a project that has nothing queued or running: idle time is not saved up.

    Others are those that have something to claim or run something now; where nobody has, nobody is kept waiting.
    """
    shards = (
        select(ShardRow.id)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
    )
    own = shards.where(AuditRow.project_id == project_id, in_words(AuditRow, UNFINISHED))
    if session.scalar(own.where(ShardRow.state.in_((RunState.QUEUED, RunState.RUNNING))).limit(1)) is not None:
        return
    at_work = HardeningRow.state.in_((RunState.QUEUED, RunState.RUNNING)), HardeningRow.stage == TRAINING
    trainings = select(HardeningRow.id).where(HardeningRow.project_id == project_id, *at_work)
    if session.scalar(trainings.limit(1)) is not None:
        return
    trained = (
        select(func.min(ProjectRow.turn))
        .join(HardeningRow, HardeningRow.project_id == ProjectRow.id)
        .where(*at_work, ProjectRow.id != project_id)
    )
    running = (
        select(func.min(ProjectRow.turn))
        .join(AuditRow, AuditRow.project_id == ProjectRow.id)
        .join(CheckRow, CheckRow.audit_id == AuditRow.id)
        .join(ShardRow, ShardRow.check_id == CheckRow.id)
        .where(ShardRow.state == RunState.RUNNING, ProjectRow.id != project_id)
    )
    turns = [row.turn for row in _projects_with_work(session) if row.id != project_id]
    turns += [turn for turn in (session.scalar(running), session.scalar(trained)) if turn is not None]
    if turns:
        least = min(turns)
        session.execute(
            update(ProjectRow)
            .where(ProjectRow.id == project_id, ProjectRow.turn < least)
            .values(turn=least)
            .execution_options(synchronize_session=False)
        )


def count_work(session: Session, *, most: int = 1000) -> int:
    """Count what could be claimed now, up to ``most``."""
    claimable = (waiting_shards(), waiting_models(), advanceable(), waiting_trainings())
    counts = (session.scalar(select(func.count()).select_from(query.limit(most).subquery())) for query in claimable)
    return min(most, sum(count or 0 for count in counts))
