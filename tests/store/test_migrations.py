"""The migrations lead to the tables the code declares, down again, and up again."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlalchemy.schema import CreateIndex

from seatrial.store import migrations
from seatrial.store.database import Database
from seatrial.store.migrations import current_revision, downgrade, is_compatible, upgrade
from seatrial.store.tables import AuditRow, Base, KeyRow
from tests.rows import add_audit
from tests.store.test_lifecycle import end_shard, finish_check, start_stage, take_shard


@pytest.mark.slow
def test_the_migrated_schema_is_the_declared_one(database: Database) -> None:
    def is_compared(item: object, name: str | None, *rest: object) -> bool:
        # SQLAlchemy reads no directions from SQLite.
        return not (database.is_sqlite and name == "ix_audits_next")

    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": is_compared})
        assert compare_metadata(context, Base.metadata) == []
        if database.is_sqlite:
            made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'ix_audits_next'")).scalar_one()
            (declared,) = (index for index in AuditRow.__table__.indexes if index.name == "ix_audits_next")
            assert made == str(CreateIndex(declared).compile(connection))


def test_down_and_up_again(database: Database) -> None:
    downgrade(database)
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    assert current_revision(database) is None
    upgrade(database)
    assert is_compatible(database)


def test_two_processes_that_start_together_migrate_one_after_the_other(database: Database) -> None:
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
    assert is_compatible(database)


def test_keys_of_an_earlier_version_never_expire(database: Database) -> None:
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


def newer(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Callable[[], None]:
    """Make the next version's migrations, ours and one more; return what takes us back to our own."""
    own = migrations.make_config
    head = ScriptDirectory.from_config(own()).get_current_head()
    root = Path(own().config_file_name or "").parent
    shutil.copytree(root / "alembic", folder / "alembic")
    shutil.copy(root / "alembic.ini", folder)
    text_of = (
        f'"""grown"""\nimport sqlalchemy as sa\nfrom alembic import op\n\nrevision = "f00d"\ndown_revision = "{head}"\n'
    )
    (folder / "alembic" / "versions" / "2099-01-01_grown.py").write_text(text_of + body)
    monkeypatch.setattr(migrations, "make_config", lambda: Config(str(folder / "alembic.ini")))
    return lambda: monkeypatch.setattr(migrations, "make_config", own)


GROWS = """
def upgrade():
    op.add_column("audits", sa.Column("colour", sa.String(), nullable=True))
def downgrade():
    op.drop_column("audits", "colour")
"""


def test_code_works_with_a_newer_schema_until_one_takes_something_away(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_compatible(database)
    ours = newer(tmp_path / "next", monkeypatch, GROWS)
    # The new code before the schema has grown.
    assert not is_compatible(database)
    upgrade(database)
    assert is_compatible(database)
    ours()
    # Ours beside it: what it does not know does not harm it.
    assert is_compatible(database)
    # Where an older version is started again, what begins by migrating begins.
    upgrade(database)
    assert current_revision(database) == "f00d"
    audit = add_audit(database)
    start_stage(database, audit, shards=1)
    assert end_shard(database, take_shard(database))
    assert finish_check(database)
    with database.read() as session:
        assert session.get_one(AuditRow, audit).state == "succeeded"
    ours = newer(tmp_path / "further", monkeypatch, "contracts = True\n" + GROWS)
    downgrade(database, "-1")
    upgrade(database)
    ours()
    assert not is_compatible(database)
    with pytest.raises(migrations.SchemaTooNewError, match="schema is f00d, of a later version"):
        upgrade(database)
    assert current_revision(database) == "f00d"
