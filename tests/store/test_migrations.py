"""The migrations lead to the tables the code declares, down again, and up again."""

import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from seatrial.store.database import Database
from seatrial.store.migrations import downgrade, is_current, upgrade
from seatrial.store.tables import Base, KeyRow
from tests.databases import database, postgres_url  # noqa: F401


@pytest.mark.slow
def test_the_migrated_schema_is_the_declared_one(database: Database) -> None:  # noqa: F811
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_down_and_up_again(database: Database) -> None:  # noqa: F811
    downgrade(database)
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    assert not is_current(database)
    upgrade(database)
    assert is_current(database)


def test_two_processes_that_start_together_migrate_one_after_the_other(database: Database) -> None:  # noqa: F811
    downgrade(database)
    errors: list[BaseException] = []

    def start() -> None:
        try:
            upgrade(database)
        except BaseException as error:  # the thread's failure must reach the test
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert is_current(database)


def test_keys_of_an_earlier_version_never_expire(database: Database) -> None:  # noqa: F811
    downgrade(database, "f1d07c3a5b92")
    with database.write() as session:
        session.execute(text("INSERT INTO projects (id, name, created_at) VALUES ('prj_1', 'p', '2026-01-01')"))
        session.execute(
            text(
                "INSERT INTO keys (id, project_id, name, prefix, digest, scope, created_at)"
                " VALUES ('key_1', 'prj_1', 'ci', 'sea_', 'd', 'run', '2026-01-01')"
            )
        )
    upgrade(database)
    with database.read() as session:
        assert session.get_one(KeyRow, "key_1").expires_at is None
