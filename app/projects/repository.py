"""SQL of projects and of what was done in them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.web.pagination import BATCH
from seatrial.contracts.projects import Quotas
from seatrial.store.tables import ActivityRow, ProjectRow, QuotaRow, RetentionRow


def find_project(session: Session, name: str) -> ProjectRow | None:
    """Return the project of a name."""
    return session.scalar(select(ProjectRow).where(ProjectRow.name == name))


def list_projects(session: Session, project_id: str | None, *, before: str | None, limit: int) -> Sequence[ProjectRow]:
    """Return projects, newest first; with an id, that one only."""
    query = select(ProjectRow)
    if project_id is not None:
        query = query.where(ProjectRow.id == project_id)
    if before is not None:
        query = query.where(ProjectRow.id < before)
    return session.scalars(query.order_by(ProjectRow.id.desc()).limit(limit)).all()


def change_shares(session: Session, project_id: str, **values: Any) -> None:
    """Set the weight, the priority or both."""
    changed = update(ProjectRow).where(ProjectRow.id == project_id).values(**values)
    session.execute(changed.execution_options(synchronize_session=False))


def find_retention(session: Session, project_id: str) -> dict[str, int]:
    """Return for how many days a project keeps each kind of thing that it does not keep for ever."""
    query = select(RetentionRow.kind, RetentionRow.keep_days).where(RetentionRow.project_id == project_id)
    return {row.kind: row.keep_days for row in session.execute(query)}


def set_retention(session: Session, project_id: str, kind: str, keep_days: int | None) -> None:
    """Keep a kind of thing for so many days from now on, or for ever."""
    session.execute(delete(RetentionRow).where(RetentionRow.project_id == project_id, RetentionRow.kind == kind))
    if keep_days is not None:
        session.add(RetentionRow(project_id=project_id, kind=kind, keep_days=keep_days))
        session.flush()


def find_quotas(session: Session, project_ids: Collection[str]) -> dict[str, Quotas]:
    """Return what each of some projects may use at most."""
    found = {one: Quotas() for one in project_ids}
    for row in session.scalars(select(QuotaRow).where(QuotaRow.project_id.in_(project_ids))):
        found[row.project_id] = Quotas(**{name: getattr(row, name) for name in Quotas.model_fields})
    return found


def set_quotas(session: Session, project_id: str, limits: dict[str, Any]) -> None:
    """Set the limits that are named; null is none."""
    row = session.get(QuotaRow, project_id, with_for_update=True)
    if row is None:
        row = QuotaRow(project_id=project_id)
        session.add(row)
    for name, most in limits.items():
        setattr(row, name, most)
    session.flush()


def list_activity(
    session: Session, project_id: str, *, action: str | None, subject: str | None, before: str | None, limit: int
) -> Iterable[ActivityRow]:
    """Return what was done, newest first, read from the database a few at a time."""
    query = select(ActivityRow).where(ActivityRow.project_id == project_id)
    for column, wanted in ((ActivityRow.action, action), (ActivityRow.subject, subject)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(ActivityRow.id < before)
    query = query.order_by(ActivityRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))
