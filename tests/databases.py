"""Databases of the present schema: SQLite always, Postgres where there is one; each process migrates one of a kind."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest

from seatrial.store.database import Database, connect
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings
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


def new_migrated_database(server_url: str) -> AbstractContextManager[str]:
    """Return what yields the URL of an empty database of the present schema on a Postgres server."""
    return new_database(server_url, template=_template(server_url))


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
