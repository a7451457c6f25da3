"""SQL of judgements, and of the audits they are about."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Text, bindparam, cast, insert, select, update
from sqlalchemy.orm import Session

from app.policies.repository import AUDITS
from app.web.pagination import BATCH
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, CheckRow, JudgementRow, ShardRow, StageRow

_LIST_CHECKS = (
    select(
        CheckRow.ordinal,
        CheckRow.kind,
        CheckRow.params,
        CheckRow.state,
        # As text: a result is parsed where it is validated, which takes a fraction of the time.
        cast(CheckRow.result, Text).label("result"),
        CheckRow.error,
    )
    .where(CheckRow.audit_id == bindparam("audit_id"))
    .order_by(CheckRow.ordinal)
)
_LIST_RECORDS = (
    select(CheckRow.audit_id, CheckRow.ordinal, ShardRow.records_digest, StageRow.shards)
    .join(CheckRow, CheckRow.id == ShardRow.check_id)
    .join(StageRow, (StageRow.check_id == ShardRow.check_id) & (StageRow.name == ShardRow.stage))
    .where(
        CheckRow.audit_id.in_((bindparam("audit_id"), bindparam("other_id"))),
        ShardRow.stage == bindparam("stage"),
        ShardRow.state == RunState.SUCCEEDED,
        ShardRow.records_digest.is_not(None),
    )
    .order_by(CheckRow.audit_id, CheckRow.ordinal, ShardRow.ordinal)
)


def list_checks(session: Session, audit_id: str) -> Sequence[AnyRow]:
    """Return the checks of an audit with their results as JSON text, in the order asked."""
    return session.execute(_LIST_CHECKS, {"audit_id": audit_id}).all()


def list_records(session: Session, audit_id: str, other_id: str, stage: str) -> dict[tuple[str, int], list[str]]:
    """Return the records of a stage in two audits: digests in order, by audit and position of the check.

    A stage some of whose shards have left none is not there.
    """
    asked = {"audit_id": audit_id, "other_id": other_id, "stage": stage}
    found: dict[tuple[str, int], list[str]] = {}
    shards: dict[tuple[str, int], int] = {}
    for row in session.execute(_LIST_RECORDS, asked):
        found.setdefault((row.audit_id, row.ordinal), []).append(row.records_digest)
        shards[row.audit_id, row.ordinal] = row.shards
    return {of: digests for of, digests in found.items() if len(digests) == shards[of]}


def list_unjudged(session: Session, *, after: str, limit: int) -> Sequence[AnyRow]:
    """Return the audits of all projects that have ended and wait for their verdict: by id, those after ``after``."""
    waiting = (AuditRow.policy.is_not(None), AuditRow.verdict.is_(None), AuditRow.state.in_(TERMINAL))
    return session.execute(AUDITS.where(*waiting, AuditRow.id > after).order_by(AuditRow.id).limit(limit)).all()


def set_verdict(session: Session, audit_id: str, verdict: str, *, event_seq: int) -> bool:
    """Write an audit's verdict; False where another did, or where the audit went on since ``event_seq``."""
    statement = update(AuditRow).where(
        AuditRow.id == audit_id,
        AuditRow.verdict.is_(None),
        AuditRow.event_seq == event_seq,
        AuditRow.state.in_(TERMINAL),
    )
    statement = statement.values(verdict=verdict).execution_options(synchronize_session=False)
    return bool(session.execute(statement).rowcount)  # type: ignore[attr-defined]


def add_judgement(session: Session, **columns: Any) -> None:
    """Store a judgement."""
    session.execute(insert(JudgementRow), columns)


def find_judgement(session: Session, audit_id: str, judgement_id: str) -> JudgementRow | None:
    """Return a judgement of an audit."""
    query = select(JudgementRow).where(JudgementRow.audit_id == audit_id, JudgementRow.id == judgement_id)
    return session.scalar(query)


def list_judgements(session: Session, audit_id: str, *, before: str | None, limit: int) -> Iterable[JudgementRow]:
    """Return the judgements of an audit, newest first, read from the database a few at a time."""
    query = select(JudgementRow).where(JudgementRow.audit_id == audit_id)
    if before is not None:
        query = query.where(JudgementRow.id < before)
    query = query.order_by(JudgementRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))
