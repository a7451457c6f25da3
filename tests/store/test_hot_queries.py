"""What is asked many times a second reads what waits, however much has ended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from seatrial.store.database import Database
from seatrial.store.reaping import reap
from tests.rows import add_audit
from tests.servers import eventually
from tests.store.ended import HOT, ended


@pytest.fixture(scope="module", params=[20_000, pytest.param(100_000, marks=pytest.mark.drill)])
def full(
    request: pytest.FixtureRequest,
    postgres_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Database, int]]:
    """A database in which so many audits have ended."""
    with ended(postgres_url, tmp_path_factory.mktemp("full"), request.param) as database:
        yield database, request.param


def explained(database: Database, ask: Callable[[], object]) -> list[tuple[str, dict[str, Any]]]:
    """Return every statement that is run, with the plan that Postgres makes of it."""
    asked: list[tuple[str, Any]] = []

    def hear(connection: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        asked.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", hear)
    try:
        ask()
    finally:
        event.remove(database.engine, "before_cursor_execute", hear)
    plans = []
    with database.engine.connect() as connection:
        for statement, parameters in asked:
            row = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
            plans.append((statement, row[0]["Plan"]))
        connection.rollback()
    return plans


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def write(database: Database, ask: Callable[[Session], object]) -> object:
    with database.write() as session:
        return ask(session)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOT, "reap"])
def test_no_plan_reads_a_table_through(full: tuple[Database, int], name: str) -> None:
    database, audits = full
    plans = explained(
        database, lambda: reap(database, max_attempts=3) if name == "reap" else write(database, HOT[name])
    )
    assert plans
    for statement, plan in plans:
        for node in nodes(plan):
            assert node["Node Type"] != "Seq Scan" or node["Relation Name"] in ("discards", "projects"), statement
            # What a plan expects to read of an index: not the rows that have ended.
            assert node.get("Plan Rows", 0) < audits / 20 or node["Node Type"] == "Limit", statement


OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend'"
)


def touched(database: Database) -> int:
    """Return how many rows of tables have been read; what a session has counted is told when it ends."""
    database.engine.dispose()
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # A session that was closed a moment ago may still be ending.
        eventually(lambda: not connection.execute(OTHERS).scalar_one())
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        connection.execute(text("SELECT 1"))
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return int(
            connection.execute(
                text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables")
            ).scalar_one()
        )


@pytest.mark.slow
def test_claims_touch_few_rows(full: tuple[Database, int]) -> None:
    database, _ = full
    # Beyond the fifth time a statement may be run by a plan that was made for any values.
    before = touched(database)
    for _ in range(12):
        for ask in HOT.values():
            assert not write(database, ask)
        reap(database, max_attempts=3)
    assert touched(database) - before < 12 * 100


@pytest.mark.slow
def test_what_waits_is_found(full: tuple[Database, int]) -> None:
    database, _ = full
    audit_id = add_audit(database)
    claimed = write(database, HOT["claim_check"])
    assert isinstance(claimed, tuple)
    with database.read() as session:
        owner = session.execute(text("SELECT audit_id FROM checks WHERE id = :id"), {"id": claimed[0]}).scalar_one()
    assert owner == audit_id


QUEUE = (
    """INSERT INTO projects (id, name, created_at)
    SELECT :name || n, :name || n, created_at FROM (SELECT created_at FROM projects LIMIT 1) AS one,
        generate_series(0, 4) AS n""",
    """INSERT INTO audits (id, project_id, model_id, dataset_id, seed, samples, spec, spec_digest, state, created_at)
    SELECT 'aud_' || :name || n, :name || n % 5, model_id, dataset_id, seed, samples, spec, spec_digest, 'queued',
        created_at
    FROM (SELECT * FROM audits LIMIT 1) AS one, generate_series(1, :n) AS n""",
    """INSERT INTO checks (id, audit_id, ordinal, kind, params, state, open_shards)
    SELECT 'chk_' || :name || n, 'aud_' || :name || n, 0, kind, params, 'queued', 0
    FROM (SELECT * FROM checks LIMIT 1) AS one, generate_series(1, :n) AS n""",
)


@pytest.mark.slow
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_many_that_wait_are_not_read_for_one_claim(full: tuple[Database, int], is_analyzed: bool) -> None:
    database, audits = full
    with database.write() as session:
        for statement in QUEUE:
            session.execute(text(statement), {"n": audits // 10, "name": f"busy-{is_analyzed}-".lower()})
    if is_analyzed:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
    before = touched(database)
    claimed = [write(database, HOT["claim_work"]) for _ in range(12)]
    assert all(claimed)
    # Of the hundred audits that run and have nothing to claim, each and its check once; of those that wait, a few.
    assert touched(database) - before < 12 * 400
