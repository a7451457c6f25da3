"""What is asked many times a second reads what waits, however much has ended."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from seatrial.store.checkpoints import has_due_discards
from seatrial.store.claiming import claim_check, claim_model, claim_shard, claim_training, claim_work, count_work
from seatrial.store.database import Database, connect
from seatrial.store.reaping import reap
from seatrial.store.settings import Settings
from tests.databases import new_migrated_database, postgres_url  # noqa: F401
from tests.rows import add_audit

ENDED = 100_000
RUNNING = "0999"
"""How the numbers of those begin that run, 111 of them."""

FILL = (
    """INSERT INTO models (id, project_id, name, version, task, manifest, digest, size_bytes, format, state, created_at)
    SELECT 'mdl_0' || n, project_id, 'm' || n, '1', task, manifest, digest, 1, format, 'ready', created_at
    FROM models, generate_series(1, :n / 10) AS n""",
    """INSERT INTO audits (id, project_id, model_id, dataset_id, seed, samples, spec, spec_digest, state, created_at,
        started_at, finished_at)
    SELECT 'aud_0' || n, project_id, model_id, dataset_id, seed, samples, spec, spec_digest, 'succeeded', created_at,
        created_at, created_at
    FROM audits, generate_series(1, :n) AS n""",
    """INSERT INTO checks (id, audit_id, ordinal, kind, params, state, stage, open_shards)
    SELECT 'chk_0' || n, 'aud_0' || n, 0, kind, params, 'succeeded', 'attack', 0
    FROM checks, generate_series(1, :n) AS n""",
    """INSERT INTO shards (id, check_id, stage, ordinal, start, stop, state, done)
    SELECT 'shd_0' || n, 'chk_0' || n, 'attack', 0, 0, 100, 'succeeded', 100 FROM generate_series(1, :n) AS n""",
    """INSERT INTO hardenings (id, project_id, model_id, dataset_id, audited_id, method, params, seed, spec, state,
        created_at)
    SELECT 'hrd_0' || n, project_id, model_id, dataset_id, dataset_id, 'gaussian', spec, 0, spec, 'succeeded',
        created_at
    FROM (SELECT * FROM audits LIMIT 1) AS one, generate_series(1, :n) AS n""",
)

HOT: dict[str, Callable[[Session], object]] = {
    "claim_model": lambda session: claim_model(session, lease_s=60, worker="w"),
    "claim_check": lambda session: claim_check(session, lease_s=60, worker="w"),
    "claim_shard": lambda session: claim_shard(session, lease_s=60, worker="w"),
    "claim_training": lambda session: claim_training(session, lease_s=60, worker="w"),
    "claim_work": lambda session: claim_work(session, lease_s=60, worker="w"),
    "count_work": lambda session: count_work(session),
    "discards": has_due_discards,
}


@pytest.fixture(scope="module")
def full(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:  # noqa: F811
    """A database in which 100,000 audits have ended."""
    with new_migrated_database(postgres_url) as url:
        opened = connect(Settings(home=tmp_path_factory.mktemp("full"), database_url=url))
        add_audit(opened)
        with opened.write() as session:
            for statement in FILL:
                session.execute(text(statement), {"n": ENDED})
            # The audit the rows were copied from has ended too.
            session.execute(text("UPDATE checks SET state = 'succeeded'"))
            # With none that run, a plan by state alone would do.
            session.execute(text(f"UPDATE audits SET state = 'running' WHERE id LIKE 'aud_{RUNNING}%'"))
            session.execute(
                text(f"UPDATE checks SET state = 'running', open_shards = 1 WHERE id LIKE 'chk_{RUNNING}%'")
            )
        with opened.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
        yield opened
        opened.dispose()


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
def test_no_plan_reads_a_table_through(full: Database, name: str) -> None:
    plans = explained(full, lambda: reap(full, max_attempts=3) if name == "reap" else write(full, HOT[name]))
    assert plans
    for statement, plan in plans:
        for node in nodes(plan):
            assert node["Node Type"] != "Seq Scan" or node["Relation Name"] in ("discards", "projects"), statement
            # What a plan expects to read of an index: not the rows that have ended.
            assert node.get("Plan Rows", 0) < ENDED / 20 or node["Node Type"] == "Limit", statement


@pytest.mark.slow
def test_claims_take_milliseconds_and_touch_few_rows(full: Database) -> None:
    def touched() -> int:
        with full.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("SELECT pg_stat_force_next_flush()"))
            connection.execute(text("SELECT 1"))
            connection.execute(text("SELECT pg_stat_clear_snapshot()"))
            return int(
                connection.execute(
                    text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables")
                ).scalar_one()
            )

    # Beyond the fifth time a statement may be run by a plan that was made for any values.
    before, times = touched(), []
    for _ in range(12):
        began = time.perf_counter()
        for ask in HOT.values():
            assert not write(full, ask)
        times.append(time.perf_counter() - began)
        reap(full, max_attempts=3)
    full.engine.dispose()
    assert touched() - before < 12 * 100
    # Five statements, and their transactions; the fastest round is the one nobody disturbed.
    assert min(times) < len(HOT) * 5e-3


@pytest.mark.slow
def test_what_waits_is_found(full: Database) -> None:
    audit_id = add_audit(full)
    claimed = write(full, HOT["claim_check"])
    assert isinstance(claimed, tuple)
    with full.read() as session:
        owner = session.execute(text("SELECT audit_id FROM checks WHERE id = :id"), {"id": claimed[0]}).scalar_one()
    assert owner == audit_id
