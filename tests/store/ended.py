"""A Postgres database in which much has ended, and what is asked of it many times a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

from seatrial.store.checkpoints import has_due_discards
from seatrial.store.claiming import claim_check, claim_model, claim_shard, claim_training, claim_work
from seatrial.store.database import Database, connect
from seatrial.store.settings import Settings
from seatrial.store.waiting import count_work
from tests.databases import new_migrated_database
from tests.rows import add_audit

RUNNING = "0999"
"""How the numbers of those begin that run."""

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


@contextmanager
def ended(server: str, home: Path, audits: int) -> Iterator[Database]:
    """Yield a database in which so many audits of one check and one shard have ended, and some run."""
    with new_migrated_database(server) as url:
        opened = connect(Settings(home=home, database_url=url))
        add_audit(opened)
        with opened.write() as session:
            for statement in FILL:
                session.execute(text(statement), {"n": audits})
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
