"""SQL of tombstones."""

from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.web.pagination import BATCH
from seatrial.store.tables import TombstoneRow


def find(session: Session, project_id: str, named: str) -> TombstoneRow | None:
    """Return a tombstone of the project, by its own id or by that of what was deleted."""
    column = TombstoneRow.id if named.startswith("tmb_") else TombstoneRow.subject
    return session.scalar(select(TombstoneRow).where(column == named, TombstoneRow.project_id == project_id))


def list_along(session: Session, row: TombstoneRow) -> Sequence[str]:
    """Return the ids of what was deleted along with something."""
    query = select(TombstoneRow.subject).where(TombstoneRow.cascade_of == row.subject)
    return session.scalars(query.order_by(TombstoneRow.subject)).all()


def list_tombstones(
    session: Session, project_id: str, *, kind: str | None, before: str | None, limit: int
) -> Iterable[TombstoneRow]:
    """Return tombstones, those of the last deletions first, read from the database a few at a time."""
    query = select(TombstoneRow).where(TombstoneRow.project_id == project_id)
    if kind is not None:
        query = query.where(TombstoneRow.kind == kind)
    if before is not None:
        query = query.where(TombstoneRow.id < before)
    query = query.order_by(TombstoneRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))
