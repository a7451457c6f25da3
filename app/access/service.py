"""Making and revoking keys, with or without HTTP."""

import hashlib
import re
import secrets
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from app.access import repository
from app.access.schemas import PROJECT_PATTERN, SCOPES, ScopeName
from seatrial.store.activity import COMMAND_LINE, Author, record_activity
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.tables import KeyRow

PREFIX_LENGTH = 12

_COMMAND_LINE = Author(COMMAND_LINE)


def digest_of_secret(secret: str) -> str:
    """Return what is stored of a secret. It has 256 random bits, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def ensure_project(database: Database, name: str) -> str:
    """Return the id of the project of that name, made when new.

    Raises:
        ValueError: The name is not one.
    """
    if not re.fullmatch(PROJECT_PATTERN, name):
        raise ValueError(f"not a project name: {name!r} (lower-case letters, digits, dot, dash, underscore)")
    with database.read() as session:
        if (found := repository.find_project(session, name)) is not None:
            return found
    try:
        with database.write() as session:
            project_id = new_id("prj")
            repository.add_project(session, project_id, name)
            return project_id
    except IntegrityError:
        # Another process made it at the same time.
        with database.read() as session:
            found = repository.find_project(session, name)
        if found is None:
            raise
        return found


def create_key(
    database: Database,
    project_name: str,
    name: str,
    scope: ScopeName,
    *,
    expires_at: datetime | None = None,
    author: Author = _COMMAND_LINE,
) -> tuple[str, KeyRow]:
    """Make a key and return its secret, which is stored nowhere, and its row; without ``expires_at`` it stays valid.

    Raises:
        ValueError: The project's name or the scope is not one.
    """
    if scope not in SCOPES:
        raise ValueError(f"not a scope: {scope!r} (one of {', '.join(SCOPES)})")
    project_id = ensure_project(database, project_name)
    secret = "sea_" + secrets.token_urlsafe(32)
    row = KeyRow(
        id=new_id("key"),
        project_id=project_id,
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of_secret(secret),
        scope=scope,
        expires_at=expires_at,
    )
    with database.write() as session:
        session.add(row)
        record_activity(session, project_id, author, "key.created", row.id, name=name, scope=scope)
    return secret, row
