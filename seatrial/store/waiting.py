"""What waits to be claimed: uploads to check, trainings, checks to advance, shards to run; and whose turn it is.

Conditions of partial indexes are told in their words (:func:`in_words`), and what is asked of an audit is asked inside,
check by check: so a project's audits are read in their order up to the first that has something, however many wait.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    String,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    true,
    union,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from seatrial.contracts.states import ModelState
from seatrial.store.sizes import ANY_SIZE, Sizes
from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ModelRow, ProjectRow, ShardRow
from seatrial.store.tables.audits import ADVANCEABLE, BEGUN, QUEUED, UNFINISHED
from seatrial.store.tables.resources import CHECKING
from seatrial.store.transitions import is_free

MOST_PROJECTS = 20
"""Projects looked at for one claim: the first nearly always has something that nobody else takes."""

MOST_COUNTED = 1000
"""Pieces of work that are counted: more are as many."""

SHAPES = 64
"""Statements kept as they were made: making one takes longer than asking it."""

ONE = literal_column("1", Integer)
"""As a parameter it would be no part of a plan that is made once, and the plan for any number reads more."""

OLDEST = (AuditRow.priority.desc(), AuditRow.id)
"""The order of a project's audits."""


class Project(NamedTuple):
    """A project that has something to claim.

    Attributes:
        id: Which.
        turn: The service it has had.
        has_models: Whether uploads of its wait for their checks.
        has_trainings: Whether hardenings of its wait to be trained.
        any_models: Whether uploads of any project wait.
        any_begun: Whether checks of any project wait that have begun.
    """

    id: str
    turn: float
    has_models: bool
    has_trainings: bool
    any_models: bool
    any_begun: bool


class Audit(NamedTuple):
    """An audit that has something to claim."""

    priority: int
    id: str


def in_words(
    table: type[AuditRow] | type[CheckRow] | type[ShardRow] | type[HardeningRow] | type[ModelRow], condition: str
) -> ColumnElement[bool]:
    """Return a condition of a partial index as its words, without parameters."""
    named = re.sub(r"\b(?=(state|open_shards)\b)", f"{table.__tablename__}.", f"({condition})")
    return literal_column(named, Boolean)


def waiting_models() -> Select[Any]:
    """Select the models that wait for their checks."""
    return (
        select(ModelRow.id)
        .join(ProjectRow, ProjectRow.id == ModelRow.project_id)
        .where(in_words(ModelRow, CHECKING), is_free(ModelRow))
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


def own(code: str | None, sizes: Sizes) -> ColumnElement[bool]:
    """Return the condition that an audit is measured by this code, or by none so far, and its model of such a size."""
    return and_(
        true() if code is None else or_(AuditRow.code.is_(None), AuditRow.code == code),
        sizes.of_audits(),
    )


def _has_work() -> ColumnElement[bool]:
    """Return the condition that an audit has a shard or a check to claim."""
    # Two conditions inside one: neither is made a join, which would read all that waits for each audit.
    shards = select(ShardRow.id).where(ShardRow.check_id == CheckRow.id, in_words(ShardRow, QUEUED), is_free(ShardRow))
    is_checked = select(ModelRow.id).where(ModelRow.id == AuditRow.model_id, ModelRow.state != ModelState.CHECKING)
    checks = select(CheckRow.id).where(
        CheckRow.audit_id == AuditRow.id,
        or_(
            shards.correlate(CheckRow).exists(),
            and_(in_words(CheckRow, ADVANCEABLE), is_free(CheckRow), is_checked.correlate(AuditRow).exists()),
        ),
    )
    return checks.correlate(AuditRow).exists()


def next_audit(
    session: Session, project_id: str, code: str | None, sizes: Sizes, *, after: Audit | None = None
) -> Audit | None:
    """Return the first audit of a project, in their order, that has a shard or a check to claim; None at the end.

    Args:
        session: An open transaction.
        project_id: Whose.
        code: Of audits only that no other code measures.
        sizes: Of audits only whose model is of such a size.
        after: Only audits after this one.
    """
    values = {"project": project_id} | ({} if after is None else {"priority": after.priority, "audit": after.id})
    row = session.execute(_next_audits(code, sizes, after is not None), values).one_or_none()
    return None if row is None else Audit(*row)


@lru_cache(SHAPES)
def _next_audits(code: str | None, sizes: Sizes, is_after: bool) -> Select[int, str]:
    query = select(AuditRow.priority, AuditRow.id).where(
        AuditRow.project_id == bindparam("project", type_=String),
        in_words(AuditRow, UNFINISHED),
        own(code, sizes),
        _has_work(),
    )
    if is_after:
        priority, audit = bindparam("priority", type_=Integer), bindparam("audit", type_=String)
        lower = AuditRow.priority < priority
        query = query.where(or_(lower, and_(AuditRow.priority == priority, AuditRow.id > audit)))
    return query.order_by(*OLDEST).limit(ONE)


def _owners() -> CompoundSelect[str]:
    """Select the projects that have unfinished audits, uploads to check or queued hardenings, and few others.

    Audits are skipped through, one index entry a project: however many wait, and however many projects wait for none.
    """
    first = select(func.min(AuditRow.project_id).label("id")).where(in_words(AuditRow, UNFINISHED))
    steps = first.cte("owners", recursive=True)
    following = select(func.min(AuditRow.project_id)).where(
        in_words(AuditRow, UNFINISHED), AuditRow.project_id > steps.c.id
    )
    steps = steps.union_all(select(following.scalar_subquery()).where(steps.c.id.is_not(None)))
    return union(
        select(steps.c.id),
        select(ModelRow.project_id).where(in_words(ModelRow, CHECKING)),
        select(HardeningRow.project_id).where(in_words(HardeningRow, QUEUED)),
    )


def _is_there(found: Select[Any], *order: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    """Return the condition that something is found, looked for in the order of an index, which ends at the first.

    Whether it exists at all may be asked of the whole table, where many are expected.
    """
    return found.order_by(*order).limit(ONE).scalar_subquery().is_not(None)


def projects_with_work(session: Session, code: str | None = None, sizes: Sizes = ANY_SIZE) -> Sequence[Project]:
    """Return the projects that have something to claim, in the order of their turns."""
    return [Project(*row) for row in session.execute(_projects(code, sizes))]


@lru_cache(SHAPES)
def _projects(code: str | None, sizes: Sizes) -> Select[str, float, bool, bool, bool, bool]:
    model = select(ModelRow.id).where(in_words(ModelRow, CHECKING), is_free(ModelRow), sizes.of_models())
    models = model.where(ModelRow.project_id == ProjectRow.id).correlate(ProjectRow).exists()
    training = waiting_trainings().where(HardeningRow.project_id == ProjectRow.id, sizes.of_models())
    trainings = training.correlate(ProjectRow).exists()
    audits = select(AuditRow.id).where(
        AuditRow.project_id == ProjectRow.id, in_words(AuditRow, UNFINISHED), own(code, sizes), _has_work()
    )
    first = _is_there(audits.correlate(ProjectRow), *OLDEST)
    # Where nothing waits, audits that run are not read.
    checks = select(CheckRow.id).where(in_words(CheckRow, ADVANCEABLE), is_free(CheckRow))
    shards = select(ShardRow.id).where(in_words(ShardRow, QUEUED), is_free(ShardRow))
    waits = or_(_is_there(checks, CheckRow.id), _is_there(shards, ShardRow.check_id, ShardRow.id))
    begun = select(CheckRow.id).where(in_words(CheckRow, BEGUN), is_free(CheckRow))
    any_begun = _is_there(begun, CheckRow.audit_id)
    return (
        select(ProjectRow.id, ProjectRow.turn, models, trainings, model.exists(), any_begun)
        .where(ProjectRow.id.in_(_owners()), or_(models, and_(waits, first), trainings))
        .order_by(ProjectRow.priority.desc(), ProjectRow.turn, ProjectRow.id)
        .limit(literal_column(str(MOST_PROJECTS), Integer))
    )


def count_work(session: Session) -> int:
    """Count what could be claimed now, up to ``MOST_COUNTED``."""
    claimable = (waiting_shards(), waiting_models(), advanceable(), waiting_trainings())
    counts = (
        session.scalar(select(func.count()).select_from(query.limit(MOST_COUNTED).subquery())) for query in claimable
    )
    return min(MOST_COUNTED, sum(count or 0 for count in counts))
