"""What happened is counted with it, once, on both databases."""

import threading

import pytest
from sqlalchemy import update

from seatrial.contracts.states import RunState
from seatrial.store.counters import (
    CHECK_SECONDS,
    LEASE_EXPIRIES,
    SHARD_FAILURES,
    SHARD_SECONDS,
    SHARDS_REQUEUED,
    count,
    observe,
    read_counts,
)
from seatrial.store.database import Database
from seatrial.store.lifecycle import give_back
from seatrial.store.reaping import reap
from seatrial.store.tables import ShardRow
from tests.rows import add_audit
from tests.store.test_lifecycle import end_shard, finish_check, start_stage, take_shard

FAMILY = "uncertainty_span"


def test_what_becomes_of_shards_is_counted_once(database: Database) -> None:
    start_stage(database, add_audit(database), shards=3)
    for counts, put_off_s in ((True, 0.0), (False, 0.0), (False, 1e-6)):
        claimed = take_shard(database)
        with database.write() as session:
            assert give_back(session, *claimed, counts=counts, put_off_s=put_off_s)
        with database.write() as session:
            assert not give_back(session, *claimed, counts=counts)
    for attempts in (1, 3):
        shard, _ = take_shard(database, lease_s=-1.0)
        with database.write() as session:
            session.execute(update(ShardRow).where(ShardRow.id == shard).values(attempts=attempts))
        assert reap(database, max_attempts=3) == 1
        assert reap(database, max_attempts=3) == 0
    assert end_shard(database, take_shard(database), seconds=0.3)
    last = take_shard(database)
    assert end_shard(database, last, RunState.FAILED, error={"code": "out-of-memory"})
    assert not end_shard(database, last, RunState.FAILED, error={"code": "out-of-memory"})
    assert finish_check(database, RunState.FAILED)
    with database.read() as session:
        counts = read_counts(session)
    assert counts[SHARDS_REQUEUED.name] == {
        (FAMILY, reason): 1.0 for reason in ("error", "worker_stopped", "put_off", "worker_died")
    }
    assert counts[LEASE_EXPIRIES.name] == {("shard", FAMILY): 2.0}
    assert counts[SHARD_FAILURES.name] == {(FAMILY, "worker-died"): 1.0, (FAMILY, "out-of-memory"): 1.0}
    # A bound belongs to its own bucket, as in Prometheus.
    assert counts[SHARD_SECONDS.name] == {(FAMILY, "attack", "0.3"): 1.0, (FAMILY, "attack", "sum"): 0.3}
    assert {labels[:2] for labels in counts[CHECK_SECONDS.name]} == {(FAMILY, "failed")}


def test_counts_of_many_at_once_add_up_and_those_rolled_back_do_not(database: Database) -> None:
    def work() -> None:
        for _ in range(10):
            with database.write() as session:
                count(session, SHARD_FAILURES, FAMILY, "a", by=2.0)
                observe(session, SHARD_SECONDS, FAMILY, "attack", seconds=5000.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def fail() -> None:
        with database.write() as session:
            count(session, SHARD_FAILURES, FAMILY, "a")
            count(session, SHARD_FAILURES, FAMILY)

    with pytest.raises(ValueError, match="has the labels family, code"):
        fail()
    with database.read() as session:
        counts = read_counts(session)
    assert counts[SHARD_FAILURES.name] == {(FAMILY, "a"): 80.0}
    assert counts[SHARD_SECONDS.name] == {(FAMILY, "attack", "+Inf"): 40.0, (FAMILY, "attack", "sum"): 200_000.0}
