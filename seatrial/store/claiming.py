"""Which work is claimed next: projects take turns, and in each the oldest audit goes on until it ends.

A project's ``turn`` is the service it has had, in seconds of workers over its weight; the least comes first (Stride
scheduling: Waldspurger and Weihl, 1995). A claim counts a second at once, so that workers that claim at the same time
spread over projects, and what it took beyond that is added at its end (:func:`charge`). So neither many audits nor
long shards make a project's share larger, and a project that waited does not save up for later: one that has nothing
queued or running begins where the others are (:func:`join_queue`).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, String, bindparam, func, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import RunState
from seatrial.store.sizes import ANY_SIZE, Sizes
from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ModelRow, ProjectRow, ShardRow
from seatrial.store.tables.audits import BEGUN, UNFINISHED
from seatrial.store.tables.hardenings import TRAINING
from seatrial.store.transitions import claim
from seatrial.store.waiting import (
    OLDEST,
    SHAPES,
    Audit,
    Project,
    advanceable,
    in_words,
    next_audit,
    own,
    projects_with_work,
    waiting_models,
    waiting_shards,
    waiting_trainings,
)

CLAIM_S = 1.0
"""Seconds a claim counts before it is known what it takes."""

AHEAD_S = 60.0
"""Checks of uploads come before all measuring, until their project is so far ahead of the one that has had least: ever
more uploads do not keep the others' audits waiting."""

LeasedTable = type[ModelRow] | type[CheckRow] | type[ShardRow] | type[HardeningRow]

Claimed = tuple[LeasedTable, str, str]
"""Table, id and token of what was claimed."""


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
    audit_id: str | None = None,
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
        audit_id: Of one audit only.
        is_begun: Only one that has begun.
        code: Of audits only that no other code measures.
        sizes: Of audits only whose model is of such a size.
    """
    of = {"project": project_id, "audit": audit_id}
    of = {name: row_id for name, row_id in of.items() if row_id is not None}
    found = _checks(code, sizes, tuple(of), is_begun)
    return claim(session, CheckRow, found, of, lease_s=lease_s, worker=worker)


@lru_cache(SHAPES)
def _checks(code: str | None, sizes: Sizes, of: tuple[str, ...], is_begun: bool) -> Select[Any]:
    found = _narrowed(advanceable(), code, sizes, of)
    if is_begun:
        found = found.where(in_words(CheckRow, BEGUN))
    return found.order_by(*OLDEST, CheckRow.id)


@lru_cache(SHAPES)
def _shards(code: str | None, sizes: Sizes, of: tuple[str, ...]) -> Select[Any]:
    return _narrowed(waiting_shards(), code, sizes, of).order_by(*OLDEST, ShardRow.id)


def _narrowed(found: Select[Any], code: str | None, sizes: Sizes, of: tuple[str, ...]) -> Select[Any]:
    """Return only what is of audits of this code and size, and of the project or the audit that is bound."""
    found = found.where(own(code, sizes))
    if "project" in of:
        found = found.where(AuditRow.project_id == bindparam("project", type_=String), in_words(AuditRow, UNFINISHED))
    if "audit" in of:
        found = found.where(AuditRow.id == bindparam("audit", type_=String))
    return found


def claim_shard(
    session: Session,
    *,
    lease_s: float,
    worker: str,
    audit_id: str | None = None,
    code: str | None = None,
    sizes: Sizes = ANY_SIZE,
) -> tuple[str, str] | None:
    """Take the oldest queued shard of the oldest audit, of one audit only where that is named.

    And of audits only that no code but ``code`` measures, and whose model is of such a size.
    """
    of = {} if audit_id is None else {"audit": audit_id}
    return claim(session, ShardRow, _shards(code, sizes, tuple(of)), of, lease_s=lease_s, worker=worker)


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
    projects = projects_with_work(session, code, sizes)
    by: dict[str, Any] = {"lease_s": lease_s, "worker": worker, "sizes": sizes}
    if projects and projects[0].any_models:
        ahead = min(project.turn for project in projects) + AHEAD_S
        if (model := claim_model(session, most_turn=ahead, **by)) is not None:
            _take_turn(session, select(ModelRow.project_id).where(ModelRow.id == model[0]))
            return (ModelRow, *model)
    for project in projects:
        if (claimed := _claim_of(session, project, code, **by)) is not None:
            _take_turn(session, select(ProjectRow.id).where(ProjectRow.id == project.id))
            return claimed
    return None


def _claim_of(session: Session, project: Project, code: str | None, **by: Any) -> Claimed | None:
    if project.has_models and (model := claim_model(session, project_id=project.id, **by)) is not None:
        return (ModelRow, *model)
    if project.any_begun:
        check = claim_check(session, project_id=project.id, is_begun=True, code=code, **by)
        if check is not None:
            return (CheckRow, *check)
    audit = next_audit(session, project.id, code, by["sizes"])
    training = _oldest_training(session, project.id, by["sizes"]) if project.has_trainings else None
    is_training_older = training is not None and (
        audit is None or (audit.priority <= 0 and _age(training) < _age(audit.id))
    )
    if is_training_older and (trained := claim_training(session, project_id=project.id, **by)) is not None:
        return (HardeningRow, *trained)
    if (claimed := _claim_measuring(session, project.id, audit, code, **by)) is not None:
        return claimed
    if training is not None and (trained := claim_training(session, project_id=project.id, **by)) is not None:
        return (HardeningRow, *trained)
    return None


def _claim_measuring(
    session: Session, project_id: str, audit: Audit | None, code: str | None, **by: Any
) -> Claimed | None:
    """Take a shard or a check of an audit, or of the next one that has something which nobody else takes."""
    while audit is not None:
        # What has begun before what has not.
        if (shard := claim_shard(session, audit_id=audit.id, code=code, **by)) is not None:
            return (ShardRow, *shard)
        if (check := claim_check(session, audit_id=audit.id, code=code, **by)) is not None:
            return (CheckRow, *check)
        audit = next_audit(session, project_id, code, by["sizes"], after=audit)
    return None


def _oldest_training(session: Session, project_id: str, sizes: Sizes) -> str | None:
    waiting = waiting_trainings().where(HardeningRow.project_id == project_id, sizes.of_models())
    oldest: str | None = session.scalar(waiting.order_by(HardeningRow.id).limit(1))
    return oldest


def _age(row_id: str) -> str:
    """Return the part of an id that rises with time."""
    return row_id.partition("_")[2]


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

    ``request_id`` is of the request that asked for the audit or the hardening, where it is known.
    """
    if table in (ModelRow, HardeningRow):
        project = session.scalar(select(table.project_id).where(table.id == row_id))
        found = {"model_id" if table is ModelRow else "hardening_id": row_id, "project_id": project}
        if table is HardeningRow:
            found["request_id"] = session.scalar(select(HardeningRow.request_id).where(HardeningRow.id == row_id))
    else:
        query = select(AuditRow.id, AuditRow.project_id, AuditRow.request_id, CheckRow.id)
        query = query.join(CheckRow, CheckRow.audit_id == AuditRow.id)
        if table is ShardRow:
            query = query.join(ShardRow, ShardRow.check_id == CheckRow.id)
        audit, project, request, check = session.execute(query.where(table.id == row_id)).one()
        found = {"audit_id": audit, "project_id": project, "request_id": request, "check_id": check}
        found |= {"shard_id": row_id} if table is ShardRow else {}
    return {name: one for name, one in found.items() if one is not None}


def trace_of(session: Session, ids: Mapping[str, str]) -> str | None:
    """Return the context of the trace that a claim is part of, by :func:`ids_of` it; None where there is none."""
    if "audit_id" in ids:
        return session.scalar(select(AuditRow.traceparent).where(AuditRow.id == ids["audit_id"]))
    return session.scalar(select(HardeningRow.traceparent).where(HardeningRow.id == ids.get("hardening_id")))


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
    turns = [row.turn for row in projects_with_work(session) if row.id != project_id]
    turns += [turn for turn in (session.scalar(running), session.scalar(trained)) if turn is not None]
    if turns:
        least = min(turns)
        session.execute(
            update(ProjectRow)
            .where(ProjectRow.id == project_id, ProjectRow.turn < least)
            .values(turn=least)
            .execution_options(synchronize_session=False)
        )
