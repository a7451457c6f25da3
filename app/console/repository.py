"""SQL of the console: sessions, and names beside ids."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session, defer

from seatrial.contracts.states import RunState
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, BaselineRow, CheckRow, DatasetRow, ModelRow, SessionRow

# What a list to choose from shows.
MOST_CHOICES = 200


def add_session(session: Session, row: SessionRow, *, now: datetime) -> None:
    """Store a session, and forget those that have expired."""
    session.execute(delete(SessionRow).where(SessionRow.expires_at < now))
    session.add(row)


def find_session(session: Session, digest: str, *, now: datetime) -> str | None:
    """Return the digest of the key a session was begun with; None when it has expired or ended."""
    return session.scalar(select(SessionRow.key_digest).where(SessionRow.digest == digest, SessionRow.expires_at > now))


def delete_session(session: Session, digest: str) -> None:
    """End a session."""
    session.execute(delete(SessionRow).where(SessionRow.digest == digest))


def names_of(session: Session, project_id: str, ids: Collection[str]) -> dict[str, str]:
    """Return name and version of models and datasets by id; what the project does not have is left out."""
    if not ids:
        return {}
    names: dict[str, str] = {}
    for table in (ModelRow, DatasetRow):
        query = select(table.id, table.name, table.version).where(table.project_id == project_id, table.id.in_(ids))
        names |= {row.id: f"{row.name} {row.version}" for row in session.execute(query)}
    return names


def outcomes_of(session: Session, audits: Collection[str]) -> dict[str, AnyRow]:
    """Return state and verdict of audits by id."""
    query = select(AuditRow.id, AuditRow.state, AuditRow.verdict).where(AuditRow.id.in_(audits))
    return {row.id: row for row in session.execute(query)} if audits else {}


def current_baselines(session: Session, project_id: str, model_name: str) -> dict[str, str]:
    """Return the audits that are baselines of a model now, by the names they were promoted under."""
    of_model = (BaselineRow.project_id == project_id, BaselineRow.model_name == model_name)
    newest = select(func.max(BaselineRow.id)).where(*of_model).group_by(BaselineRow.name)
    query = select(BaselineRow.name, BaselineRow.audit_id).where(BaselineRow.id.in_(newest)).order_by(BaselineRow.name)
    return {row.name: row.audit_id for row in session.execute(query)}


def has_model(session: Session, project_id: str, name: str) -> bool:
    """Return whether the project has a version of a model."""
    query = select(ModelRow.id).where(ModelRow.project_id == project_id, ModelRow.name == name)
    return session.scalar(query.limit(1)) is not None


def recent_models(session: Session, project_id: str) -> Sequence[ModelRow]:
    """Return models to choose from, newest first, without what may be large: manifest and facts."""
    query = select(ModelRow).options(defer(ModelRow.manifest), defer(ModelRow.facts), defer(ModelRow.problem))
    query = query.where(ModelRow.project_id == project_id)
    return session.scalars(query.order_by(ModelRow.id.desc()).limit(MOST_CHOICES)).all()


def recent_datasets(session: Session, project_id: str) -> Sequence[DatasetRow]:
    """Return datasets to choose from, newest first, without what may be large: manifest and facts."""
    query = select(DatasetRow).options(defer(DatasetRow.manifest), defer(DatasetRow.facts))
    query = query.where(DatasetRow.project_id == project_id)
    return session.scalars(query.order_by(DatasetRow.id.desc()).limit(MOST_CHOICES)).all()


def measured_audits(session: Session, project_id: str) -> Sequence[AnyRow]:
    """Return ended audits to choose from, newest first, with the names of their models and datasets."""
    query = (
        select(
            AuditRow.id,
            AuditRow.state,
            AuditRow.created_at,
            ModelRow.name,
            ModelRow.version,
            AuditRow.samples,
            AuditRow.verdict,
            DatasetRow.name.label("dataset"),
            DatasetRow.version.label("dataset_version"),
        )
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
        .where(AuditRow.project_id == project_id, AuditRow.state.in_((RunState.SUCCEEDED, RunState.FAILED)))
    )
    return session.execute(query.order_by(AuditRow.id.desc()).limit(MOST_CHOICES)).all()


def checks_of_name(session: Session, project_id: str, name: str) -> Sequence[AnyRow]:
    """Return the checks with numbers of every version of a model, newest audit first."""
    query = (
        select(
            AuditRow.id.label("audit"),
            AuditRow.samples,
            AuditRow.seed,
            AuditRow.verdict,
            AuditRow.finished_at,
            ModelRow.id.label("model"),
            ModelRow.version,
            AuditRow.dataset_id.label("dataset"),
            CheckRow.kind,
            CheckRow.ordinal,
            CheckRow.params,
            CheckRow.result,
        )
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .where(
            AuditRow.project_id == project_id,
            ModelRow.name == name,
            CheckRow.state == RunState.SUCCEEDED,
            CheckRow.result.is_not(None),
        )
        .order_by(AuditRow.id.desc(), CheckRow.ordinal)
        # A result holds every curve behind its figures: enough for a long history, little enough for a page.
        .limit(MOST_CHOICES)
    )
    return session.execute(query).all()
