"""Databases of Postgres that tests are given again: empty, and of the present schema whatever a test did to one."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, select

from seatrial.store.database import connect
from seatrial.store.migrations import downgrade, is_compatible
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, Base, SchemaRow
from tests.databases import new_migrated_database
from tests.rows import add_audit

pytestmark = pytest.mark.slow


def test_what_a_test_stored_is_not_there_for_the_next(postgres_url: str, tmp_path: Path) -> None:
    urls = set()
    for _ in range(2):
        with new_migrated_database(postgres_url) as url:
            opened = connect(Settings(home=tmp_path, database_url=url))
            with opened.read() as session:
                kept = {name for name, table in Base.metadata.tables.items() if session.query(table).first()}
                assert kept == {SchemaRow.__tablename__}
            add_audit(opened)
            with opened.read() as session:
                assert session.scalar(select(func.count()).select_from(AuditRow)) == 1
        # Whoever has not let go of it is made to.
        opened.dispose()
        urls.add(url)
    assert len(urls) == 1


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE audits ALTER COLUMN model_id DROP NOT NULL",
        "DROP INDEX ix_audits_next",
        "GRANT SELECT ON audits TO PUBLIC",
        "UPDATE alembic_version SET version_num = 'f1d07c3a5b92'",
    ],
)
def test_what_a_test_did_to_the_schema_is_seen_by_no_other(postgres_url: str, change: str) -> None:
    with new_migrated_database(postgres_url) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
    with new_migrated_database(postgres_url) as other:
        assert other != url


def test_a_database_of_an_older_schema_is_given_to_nobody(postgres_url: str, tmp_path: Path) -> None:
    with new_migrated_database(postgres_url) as url:
        opened = connect(Settings(home=tmp_path, database_url=url))
        downgrade(opened)
        opened.dispose()
    with new_migrated_database(postgres_url) as url:
        opened = connect(Settings(home=tmp_path, database_url=url))
        assert is_compatible(opened)
        opened.dispose()
