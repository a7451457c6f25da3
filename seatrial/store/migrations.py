"""Bringing a database to the present schema."""

import sys
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, delete, insert, inspect, select, text

from seatrial.store.database import Database
from seatrial.store.tables.schema import SchemaRow

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


class SchemaTooNewError(ValueError):
    """A later version of this code has changed the schema, and this one does not work with it."""


def upgrade(database: Database, revision: str = "head") -> None:
    """Run the migrations up to ``revision``; safe to call from several processes at once.

    A schema of a later version that this code works with is left as it is.

    Raises:
        SchemaTooNewError: This code does not work with a later version's.
    """
    _run(database, command.upgrade, revision, leaves_newer=True)


def downgrade(database: Database, revision: str = "base") -> None:
    """Take migrations back down to ``revision``."""
    _run(database, command.downgrade, revision)


def _run(database: Database, step: Callable[[Config, str], None], revision: str, *, leaves_newer: bool = False) -> None:
    config = make_config()
    scripts = ScriptDirectory.from_config(config)
    with database.engine.connect() as connection:
        if database.is_sqlite:
            connection = connection.execution_options(begin_immediate=True)
        with connection.begin():
            if not database.is_sqlite:
                # An index of a large table takes as long as it takes.
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            present = _revision(connection)
            if leaves_newer and present is not None and not _is_known(scripts, present):
                if not _is_usable(connection, scripts):
                    raise SchemaTooNewError(
                        f"the database's schema is {present}, of a later version of Seatrial than this one, which "
                        "cannot work with it: start that version, or take the schema back with its `seatrial migrate "
                        "--downgrade`"
                    )
                # What it needs, that version has written.
                return
            config.attributes["connection"] = connection
            step(config, revision)
            _tell_needs(connection, scripts)


def current_revision(database: Database) -> str | None:
    """Return the last migration the database has had; None of an empty one."""
    with database.engine.connect() as connection:
        return _revision(connection)


def is_compatible(database: Database) -> bool:
    """Return whether this code works with the database's schema: the present one, or a newer one that says so.

    A migration that only adds leaves what it finds usable; one that takes something away says ``contracts = True``, and
    then every code that does not know it is too old. So an upgrade rolls: the schema grows, old and new processes work
    side by side, and what is no longer needed goes with a later version.
    """
    scripts = ScriptDirectory.from_config(make_config())
    with database.engine.connect() as connection:
        revision = _revision(connection)
        if revision == scripts.get_current_head():
            return True
        # An older one is not.
        return revision is not None and not _is_known(scripts, revision) and _is_usable(connection, scripts)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _is_usable(connection: Connection, scripts: ScriptDirectory) -> bool:
    """Return whether a schema of a later version needs no migration that this code does not know."""
    needed = connection.execute(select(SchemaRow.needs)).scalar()
    return needed is not None and _is_known(scripts, needed)


def _is_known(scripts: ScriptDirectory, revision: str) -> bool:
    return any(script.revision == revision for script in scripts.walk_revisions())


def _tell_needs(connection: Connection, scripts: ScriptDirectory) -> None:
    """Write which migration a code must know to work with the schema as it is now."""
    if not inspect(connection).has_table(SchemaRow.__tablename__):
        return
    revision = _revision(connection)
    history = list(scripts.walk_revisions("base", revision or "base"))
    needed = next((one.revision for one in history if getattr(one.module, "contracts", False)), history[-1].revision)
    connection.execute(delete(SchemaRow))
    connection.execute(insert(SchemaRow).values(id=1, needs=needed))
