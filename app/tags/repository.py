"""SQL of tags and of the search."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, TagRow

SUBJECTS: dict[str, type[ModelRow] | type[DatasetRow] | type[AuditRow]] = {
    "mdl": ModelRow,
    "dat": DatasetRow,
    "aud": AuditRow,
}
"""What tags can be on, by what its ids begin with."""


@dataclass(frozen=True)
class MetricRange:
    """Between which values a number must lie.

    Attributes:
        family: Kind of the check.
        name: As results name it, without the family.
        at_least: Least value that counts; None: any.
        at_most: Largest.
    """

    family: str
    name: str
    at_least: float | None
    at_most: float | None


@dataclass(frozen=True)
class Asked:
    """What is looked for; what is None or empty filters nothing.

    Attributes:
        name: Part of a name, whatever its case.
        tags: All of these.
        digest: Beginning of a digest, ``sha256:<hex>``.
        verdict: Of audits.
        metric: Of audits.
    """

    name: str | None = None
    tags: Sequence[str] = ()
    digest: str | None = None
    verdict: str | None = None
    metric: MetricRange | None = None


def is_there(session: Session, project_id: str, subject_id: str) -> bool:
    """Return whether the project has a model, a dataset or an audit of that id."""
    table = SUBJECTS.get(subject_id.partition("_")[0])
    if table is None:
        return False
    return session.scalar(select(table.id).where(table.id == subject_id, table.project_id == project_id)) is not None


def list_tags(session: Session, project_id: str, subjects: Collection[str]) -> dict[str, list[str]]:
    """Return tags in alphabetical order, by what they are on."""
    query = select(TagRow.subject_id, TagRow.tag).where(
        TagRow.project_id == project_id, TagRow.subject_id.in_(subjects)
    )
    found: dict[str, list[str]] = {subject: [] for subject in subjects}
    for row in session.execute(query):
        found[row.subject_id].append(row.tag)
    # Not by the database, whose collation may be another one's alphabet.
    return {subject: sorted(tags) for subject, tags in found.items()}


def add_tags(session: Session, project_id: str, subject_id: str, tags: Iterable[str]) -> None:
    """Put tags on something that has none of them."""
    session.add_all(TagRow(subject_id=subject_id, tag=tag, project_id=project_id) for tag in tags)


def remove_tags(session: Session, subject_id: str, tags: Collection[str]) -> None:
    """Take tags off; those it does not have are no error."""
    session.execute(delete(TagRow).where(TagRow.subject_id == subject_id, TagRow.tag.in_(tags)))


def lock(session: Session, subject_id: str) -> None:
    """Let one change of something's tags be made after the other."""
    table = SUBJECTS[subject_id.partition("_")[0]]
    session.execute(select(table.id).where(table.id == subject_id).with_for_update())


def search_models(
    session: Session, project_id: str, asked: Asked, *, before: str | None, limit: int
) -> Sequence[AnyRow]:
    """Return models, newest first."""
    columns = (ModelRow.id, ModelRow.name, ModelRow.version, ModelRow.digest, ModelRow.state, ModelRow.created_at)
    query = select(*columns).where(ModelRow.project_id == project_id)
    return _found(session, query, ModelRow.id, asked, (ModelRow.name,), (ModelRow.digest,), before, limit)


def search_datasets(
    session: Session, project_id: str, asked: Asked, *, before: str | None, limit: int
) -> Sequence[AnyRow]:
    """Return datasets, newest first."""
    columns = (DatasetRow.id, DatasetRow.name, DatasetRow.version, DatasetRow.digest, DatasetRow.created_at)
    query = select(*columns).where(DatasetRow.project_id == project_id)
    return _found(session, query, DatasetRow.id, asked, (DatasetRow.name,), (DatasetRow.digest,), before, limit)


def search_audits(
    session: Session, project_id: str, asked: Asked, *, before: str | None, limit: int
) -> Sequence[AnyRow]:
    """Return audits, newest first; their names and digests are also those of model and dataset."""
    query = (
        select(
            AuditRow.id,
            AuditRow.state,
            AuditRow.verdict,
            AuditRow.spec_digest.label("digest"),
            AuditRow.created_at,
            ModelRow.name.label("model_name"),
            ModelRow.version.label("model_version"),
            DatasetRow.name.label("dataset_name"),
            DatasetRow.version.label("dataset_version"),
        )
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
        .where(AuditRow.project_id == project_id)
    )
    if asked.verdict is not None:
        query = query.where(AuditRow.verdict == asked.verdict)
    if asked.metric is not None:
        query = query.where(_has_number(asked.metric))
    names = (ModelRow.name, DatasetRow.name)
    digests = (AuditRow.spec_digest, ModelRow.digest, DatasetRow.digest)
    return _found(session, query, AuditRow.id, asked, names, digests, before, limit)


def list_numbers(session: Session, metric: MetricRange, audits: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the estimate that was asked about, by audit; of several checks that have it, the first in the range."""
    query = (
        select(CheckRow.audit_id, CheckRow.result["estimates"][metric.name].label("estimate"))
        .where(CheckRow.audit_id.in_(audits), *_in_range(metric))
        .order_by(CheckRow.audit_id, CheckRow.ordinal.desc())
    )
    return {row.audit_id: row.estimate for row in session.execute(query)}


def _found(
    session: Session,
    query: "Select[*tuple[Any, ...]]",
    own_id: InstrumentedAttribute[str],
    asked: Asked,
    names: tuple[InstrumentedAttribute[str], ...],
    digests: tuple[InstrumentedAttribute[str], ...],
    before: str | None,
    limit: int,
) -> Sequence[AnyRow]:
    if asked.name is not None:
        wanted = asked.name.lower()
        query = query.where(or_(*(func.lower(name).contains(wanted, autoescape=True) for name in names)))
    if asked.digest is not None:
        query = query.where(or_(*(digest.startswith(asked.digest, autoescape=True) for digest in digests)))
    for tag in asked.tags:
        put = aliased(TagRow)
        query = query.where(select(put.tag).where(put.subject_id == own_id, put.tag == tag).exists())
    if before is not None:
        query = query.where(own_id < before)
    return session.execute(query.order_by(own_id.desc()).limit(limit)).all()


def _has_number(metric: MetricRange) -> ColumnElement[bool]:
    return select(CheckRow.id).where(CheckRow.audit_id == AuditRow.id, *_in_range(metric)).exists()


def _in_range(metric: MetricRange) -> list[ColumnElement[bool]]:
    # Key after key: one path of them all is an array's text to Postgres, which the commas of a name would cut.
    value = CheckRow.result["estimates"][metric.name]["value"].as_float()
    conditions = [CheckRow.kind == metric.family, CheckRow.result.is_not(None), value.is_not(None)]
    if metric.at_least is not None:
        conditions.append(value >= metric.at_least)
    if metric.at_most is not None:
        conditions.append(value <= metric.at_most)
    return conditions
