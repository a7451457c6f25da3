"""What API processes ask of the database again and again reads what it tells, however much has ended."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.audits import repository as audits
from app.hardenings import repository as hardenings
from app.health import repository as health
from app.plans import repository as plans
from app.web.quotas import check_submission, why_refused
from app.webhooks import repository as webhooks
from seatrial.store.database import Database
from seatrial.store.tables.base import utc_now
from tests.store.ended import ended
from tests.store.test_hot_queries import explained, nodes, write

MANY = 20_000

MORE = (
    """INSERT INTO datasets (id, project_id, name, version, task, split, manifest, digest, size_bytes, format, facts,
        created_at)
    SELECT 'dat_0' || n, project_id, 'd' || n, '1', task, split, manifest, digest, 1, format, facts, created_at
    FROM datasets, generate_series(1, :n / 10) AS n""",
    # One in ten minutes: who asks for those of a day asks for a few.
    """UPDATE audits SET created_at = created_at - substr(id, 6)::bigint * interval '10 minutes'
    WHERE id ~ '^aud_0[0-9]+$'""",
    """UPDATE hardenings SET created_at = created_at - substr(id, 6)::bigint * interval '10 minutes'""",
    """INSERT INTO stages (check_id, name, ordinal, source, examples, shards)
    SELECT 'chk_0' || n, 'attack', 0, 'sample', 100, 1 FROM generate_series(1, :n) AS n""",
    """INSERT INTO events (audit_id, seq, kind, data, created_at)
    SELECT 'aud_0' || n, seq, 'audit', '{}', now() FROM generate_series(1, :n) AS n, generate_series(1, 3) AS seq""",
    """INSERT INTO hardening_events (hardening_id, seq, kind, data, created_at)
    SELECT 'hrd_0' || n, 1, 'hardening', '{}', now() FROM generate_series(1, :n) AS n""",
    """INSERT INTO tombstones (id, subject, project_id, kind, name, details, actor, created_at, deleted_at)
    SELECT 'tmb_' || n, 'aud_gone' || n, project_id, 'audit', '', '{"estimated_s": 1.0}', '',
        now() - n * interval '10 minutes', now()
    FROM (SELECT project_id FROM audits LIMIT 1) AS one, generate_series(1, :n) AS n""",
    """INSERT INTO webhooks (id, project_id, url, events, description, is_enabled, secrets, created_at)
    SELECT 'whk_1', project_id, '', '[]', '', true, '[]', now() FROM audits LIMIT 1""",
    """INSERT INTO deliveries (id, webhook_id, event, payload, status, due_at, log, created_at, attempts)
    SELECT 'dlv_' || n, 'whk_1', 'x', '{}', CASE n % 2 WHEN 0 THEN 'delivered' ELSE 'failed' END, now(), '[]', now(), 1
    FROM generate_series(1, :n) AS n""",
    """INSERT INTO plans (id, project_id, name, state, created_at)
    SELECT 'pln_' || n, project_id, '', 'succeeded', now()
    FROM (SELECT project_id FROM audits LIMIT 1) AS one, generate_series(1, :n) AS n""",
    """INSERT INTO plan_steps (id, plan_id, ordinal, kind, params, state, job, attempts)
    SELECT 'stp_' || n, 'pln_' || n, 0, 'audit', '{}', 'succeeded', 'aud_0' || n, 1 FROM generate_series(1, :n) AS n""",
    """INSERT INTO quotas (project_id, unfinished_audits, audit_s, daily_s)
    SELECT project_id, 1000000, 1e9, 1e9 FROM audits LIMIT 1""",
)


@pytest.fixture(scope="module")
def full(
    postgres_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Database, str]]:
    """A database in which much has ended, and the project it is of."""
    with ended(postgres_url, tmp_path_factory.mktemp("full"), MANY) as database:
        with database.write() as session:
            for statement in MORE:
                session.execute(text(statement), {"n": MANY} if ":n" in statement else {})
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
            project = connection.execute(text("SELECT project_id FROM audits LIMIT 1")).scalar_one()
        yield database, project


Ask = Callable[[Session, str], object]
AUDIT, HARDENING = "aud_0777", "hrd_0777"


def listed(**more: str | None) -> Ask:
    asked = dict.fromkeys(("state", "model", "verdict", "before")) | more
    return lambda session, project: list(audits.list_audits(session, project, limit=50, **asked))


READS: dict[str, Ask] = {
    "an audit": lambda session, project: audits.find_parts(session, project, AUDIT),
    "events of an audit": lambda session, project: audits.list_events(session, project, AUDIT, after=1, limit=500),
    "the newest audits": listed(),
    "the next audits": listed(before=AUDIT),
    "audits that run": listed(state="running"),
    "audits that failed": listed(state="failed"),
    "events of a hardening": lambda session, project: hardenings.list_events(
        session, project, HARDENING, after=0, limit=500
    ),
    "hardenings": lambda session, project: list(
        hardenings.list_hardenings(session, project, state=None, model=None, before=None, limit=50)
    ),
    "hardenings that are due": lambda session, _: hardenings.due(session),
    "plans": lambda session, project: list(plans.list_plans(session, project, before=None, limit=50)),
    "steps that are due": lambda session, _: plans.is_any_due(session),
    "the claim of a step": lambda session, _: plans.claim_due(session, lease_s=60, worker="w"),
    "messages that are due": lambda session, _: webhooks.is_any_due(session, utc_now(), [], []),
    "the claim of a message": lambda session, _: webhooks.claim_due(session, utc_now(), [], [], lease_s=60, worker="w"),
    "messages": lambda session, _: webhooks.list_deliveries(session, "whk_1", status=None, before=None, limit=50),
    "quotas of an audit": lambda session, project: check_submission(session, project, 1.0),
    "quotas of a training": lambda session, project: why_refused(session, project, 1.0, work="training"),
    "/metrics": lambda session, _: health.count_work(session),
}
SMALL = ("projects", "quotas", "webhooks", "workers", "counters", "discards")
"""Tables that do not grow with what has ended."""


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
def test_no_plan_reads_a_table_through(full: tuple[Database, str], name: str) -> None:
    database, project = full
    found = explained(database, lambda: write(database, lambda session: READS[name](session, project)))
    assert found
    for statement, plan in found:
        is_cut = "Limit" in [node["Node Type"] for node in nodes(plan)]
        for node in nodes(plan):
            assert node["Node Type"] != "Seq Scan" or node["Relation Name"] in SMALL, statement
            # What a plan expects to read of an index: not the rows that have ended, unless it stops before.
            assert node.get("Plan Rows", 0) < MANY / 20 or is_cut, (node, statement)
