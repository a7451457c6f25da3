"""Fixtures that give a migrated database: SQLite always, Postgres where there is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.store.database import Database, connect
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings
from tests.servers import new_database, postgres_server


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
        opened = connect(Settings(home=tmp_path))
        upgrade(opened)
        yield opened
        opened.dispose()
        return
    with new_database(request.getfixturevalue("postgres_url")) as url:
        opened = connect(Settings(home=tmp_path, database_url=url))
        upgrade(opened)
        yield opened
        opened.dispose()
