"""SQL of projects and keys."""

from collections.abc import Sequence

from sqlalchemy import Row, select, update
from sqlalchemy.orm import Session

from seatrial.store.activity import Author, record_activity
from seatrial.store.tables import KeyRow, ProjectRow
from seatrial.store.tables.base import utc_now


def find_project(session: Session, name: str) -> str | None:
    """Return the id of a project."""
    return session.scalar(select(ProjectRow.id).where(ProjectRow.name == name))


def get_project_name(session: Session, project_id: str) -> str:
    """Return the name of a project that exists."""
    return session.execute(select(ProjectRow.name).where(ProjectRow.id == project_id)).scalar_one()


def add_project(session: Session, project_id: str, name: str) -> None:
    """Store a project; its name must be new."""
    session.add(ProjectRow(id=project_id, name=name))
    session.flush()


def find_by_digest(session: Session, digest: str) -> KeyRow | None:
    """Return the key with that digest, revoked or not."""
    return session.scalar(select(KeyRow).where(KeyRow.digest == digest))


def find(session: Session, key_id: str, project_id: str | None) -> Row[KeyRow, str] | None:
    """Return a key and its project's name; None when it is another project's (``project_id`` None: any)."""
    query = select(KeyRow, ProjectRow.name).join(ProjectRow, ProjectRow.id == KeyRow.project_id)
    query = query.where(KeyRow.id == key_id)
    if project_id is not None:
        query = query.where(KeyRow.project_id == project_id)
    return session.execute(query).one_or_none()


def list_keys(
    session: Session, project_id: str | None, *, before: str | None, limit: int
) -> Sequence[Row[KeyRow, str]]:
    """Return keys and their projects' names, newest first."""
    query = select(KeyRow, ProjectRow.name).join(ProjectRow, ProjectRow.id == KeyRow.project_id)
    if project_id is not None:
        query = query.where(KeyRow.project_id == project_id)
    if before is not None:
        query = query.where(KeyRow.id < before)
    return session.execute(query.order_by(KeyRow.id.desc()).limit(limit)).all()


def revoke(session: Session, key_id: str, author: Author) -> None:
    """Stop a key from working; the first time counts."""
    key = session.execute(
        update(KeyRow)
        .where(KeyRow.id == key_id, KeyRow.revoked_at.is_(None))
        .values(revoked_at=utc_now())
        .returning(KeyRow.project_id, KeyRow.name)
    ).one_or_none()
    if key is not None:
        record_activity(session, key.project_id, author, "key.revoked", key_id, name=key.name)
