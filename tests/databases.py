"""Databases of the present schema: SQLite always, Postgres where there is one; each process migrates one of a kind."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest

from seatrial.store.database import Database, connect
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings
from seatrial.store.tables import Base, SchemaRow
from tests.servers import new_database, postgres_server


@cache
def migrated_file() -> Path:
    """Return an SQLite file to copy: migrating takes longer than most tests."""
    folder = Path(tempfile.mkdtemp(prefix="seatrial-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    database = connect(Settings(home=folder))
    upgrade(database)
    database.dispose()
    return folder / "seatrial.db"


def migrated(settings: Settings) -> Database:
    """Connect to the settings' database, brought to the present schema; SQLite's must not be there yet."""
    if not settings.database_url:
        settings.home.mkdir(parents=True, exist_ok=True)
        shutil.copy(migrated_file(), settings.home / "seatrial.db")
        return connect(settings)
    opened = connect(settings)
    upgrade(opened)
    return opened


@contextmanager
def new_migrated_database(server_url: str) -> Iterator[str]:
    """Yield the URL of an empty database of the present schema on a Postgres server.

    One that a test has left with nothing but its rows is emptied and given again: copying takes 0.4 s, emptying 5 ms.
    """
    spare = _SPARE.setdefault(server_url, [])
    url, made = spare.pop() if spare else _copied(server_url)
    try:
        yield url
    except BaseException:
        made.close()
        raise
    if _emptied(url, _template(server_url)):
        spare.append((url, made))
    else:
        made.close()


_SPARE: dict[str, list[tuple[str, ExitStack]]] = {}
# Rows that are gone are read over, and counted in plans: what has grown beyond this is none to give again.
_SPARE_BYTES = 16 * 2**20

# What migrations make: relations, columns, constraints, defaults, triggers and functions, and who may do what.
_SHAPE = """
WITH relations AS (SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace)
SELECT
    (SELECT md5(string_agg(concat_ws(' ', relname, relkind, relacl, reloptions), ',' ORDER BY oid)) FROM relations),
    (SELECT md5(string_agg(concat_ws(' ', attname, atttypid, attnotnull, attacl), ',' ORDER BY attrelid, attnum))
        FROM pg_attribute WHERE attrelid IN (SELECT oid FROM relations)),
    (SELECT md5(string_agg(concat_ws(' ', conname, contype), ',' ORDER BY oid)) FROM pg_constraint),
    (SELECT count(*) FROM pg_attrdef),
    (SELECT count(*) FROM pg_trigger),
    (SELECT count(*) FROM pg_proc),
    (SELECT version_num FROM alembic_version)
"""


def _copied(server_url: str) -> tuple[str, ExitStack]:
    made = ExitStack()
    url = made.enter_context(new_database(server_url, template=_template(server_url)))
    atexit.register(_close, made)
    return url, made


def _emptied(url: str, template: str) -> bool:
    """Leave a database as a copy of the template is, and return whether that can be done by deleting its rows."""
    name = url.partition("?")[0].rsplit("/", 1)[1]
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid, 1000) {others}")
        try:
            shape = connection.execute(_SHAPE).fetchone()
        except psycopg.errors.UndefinedTable:
            return False
        size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        if shape != _shape(url.replace(name, template)) or size is None or size[0] > _SPARE_BYTES:
            return False
        tables = [table for table in reversed(Base.metadata.sorted_tables) if table.name != SchemaRow.__tablename__]
        connection.execute("; ".join(f"DELETE FROM {table.name}" for table in tables))
        connection.execute("SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'")
    return True


@cache
def _shape(url: str) -> tuple[object, ...] | None:
    with psycopg.connect(url) as connection:
        return connection.execute(_SHAPE).fetchone()


@cache
def _template(server_url: str) -> str:
    stack = ExitStack()
    url = stack.enter_context(new_database(server_url))
    # The tests' own server is gone by then, and the database with it.
    atexit.register(_close, stack)
    opened = connect(Settings(database_url=url))
    upgrade(opened)
    opened.dispose()
    return url.partition("?")[0].rsplit("/", 1)[1]


def _close(stack: ExitStack) -> None:
    with suppress(psycopg.OperationalError):
        stack.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a Postgres server's maintenance database."""
    with postgres_server() as url:
        if url is None:
            pytest.skip("no Postgres on this machine")
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A migrated, empty database."""
    if request.param == "sqlite":
        opened = migrated(Settings(home=tmp_path))
        yield opened
        opened.dispose()
        return
    with new_migrated_database(request.getfixturevalue("postgres_url")) as url:
        opened = connect(Settings(home=tmp_path, database_url=url))
        yield opened
        opened.dispose()
