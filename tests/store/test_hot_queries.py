"""What is asked many times a second reads what waits, however much has ended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from seatrial.store.database import Database
from seatrial.store.reaping import reap
from tests.databases import postgres_url  # noqa: F401
from tests.rows import add_audit
from tests.store.ended import HOT, ended


@pytest.fixture(scope="module", params=[20_000, pytest.param(100_000, marks=pytest.mark.drill)])
def full(
    request: pytest.FixtureRequest,
    postgres_url: str,  # noqa: F811
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


@pytest.mark.slow
def test_claims_touch_few_rows(full: tuple[Database, int]) -> None:
    database, _ = full

    def touched() -> int:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("SELECT pg_stat_force_next_flush()"))
            connection.execute(text("SELECT 1"))
            connection.execute(text("SELECT pg_stat_clear_snapshot()"))
            return int(
                connection.execute(
                    text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables")
                ).scalar_one()
            )

    # Beyond the fifth time a statement may be run by a plan that was made for any values.
    before = touched()
    for _ in range(12):
        for ask in HOT.values():
            assert not write(database, ask)
        reap(database, max_attempts=3)
    # What a session has counted is told when it ends.
    database.engine.dispose()
    assert touched() - before < 12 * 100


@pytest.mark.slow
def test_what_waits_is_found(full: tuple[Database, int]) -> None:
    database, _ = full
    audit_id = add_audit(database)
    claimed = write(database, HOT["claim_check"])
    assert isinstance(claimed, tuple)
    with database.read() as session:
        owner = session.execute(text("SELECT audit_id FROM checks WHERE id = :id"), {"id": claimed[0]}).scalar_one()
    assert owner == audit_id
