"""SQL of audits: columns rather than objects where it is read often."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Select, bindparam, func, select
from sqlalchemy.orm import Session

from app.web.pagination import BATCH
from seatrial.contracts.registry import find_family
from seatrial.contracts.states import PREFLIGHT, TERMINAL, RunState
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, EventRow, ModelRow, ShardRow, StageRow

_SUMMARY = (
    AuditRow.id,
    AuditRow.state,
    AuditRow.verdict,
    AuditRow.model_id,
    AuditRow.dataset_id,
    AuditRow.seed,
    AuditRow.samples,
    AuditRow.priority,
    AuditRow.spec,
    AuditRow.created_at,
    AuditRow.started_at,
    AuditRow.finished_at,
    ModelRow.name.label("model_name"),
    ModelRow.version.label("model_version"),
    DatasetRow.name.label("dataset_name"),
    DatasetRow.version.label("dataset_version"),
)
_AUDIT = (*_SUMMARY, AuditRow.spec_digest, AuditRow.estimated_s, AuditRow.error)
_CHECK = (
    CheckRow.id,
    CheckRow.ordinal,
    CheckRow.kind,
    CheckRow.params,
    CheckRow.state,
    CheckRow.stage,
    CheckRow.result,
    CheckRow.figures,
    CheckRow.error,
    CheckRow.estimated_s,
    CheckRow.reused,
    CheckRow.looks,
    CheckRow.spread_low,
    CheckRow.spread_high,
)


class RunningShard(NamedTuple):
    """A shard somebody works on.

    Attributes:
        began: When.
        lease_until: Until when its worker holds it, in seconds since the epoch; prolonged by each sign of life.
    """

    began: datetime
    lease_until: float | None = None


@dataclass
class StageWork:
    """How far a stage is: sums over its shards.

    Attributes:
        done: Examples finished.
        total: Examples in all.
        worked: Examples behind ``seconds``.
        seconds: Time of the shards that ended.
        running: The shards somebody works on.
        earlier_s: Time of the shards of stages before, the preflight's left out: no estimate counts it.
    """

    done: int = 0
    total: int = 0
    worked: int = 0
    seconds: float = 0.0
    running: list[RunningShard] = field(default_factory=list)
    earlier_s: float = 0.0


@dataclass(frozen=True)
class AuditParts:
    """An audit and what hangs on it, as read in one transaction."""

    audit: AnyRow
    checks: Sequence[AnyRow]
    stages: dict[str, dict[str, int]]
    """Examples of each stage a check has begun, in order."""
    work: dict[str, StageWork]
    asked: dict[str, tuple[int, int]]
    """Queries and forward passes of each check that has asked a text model."""
    examples: int | None = None
    """Of the dataset, where the audit stops when it is decided: where looks are follows from it."""


def _with_names(query: Select[Any]) -> Select[Any]:
    """Return a query of audits that finds the names of their models and datasets."""
    query = query.join_from(AuditRow, ModelRow, ModelRow.id == AuditRow.model_id)
    return query.join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)


_OF_AUDIT: BindParameter[str] = bindparam("audit_id")
_OWN = (AuditRow.id == _OF_AUDIT, AuditRow.project_id == bindparam("project_id"))

# Built once: building them took as long as running them.
_FIND_AUDIT = _with_names(select(*_AUDIT)).where(*_OWN)
_FIND_CHECKS = select(*_CHECK).where(CheckRow.audit_id == _OF_AUDIT).order_by(CheckRow.ordinal)
_FIND_STAGES = (
    select(StageRow.check_id, StageRow.name, StageRow.examples)
    .join(CheckRow, CheckRow.id == StageRow.check_id)
    .where(CheckRow.audit_id == _OF_AUDIT)
    .order_by(StageRow.ordinal)
)
_IS_PRESENT = CheckRow.stage == ShardRow.stage
_SUM_SHARDS = (
    select(
        ShardRow.check_id,
        ShardRow.state,
        _IS_PRESENT.label("is_present"),
        func.sum(ShardRow.done).label("done"),
        func.sum(ShardRow.stop - ShardRow.start).label("total"),
        func.coalesce(func.sum(ShardRow.seconds), 0.0).label("seconds"),
    )
    .join(CheckRow, CheckRow.id == ShardRow.check_id)
    .where(CheckRow.audit_id == _OF_AUDIT, _IS_PRESENT | (ShardRow.stage != PREFLIGHT))
    .group_by(ShardRow.check_id, ShardRow.state, _IS_PRESENT)
)
_SUM_ASKED = (
    select(ShardRow.check_id, func.sum(ShardRow.queries), func.sum(ShardRow.forward_passes))
    .join(CheckRow, CheckRow.id == ShardRow.check_id)
    .where(CheckRow.audit_id == _OF_AUDIT, ShardRow.queries.is_not(None))
    .group_by(ShardRow.check_id)
)
_FIND_RUNNING = (
    select(ShardRow.check_id, ShardRow.started_at, ShardRow.lease_until)
    .join(CheckRow, CheckRow.id == ShardRow.check_id)
    .where(CheckRow.audit_id == _OF_AUDIT, ShardRow.state == RunState.RUNNING)
)


def _own(project_id: str, audit_id: str) -> tuple[Any, Any]:
    return AuditRow.id == audit_id, AuditRow.project_id == project_id


def exists(session: Session, project_id: str, audit_id: str) -> bool:
    """Return whether the project has that audit."""
    return session.scalar(select(AuditRow.id).where(*_own(project_id, audit_id))) is not None


def find_parts(session: Session, project_id: str, audit_id: str) -> AuditParts | None:
    """Return an audit with its checks, stages and progress: at most seven queries."""
    of_audit = {"audit_id": audit_id}
    audit = session.execute(_FIND_AUDIT, {**of_audit, "project_id": project_id}).one_or_none()
    if audit is None:
        return None
    checks = session.execute(_FIND_CHECKS, of_audit).all()
    if all(check.stage is None for check in checks):
        return AuditParts(audit, checks, {}, {}, {})
    stages: dict[str, dict[str, int]] = {}
    for check_id, name, number in session.execute(_FIND_STAGES, of_audit):
        stages.setdefault(check_id, {})[name] = number
    asked = {}
    specs = [find_family(check.kind) for check in checks]
    # What is counted are texts, and what an endpoint is sent.
    if any(spec is not None and not spec.needs.gradients for spec in specs):
        asked = {row[0]: (int(row[1] or 0), int(row[2] or 0)) for row in session.execute(_SUM_ASKED, of_audit)}
    examples = None
    if audit.spec.get("stop") == "decided" and any(check.state not in TERMINAL for check in checks):
        facts = session.scalar(select(DatasetRow.facts).where(DatasetRow.id == audit.dataset_id))
        examples = int(facts["examples"]) if facts and "examples" in facts else None
    return AuditParts(audit, checks, stages, _work(session, of_audit), asked, examples)


def _work(session: Session, of_audit: dict[str, str]) -> dict[str, StageWork]:
    work: dict[str, StageWork] = {}
    is_running = False
    for row in session.execute(_SUM_SHARDS, of_audit):
        stage = work.setdefault(row.check_id, StageWork())
        if not row.is_present:
            stage.earlier_s += float(row.seconds)
            continue
        stage.done += int(row.done)
        stage.total += int(row.total)
        if row.state == RunState.SUCCEEDED:
            stage.worked += int(row.done)
            stage.seconds += float(row.seconds)
        elif row.state == RunState.RUNNING:
            stage.worked += int(row.done)
            is_running = True
    if is_running:
        for check_id, started_at, lease_until in session.execute(_FIND_RUNNING, of_audit):
            if started_at is not None and check_id in work:
                work[check_id].running.append(RunningShard(started_at, lease_until))
    return work


def list_audits(
    session: Session,
    project_id: str,
    *,
    state: str | None,
    model: str | None,
    verdict: str | None,
    before: str | None,
    limit: int,
) -> Iterable[AnyRow]:
    """Return audits without their checks, newest first, read from the database a few at a time."""
    query = _with_names(select(*_SUMMARY)).where(AuditRow.project_id == project_id)
    for column, wanted in ((AuditRow.state, state), (AuditRow.model_id, model), (AuditRow.verdict, verdict)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(AuditRow.id < before)
    query = query.order_by(AuditRow.id.desc()).limit(limit)
    return session.execute(query.execution_options(yield_per=BATCH))


def list_checks(session: Session, project_id: str, audit_id: str) -> Sequence[AnyRow]:
    """Return the checks of an audit of the project, without their results."""
    query = select(CheckRow.id, CheckRow.ordinal, CheckRow.kind, CheckRow.figures, CheckRow.reused).join(
        AuditRow, AuditRow.id == CheckRow.audit_id
    )
    return session.execute(query.where(*_own(project_id, audit_id)).order_by(CheckRow.ordinal)).all()


def list_stages(session: Session, check_id: str) -> Sequence[StageRow]:
    """Return the stages a check has begun, in order."""
    return session.scalars(select(StageRow).where(StageRow.check_id == check_id).order_by(StageRow.ordinal)).all()


def list_record_digests(session: Session, check_id: str, stage: str) -> Sequence[str]:
    """Return the records of a stage's finished shards, in order."""
    query = select(ShardRow.records_digest).where(
        ShardRow.check_id == check_id,
        ShardRow.stage == stage,
        ShardRow.state == RunState.SUCCEEDED,
        ShardRow.records_digest.is_not(None),
    )
    return [digest for digest in session.scalars(query.order_by(ShardRow.ordinal)) if digest is not None]


def list_events(
    session: Session, project_id: str, audit_id: str, *, after: int, limit: int
) -> tuple[AnyRow, Sequence[AnyRow]] | None:
    """Return how an audit stands and its number of events, and its events after ``after``; None without an audit."""
    columns = (AuditRow.state, AuditRow.event_seq, AuditRow.verdict, AuditRow.policy.is_not(None).label("is_gated"))
    audit = session.execute(select(*columns).where(*_own(project_id, audit_id))).one_or_none()
    if audit is None:
        return None
    query = select(EventRow.seq, EventRow.kind, EventRow.data, EventRow.created_at).where(
        EventRow.audit_id == audit_id, EventRow.seq > after
    )
    return audit, session.execute(query.order_by(EventRow.seq).limit(limit)).all()
