"""On a real Postgres: a whole audit under the roles that ``seatrial migrate`` grants, and what those cannot do."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import make_url, select

from app.access.service import create_key
from app.cli import main
from seatrial.store.artifacts import digest_of_bytes, open_store
from seatrial.store.checkpoints import announce_checkpoint, has_due_discards, sweep_discards
from seatrial.store.database import Database, connect
from seatrial.store.grants import WORKER
from seatrial.store.lifecycle import count_workers
from seatrial.store.migrations import is_compatible
from seatrial.store.reaping import reap
from seatrial.store.retention import sweep_old, sweep_workers
from seatrial.store.settings import Settings
from seatrial.store.tables import Base, DeliveryRow, SessionRow, WebhookRow
from seatrial.store.tables.base import utc_now
from seatrial.store.waiting import count_work
from tests.e2e.deployment import Deployment
from tests.servers import new_database

SECRET = "whsec_of_a_webhook"


class Roles:
    """A migrated database with an owner and two roles, by URL."""

    def __init__(self, owner: str) -> None:
        self.names = {kind: f"seatrial_test_{kind}_{uuid4().hex[:8]}" for kind in ("service", "worker")}
        self.owner = owner
        self.service, self.worker = (self.url(kind) for kind in self.names)

    def url(self, kind: str) -> str:
        """Return the URL of the database for a role."""
        as_role = make_url(self.owner).set(username=self.names[kind], password="p" * 32)
        return as_role.render_as_string(hide_password=False)

    def migrate(self, home: Path, **environment: str) -> Result:
        """Run ``seatrial migrate`` as the owner."""
        options = [f"--{kind}-role={name}" for kind, name in self.names.items()]
        passwords = {f"SEATRIAL_{kind.upper()}_ROLE_PASSWORD": "p" * 32 for kind in self.names}
        settings = {"SEATRIAL_DATABASE_URL": self.owner, "SEATRIAL_HOME": str(home)}
        return CliRunner().invoke(main, ["migrate", *options], env={**settings, **passwords, **environment})


@pytest.fixture
def roles(postgres_url: str, tmp_path: Path) -> Iterator[Roles]:
    with new_database(postgres_url) as url:
        roles = Roles(url)
        try:
            for _ in range(2):
                # Safe to run again: every deployment of a new version does.
                done = roles.migrate(tmp_path / "owner")
                assert done.exit_code == 0, done.output
            yield roles
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                made = connection.execute("SELECT rolname FROM pg_roles").fetchall()
                for name in {row[0] for row in made} & set(roles.names.values()):
                    connection.execute(f"DROP OWNED BY {name}")
                    connection.execute(f"DROP ROLE {name}")


def refused(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement)


@pytest.mark.slow
def test_an_audit_runs_from_upload_to_verdict_under_the_roles(roles: Roles, tmp_path: Path) -> None:
    with Deployment(tmp_path / "home", database_url=roles.service) as deployment:
        create_key(deployment.database, "default", "ci", "run")
        model, dataset = deployment.upload()
        with deployment.database.write() as session:
            hook = WebhookRow(id="whk_1", project_id=_project(roles), url="http://127.0.0.1:9/x", events=["*"])
            hook.description, hook.secrets = "", [{"secret": SECRET, "expires_at": None}]
            session.add(hook)
            session.add(SessionRow(digest="of a cookie", key_digest="of a key", expires_at=utc_now()))
        deployment.environment["SEATRIAL_DATABASE_URL"] = roles.worker
        deployment.add_worker()
        audit = deployment.submit(model, dataset, policy="lenient", params={"steps": 1}, samples=20, shards=2)
        ended = deployment.wait(audit)
        assert ended["state"] == "succeeded", ended
        assert ended["checks"][0]["result"]["estimates"]
        with deployment.database.read() as session:
            assert session.scalars(select(DeliveryRow.event)).all()
        log = deployment.processes[0].log.read_text()
        assert "permission denied" not in log, log
    _housekeeping(roles, tmp_path)
    _cannot_read_what_is_not_its_own(roles)


def _project(roles: Roles) -> str:
    with psycopg.connect(roles.owner) as connection:
        row = connection.execute("SELECT id FROM projects").fetchone()
    assert row is not None
    return str(row[0])


def _housekeeping(roles: Roles, tmp_path: Path) -> None:
    """What the scheduler does, and what workers do between shards."""
    settings = Settings(home=tmp_path / "home", database_url=roles.worker)
    database = connect(settings)
    try:
        assert is_compatible(database)
        reap(database, max_attempts=1)
        sweep_workers(database)
        with database.write() as session:
            announce_checkpoint(session, digest_of_bytes(b"a checkpoint"))
            assert count_work(session) == 0
            assert count_workers(session) >= 1
            assert not has_due_discards(session)
        sweep_discards(database, open_store(settings))
    finally:
        database.dispose()


def _cannot_read_what_is_not_its_own(roles: Roles) -> None:
    refused(
        roles.worker,
        "SELECT digest FROM keys",
        "SELECT count(*) FROM keys",
        "SELECT digest FROM sessions",
        "SELECT key_digest FROM sessions",
        "SELECT secrets FROM webhooks",
        "SELECT url FROM webhooks",
        "SELECT * FROM webhooks",
        "SELECT payload FROM deliveries",
        "SELECT body FROM idempotency",
        "SELECT created_at FROM projects",
        "INSERT INTO projects (id) VALUES ('prj_1')",
        "SELECT document FROM policies",
        "SELECT judgement FROM judgements",
        "INSERT INTO keys (id) VALUES ('key_1')",
        "UPDATE audits SET verdict = 'passed'",
        "UPDATE audits SET project_id = 'x'",
        "UPDATE models SET manifest = '{}'",
        "UPDATE models SET digest = 'x'",
        "UPDATE webhooks SET secrets = '[]'",
        "UPDATE shards SET check_id = 'x'",
        "DELETE FROM audits",
        "DELETE FROM events",
        "TRUNCATE events",
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY audits TO PROGRAM 'id'",
        "CREATE ROLE other",
    )
    refused(roles.service, "CREATE TABLE mine (x int)", "DROP TABLE keys", "ALTER TABLE keys ADD x int")
    refused(roles.service, "SELECT rolpassword FROM pg_authid", "UPDATE alembic_version SET version_num = 'x'")


def test_a_worker_reads_whole_rows_of_what_it_works_on(roles: Roles, tmp_path: Path) -> None:
    """Whatever a row reads along, as a model the name of its project, must be granted too."""
    database = connect(Settings(home=tmp_path, database_url=roles.worker))
    try:
        for mapper in Base.registry.mappers:
            if "SELECT" in WORKER.get(mapper.local_table.name, ()):
                with database.read() as session:
                    session.scalars(select(mapper.class_).limit(1)).all()
    finally:
        database.dispose()


def test_the_api_sweeps_what_workers_cannot(roles: Roles, tmp_path: Path) -> None:
    database: Database = connect(Settings(home=tmp_path, database_url=roles.service))
    try:
        sweep_old(database)
    finally:
        database.dispose()


def test_a_role_that_cannot_be_limited_is_refused(roles: Roles, tmp_path: Path) -> None:
    options = {"SEATRIAL_DATABASE_URL": roles.owner, "SEATRIAL_HOME": str(tmp_path)}
    owner = make_url(roles.owner).username
    for role, told in (
        (owner, "no grant can limit it"),
        ("not_there", "there is no role not_there"),
        ('x"; DROP', "no name of a role"),
    ):
        done = CliRunner().invoke(main, ["migrate", f"--worker-role={role}"], env=options)
        assert (done.exit_code, told in done.output) == (1, True), done.output
    sqlite = CliRunner().invoke(
        main, ["migrate", "--worker-role=w"], env={"SEATRIAL_HOME": str(tmp_path), "SEATRIAL_DATABASE_URL": ""}
    )
    assert "SQLite has no roles" in sqlite.output


def test_grants_name_tables_and_columns_that_are_there() -> None:
    tables = Base.metadata.tables
    for table, rights in WORKER.items():
        assert table in {*tables, "alembic_version"}
        for right in rights:
            _, _, columns = right.partition("(")
            for column in filter(None, (one.strip(" )") for one in columns.split(","))):
                assert column in tables[table].columns, (table, column)
