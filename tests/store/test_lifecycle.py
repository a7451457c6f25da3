"""The life of an audit, on both databases, with several claimants at once."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from seatrial.contracts.states import ModelState, RunState
from seatrial.store.claiming import claim_check, claim_model, claim_shard
from seatrial.store.database import Database
from seatrial.store.lifecycle import (
    cancel_audit,
    close_check,
    close_shard,
    give_back,
    open_stage,
    report_progress,
    retry_audit,
)
from seatrial.store.reaping import reap
from seatrial.store.tables import AuditRow, CheckRow, EventRow, ModelRow, ShardRow
from seatrial.store.transitions import RUN_TRANSITIONS, TransitionError, heartbeat, move, release
from seatrial.store.waiting import count_work
from tests.rows import add_audit
from workers.runtime.stages import cut, make_shards

LONG, SHORT = 60.0, 0.05


def start_stage(db: Database, audit_id: str, *, shards: int = 3, stage: str = "attack") -> str:
    """Advance the audit's next free check to a stage of several shards; return the check's id."""
    with db.write() as session:
        claimed = claim_check(session, lease_s=LONG, worker="w")
    assert claimed is not None
    check_id, token = claimed
    with db.write() as session:
        rows = make_shards(check_id, stage, cut(100, 10, shards))
        assert open_stage(session, check_id, token, name=stage, source="sample", examples=100, shards=rows)
    return check_id


def take_shard(db: Database, lease_s: float = LONG) -> tuple[str, str]:
    """Claim a shard that must be there."""
    with db.write() as session:
        claimed = claim_shard(session, lease_s=lease_s, worker="w")
    assert claimed is not None
    return claimed


def end_shard(db: Database, claimed: tuple[str, str], state: RunState = RunState.SUCCEEDED, **values: object) -> bool:
    with db.write() as session:
        return close_shard(session, *claimed, state, **values)


def state_of(db: Database, table: type, row_id: str) -> str:
    with db.read() as session:
        return session.scalars(select(table.state).where(table.id == row_id)).one()


def states(db: Database, audit_id: str) -> tuple[str, list[str]]:
    with db.read() as session:
        checks = session.scalars(select(CheckRow.state).where(CheckRow.audit_id == audit_id).order_by(CheckRow.ordinal))
        return state_of(db, AuditRow, audit_id), list(checks)


@pytest.mark.parametrize("how", ["given back", "reaped"])
def test_a_shard_that_is_queued_again_keeps_no_cancelled_audit_waiting(database: Database, how: str) -> None:
    audit_id = add_audit(database)
    start_stage(database, audit_id, shards=2)
    held = take_shard(database, LONG if how == "given back" else -1.0)
    with database.write() as session:
        assert cancel_audit(session, audit_id)
    if how == "given back":
        with database.write() as session:
            assert give_back(session, *held, counts=True)
    else:
        assert reap(database, max_attempts=3) == 1
    assert states(database, audit_id) == ("cancelled", ["cancelled"])


def finish_check(db: Database, state: RunState = RunState.SUCCEEDED) -> bool:
    with db.write() as session:
        claimed = claim_check(session, lease_s=LONG, worker="w")
    assert claimed is not None
    with db.write() as session:
        return close_check(session, *claimed, state)


@pytest.mark.slow
def test_an_audit_runs_from_queued_to_succeeded(database: Database) -> None:
    audit_id = add_audit(database)
    start_stage(database, audit_id)
    assert states(database, audit_id) == ("running", ["running"])
    for _ in range(3):
        assert end_shard(database, take_shard(database), done=30)
    assert finish_check(database)
    assert states(database, audit_id) == ("succeeded", ["succeeded"])
    with database.read() as session:
        events = session.scalars(select(EventRow).where(EventRow.audit_id == audit_id).order_by(EventRow.seq)).all()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.data["state"] for event in events if event.kind == "audit"] == ["queued", "running", "succeeded"]


def test_a_check_waits_for_its_model(database: Database) -> None:
    add_audit(database, model_state=ModelState.CHECKING)
    with database.write() as session:
        assert claim_check(session, lease_s=LONG, worker="w") is None
        claimed = claim_model(session, lease_s=LONG, worker="w")
        assert claimed is not None
    with database.write() as session:
        assert claim_model(session, lease_s=LONG, worker="w") is None
        assert move(session, ModelRow, ModelState.READY, ModelRow.id == claimed[0], token=None, lease_until=None)
        assert claim_check(session, lease_s=LONG, worker="w") is not None


def test_many_claimants_share_the_shards_without_overlap(database: Database) -> None:
    start_stage(database, add_audit(database), shards=10)
    taken: list[str] = []
    guard = threading.Lock()

    def claimant() -> None:
        while True:
            with database.write() as session:
                claimed = claim_shard(session, lease_s=LONG, worker="w")
            if claimed is None:
                return
            with guard:
                taken.append(claimed[0])

    threads = [threading.Thread(target=claimant) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 10


def test_concurrent_endings_neither_deadlock_nor_miscount(database: Database) -> None:
    audit_id = add_audit(database)
    check_id = start_stage(database, audit_id, shards=10)
    claims = [take_shard(database) for _ in range(10)]
    threads = [threading.Thread(target=end_shard, args=(database, claimed)) for claimed in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    with database.read() as session:
        assert session.get_one(CheckRow, check_id).open_shards == 0
    assert finish_check(database)


def test_a_second_ending_writes_nothing(database: Database) -> None:
    check_id = start_stage(database, add_audit(database))
    claimed = take_shard(database)
    assert end_shard(database, claimed, records_digest="first")
    assert not end_shard(database, claimed, records_digest="second")
    with database.read() as session:
        assert session.get_one(ShardRow, claimed[0]).records_digest == "first"
        assert session.get_one(CheckRow, check_id).open_shards == 2


def test_a_worker_that_slept_through_its_lease_writes_nothing(database: Database) -> None:
    start_stage(database, add_audit(database), shards=1)
    stale = take_shard(database, lease_s=SHORT)
    time.sleep(2 * SHORT)
    assert reap(database, max_attempts=3) == 1
    fresh = take_shard(database)
    assert fresh[0] == stale[0]
    with database.write() as session:
        assert not heartbeat(session, ShardRow, *stale, lease_s=LONG)
        assert not report_progress(session, *stale, 5, lease_s=LONG)
        assert not give_back(session, *stale, counts=False)
    assert not end_shard(database, stale, records_digest="stale")
    assert end_shard(database, fresh, records_digest="fresh")


def test_a_heartbeat_keeps_the_reaper_away(database: Database) -> None:
    start_stage(database, add_audit(database), shards=1)
    claimed = take_shard(database, lease_s=SHORT)
    with database.write() as session:
        assert heartbeat(session, ShardRow, *claimed, lease_s=LONG)
    time.sleep(2 * SHORT)
    assert reap(database, max_attempts=3) == 0


@pytest.mark.slow
def test_a_poison_shard_fails_after_three_attempts_and_the_other_check_goes_on(database: Database) -> None:
    audit_id = add_audit(database, checks=2)
    poisoned = start_stage(database, audit_id, shards=1)
    for attempt in (1, 2, 3):
        shard_id, _ = take_shard(database, lease_s=SHORT)
        time.sleep(2 * SHORT)
        assert reap(database, max_attempts=3) == 1
        assert state_of(database, ShardRow, shard_id) == ("failed" if attempt == 3 else "queued")
    with database.read() as session:
        error = session.get_one(ShardRow, shard_id).error
        assert error is not None
        assert error["code"] == "worker-died"
        assert "3 times" in error["detail"]
    assert finish_check(database, RunState.FAILED)
    assert state_of(database, CheckRow, poisoned) == "failed"
    assert start_stage(database, audit_id, shards=1) != poisoned
    assert end_shard(database, take_shard(database))
    assert finish_check(database)
    assert states(database, audit_id) == ("failed", ["failed", "succeeded"])


def test_cancel_ends_what_waits_and_asks_what_runs(database: Database) -> None:
    audit_id = add_audit(database, checks=2)
    start_stage(database, audit_id)
    running = take_shard(database)
    with database.write() as session:
        assert cancel_audit(session, audit_id)
    # The check that had not begun is over; the other waits for its running shard.
    assert states(database, audit_id) == ("cancelling", ["cancelling", "cancelled"])
    with database.write() as session:
        assert cancel_audit(session, audit_id)
        assert claim_shard(session, lease_s=LONG, worker="w") is None
    assert end_shard(database, running, RunState.CANCELLED)
    assert states(database, audit_id) == ("cancelled", ["cancelled", "cancelled"])
    with database.write() as session:
        assert not cancel_audit(session, audit_id)
        assert not retry_audit(session, audit_id)


def test_cancelling_a_queued_audit_ends_it_at_once(database: Database) -> None:
    audit_id = add_audit(database)
    with database.write() as session:
        assert cancel_audit(session, audit_id)
    assert states(database, audit_id) == ("cancelled", ["cancelled"])


def test_a_worker_lost_while_cancelling_does_not_hang_the_audit(database: Database) -> None:
    audit_id = add_audit(database)
    start_stage(database, audit_id, shards=1)
    take_shard(database, lease_s=SHORT)
    with database.write() as session:
        assert cancel_audit(session, audit_id)
    time.sleep(2 * SHORT)
    reap(database, max_attempts=3)
    assert states(database, audit_id) == ("cancelled", ["cancelled"])


def test_cancel_takes_the_claim_from_whoever_advances(database: Database) -> None:
    audit_id = add_audit(database)
    with database.write() as session:
        claimed = claim_check(session, lease_s=LONG, worker="w")
        assert claimed is not None
    with database.write() as session:
        assert cancel_audit(session, audit_id)
    with database.write() as session:
        assert not close_check(session, *claimed, RunState.SUCCEEDED)
        rows = make_shards(claimed[0], "attack", [(0, 100)])
        assert not open_stage(session, *claimed, name="attack", source="sample", examples=100, shards=rows)
    assert states(database, audit_id) == ("cancelled", ["cancelled"])


def test_retry_queues_the_failed_shards_only(database: Database) -> None:
    audit_id = add_audit(database)
    check_id = start_stage(database, audit_id)
    good, bad = take_shard(database), take_shard(database)
    assert end_shard(database, good, records_digest="kept")
    assert end_shard(database, bad, RunState.FAILED, error={"code": "x"})
    assert end_shard(database, take_shard(database), records_digest="kept too")
    assert finish_check(database, RunState.FAILED)
    assert states(database, audit_id) == ("failed", ["failed"])
    with database.write() as session:
        assert retry_audit(session, audit_id)
        assert not retry_audit(session, audit_id)
    assert states(database, audit_id) == ("running", ["running"])
    assert take_shard(database)[0] == bad[0]
    with database.read() as session:
        assert session.get_one(ShardRow, good[0]).records_digest == "kept"
        assert session.get_one(CheckRow, check_id).open_shards == 1
        assert session.get_one(AuditRow, audit_id).finished_at is None


def test_a_shard_given_back_by_a_stopping_worker_costs_no_attempt(database: Database) -> None:
    start_stage(database, add_audit(database), shards=1)
    claimed = take_shard(database)
    with database.write() as session:
        assert give_back(session, *claimed, counts=False)
        assert session.get_one(ShardRow, claimed[0]).attempts == 0


def test_a_transition_the_table_does_not_have_is_a_bug(database: Database) -> None:
    with database.write() as session, pytest.raises(TransitionError):
        move(session, ShardRow, RunState.RUNNING, sources={RunState.SUCCEEDED})


def test_nothing_leaves_a_good_end() -> None:
    assert not RUN_TRANSITIONS[RunState.SUCCEEDED]
    assert not RUN_TRANSITIONS[RunState.CANCELLED]


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 60))
def test_shards_are_whole_batches_and_cover_everything_once(examples: int, batch_size: int, shards: int) -> None:
    pieces = cut(examples, batch_size, shards)
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(examples))
    assert all(start % batch_size == 0 for start, _ in pieces)
    assert len(pieces) <= shards
    sizes = [-(-(stop - start) // batch_size) for start, stop in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_a_model_that_kills_its_workers_is_given_up(database: Database) -> None:
    audit_id = add_audit(database, model_state=ModelState.CHECKING)
    for attempt in (1, 2, 3):
        with database.write() as session:
            claimed = claim_model(session, lease_s=SHORT, worker="w")
        assert claimed is not None
        time.sleep(2 * SHORT)
        with database.write() as session:
            # Only the reaper may give it out again, or it would be claimed for ever.
            assert claim_model(session, lease_s=SHORT, worker="w") is None
        assert reap(database, max_attempts=3) == 1
        assert state_of(database, ModelRow, claimed[0]) == ("rejected" if attempt == 3 else "checking")
    assert states(database, audit_id) == ("queued", ["queued"])


def test_a_check_that_kills_its_workers_is_given_up(database: Database) -> None:
    audit_id = add_audit(database)
    for attempt in (1, 2, 3):
        with database.write() as session:
            assert claim_check(session, lease_s=SHORT, worker="w") is not None
        time.sleep(2 * SHORT)
        with database.write() as session:
            assert claim_check(session, lease_s=SHORT, worker="w") is None
        assert reap(database, max_attempts=3) == 1
        assert states(database, audit_id)[0] == ("failed" if attempt == 3 else "queued")


def test_what_is_put_off_is_not_claimable_for_that_long(database: Database) -> None:
    add_audit(database)
    with database.write() as session:
        claimed = claim_check(session, lease_s=LONG, worker="w")
        assert claimed is not None
        assert count_work(session) == 0
    with database.write() as session:
        assert release(session, CheckRow, *claimed, put_off_s=0.3, attempts=0)
    with database.write() as session:
        assert claim_check(session, lease_s=LONG, worker="w") is None
    time.sleep(0.4)
    with database.write() as session:
        assert count_work(session) == 1
        assert claim_check(session, lease_s=LONG, worker="w") is not None


def test_sweeps_at_the_same_time_take_each_row_back_once(database: Database) -> None:
    for _ in range(4):
        start_stage(database, add_audit(database), shards=5)
    for _ in range(20):
        take_shard(database, lease_s=SHORT)
    time.sleep(2 * SHORT)
    taken: list[int] = []
    threads = [threading.Thread(target=lambda: taken.append(reap(database, max_attempts=1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(taken) == 20
