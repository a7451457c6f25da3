"""Bringing a database to the present schema."""

import sys
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from seatrial.store.database import Database

# One number of our own among Postgres's advisory locks: two processes that start together migrate one after the other.
_ADVISORY_LOCK = 7_328_254_663


def _folder() -> Path:
    checkout = Path(__file__).resolve().parents[2]
    installed = Path(sys.prefix) / "share" / "seatrial"
    for folder in (checkout, installed):
        if (folder / "alembic.ini").exists() and (folder / "alembic" / "env.py").exists():
            return folder
    raise FileNotFoundError(f"migrations are neither in {checkout} nor in {installed}: reinstall Seatrial")


def make_config() -> Config:
    """Return Alembic's configuration, wherever Seatrial is installed."""
    return Config(str(_folder() / "alembic.ini"))


def upgrade(database: Database, revision: str = "head") -> None:
    """Run the migrations up to ``revision``; safe to call from several processes at once."""
    _run(database, command.upgrade, revision)


def downgrade(database: Database, revision: str = "base") -> None:
    """Take migrations back down to ``revision``."""
    _run(database, command.downgrade, revision)


def _run(database: Database, step: Callable[[Config, str], None], revision: str) -> None:
    config = make_config()
    with database.engine.connect() as connection:
        if database.is_sqlite:
            connection = connection.execution_options(begin_immediate=True)
        with connection.begin():
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            config.attributes["connection"] = connection
            step(config, revision)


def is_current(database: Database) -> bool:
    """Return whether the database has the present schema."""
    head = ScriptDirectory.from_config(make_config()).get_current_head()
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision() == head
