"""Which file a shard's row names, which are to be deleted, and from where an attempt begins: on both databases."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, update

from seatrial.contracts.states import RunState
from seatrial.store.artifacts import LocalStore
from seatrial.store.checkpoints import (
    MARGIN_S,
    STORED_WITHIN_S,
    announce_checkpoint,
    has_due_discards,
    may_resume,
    point_at_checkpoint,
    sweep_discards,
)
from seatrial.store.database import Database
from seatrial.store.lifecycle import cancel_audit, give_back, retry_audit
from seatrial.store.reaping import reap
from seatrial.store.tables import DiscardRow, ShardRow
from tests.rows import add_audit
from tests.store.test_lifecycle import end_shard, finish_check, start_stage, take_shard

Claimed = tuple[str, str]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "artifacts")


def files(store: LocalStore) -> set[str]:
    return {"sha256:" + path.name for path in store.staging().parent.rglob("*") if path.is_file()}


def add_checkpoint(db: Database, store: LocalStore, claimed: Claimed, data: bytes) -> str:
    """Save as a worker does; return the digest of what the shard now names."""
    digest = store.put_bytes(data)
    with db.write() as session:
        announce_checkpoint(session, digest)
    with db.write() as session:
        assert point_at_checkpoint(session, *claimed, digest, 7)
    return digest


def saved(db: Database, shard_id: str) -> str | None:
    with db.read() as session:
        return session.get_one(ShardRow, shard_id).saved_digest


def resumes(db: Database, shard_id: str) -> bool:
    with db.read() as session:
        return may_resume(session.get_one(ShardRow, shard_id))


def discards(db: Database) -> set[str]:
    with db.read() as session:
        return set(session.scalars(select(DiscardRow.digest)))


def pass_time(db: Database, seconds: float) -> None:
    """Let so many seconds pass for what is written down as to be deleted."""
    with db.write() as session:
        session.execute(update(DiscardRow).values(due_at=DiscardRow.due_at - seconds))


def lose(db: Database, shard_id: str, *, max_attempts: int = 3) -> None:
    """Let a shard's lease run out."""
    with db.write() as session:
        session.execute(update(ShardRow).where(ShardRow.id == shard_id).values(lease_until=0.0))
    assert reap(db, max_attempts=max_attempts) == 1


def fail_once(db: Database, claimed: Claimed) -> None:
    with db.write() as session:
        assert give_back(session, *claimed, counts=True, error={"code": "x"})


def stop(db: Database, claimed: Claimed) -> None:
    with db.write() as session:
        assert give_back(session, *claimed, counts=False)


@pytest.fixture
def claimed(database: Database) -> Claimed:
    """The only shard of an audit, claimed."""
    start_stage(database, add_audit(database, id="aud_1"), shards=1)
    return take_shard(database)


def test_a_save_replaces_the_one_before(database: Database, store: LocalStore, claimed: Claimed) -> None:
    first = add_checkpoint(database, store, claimed, b"one")
    assert discards(database) == set()
    second = add_checkpoint(database, store, claimed, b"two")
    assert saved(database, claimed[0]) == second
    assert discards(database) == {first}
    assert sweep_discards(database, store) == 1
    assert files(store) == {second}


def test_a_claim_that_is_lost_points_at_nothing(database: Database, store: LocalStore, claimed: Claimed) -> None:
    kept = add_checkpoint(database, store, claimed, b"of the worker that froze")
    lose(database, claimed[0])
    with database.write() as session:
        announce_checkpoint(session, "sha256:late")
    with database.write() as session:
        assert not point_at_checkpoint(session, *claimed, "sha256:late", 7)
    newer = add_checkpoint(database, store, take_shard(database), b"of the other")
    with database.write() as session:
        assert not point_at_checkpoint(session, *claimed, "sha256:late", 7)
    assert saved(database, claimed[0]) == newer
    assert discards(database) == {kept, "sha256:late"}


def test_a_file_announced_and_never_named_is_deleted_in_an_hour(
    database: Database,
    store: LocalStore,
) -> None:
    with database.write() as session:
        announce_checkpoint(session, store.put_bytes(b"of a worker killed before it named it"))
    assert sweep_discards(database, store) == 0
    pass_time(database, STORED_WITHIN_S + MARGIN_S)
    with database.read() as session:
        assert has_due_discards(session)
    assert sweep_discards(database, store) == 1
    assert files(store) == discards(database) == set()


def test_no_shard_takes_over_what_a_sweep_may_be_deleting(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
) -> None:
    kept = add_checkpoint(database, store, claimed, b"one")
    slow = store.put_bytes(b"two")
    with database.write() as session:
        announce_checkpoint(session, slow)
    pass_time(database, STORED_WITHIN_S + 1)
    with database.write() as session:
        assert not point_at_checkpoint(session, *claimed, slow, 7)
    assert saved(database, claimed[0]) == kept


@pytest.mark.parametrize(
    "again", [lambda db, claimed: lose(db, claimed[0]), fail_once, stop], ids=["lost", "failed", "stopped"]
)
def test_what_is_begun_again_begins_at_its_save(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
    again: Callable[[Database, Claimed], None],
) -> None:
    digest = add_checkpoint(database, store, claimed, b"one")
    again(database, claimed)
    assert take_shard(database)[0] == claimed[0]
    assert saved(database, claimed[0]) == digest
    assert resumes(database, claimed[0])


def test_a_shard_that_never_saved_begins_anew(database: Database, claimed: Claimed) -> None:
    fail_once(database, claimed)
    take_shard(database)
    assert not resumes(database, claimed[0])


def test_a_save_that_two_attempts_failed_at_is_not_tried_a_third_time(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
) -> None:
    add_checkpoint(database, store, claimed, b"one")
    fail_once(database, claimed)
    # A worker asked to stop is nobody's failure.
    stop(database, take_shard(database))
    stop(database, take_shard(database))
    second = take_shard(database)
    assert resumes(database, claimed[0])
    fail_once(database, second)
    third = take_shard(database)
    assert not resumes(database, claimed[0])
    # Begun anew, it saves again.
    add_checkpoint(database, store, third, b"two")
    stop(database, third)
    take_shard(database)
    assert resumes(database, claimed[0])


def test_a_save_that_was_gone_beyond_is_another(database: Database, store: LocalStore, claimed: Claimed) -> None:
    add_checkpoint(database, store, claimed, b"one")
    fail_once(database, claimed)
    second = take_shard(database)
    add_checkpoint(database, store, second, b"two")
    fail_once(database, second)
    take_shard(database)
    assert resumes(database, claimed[0])


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED], ids=str)
def test_a_shard_that_ended_leaves_no_file(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
    state: RunState,
) -> None:
    add_checkpoint(database, store, claimed, b"one")
    assert end_shard(database, claimed, state)
    assert saved(database, claimed[0]) is None
    assert sweep_discards(database, store) == 1
    assert files(store) == discards(database) == set()


def test_an_ending_that_comes_too_late_deletes_nothing(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
) -> None:
    digest = add_checkpoint(database, store, claimed, b"one")
    lose(database, claimed[0])
    assert not end_shard(database, claimed)
    assert saved(database, claimed[0]) == digest
    assert discards(database) == set()


def test_a_shard_given_up_leaves_no_file(database: Database, store: LocalStore, claimed: Claimed) -> None:
    digest = add_checkpoint(database, store, claimed, b"one")
    lose(database, claimed[0], max_attempts=1)
    assert saved(database, claimed[0]) is None
    assert discards(database) == {digest}


def test_cancel_forgets_the_saves_of_what_waits_and_not_of_what_succeeded(
    database: Database,
    store: LocalStore,
) -> None:
    start_stage(database, add_audit(database, id="aud_1"), shards=3)
    waiting, running, other = take_shard(database), take_shard(database), take_shard(database)
    gone = add_checkpoint(database, store, waiting, b"waiting")
    kept = add_checkpoint(database, store, running, b"running")
    stop(database, waiting)
    assert end_shard(database, other)
    with database.write() as session:
        assert cancel_audit(session, "aud_1")
    assert saved(database, waiting[0]) is None
    assert discards(database) == {gone}
    # What runs is told at its next step, and drops its own.
    assert saved(database, running[0]) == kept
    lose(database, running[0])
    assert discards(database) == {gone, kept}


def test_a_retry_begins_anew(database: Database, store: LocalStore, claimed: Claimed) -> None:
    add_checkpoint(database, store, claimed, b"one")
    assert end_shard(database, claimed, RunState.FAILED, error={"code": "x"})
    assert finish_check(database, RunState.FAILED)
    with database.write() as session:
        assert retry_audit(session, "aud_1")
    take_shard(database)
    assert not resumes(database, claimed[0])


def test_a_save_and_an_end_at_once_leave_one_file_or_none(database: Database, store: LocalStore) -> None:
    start_stage(database, add_audit(database), shards=10)
    claims = [take_shard(database) for _ in range(10)]
    for number, claimed in enumerate(claims):
        add_checkpoint(database, store, claimed, b"first %d" % number)
    digests = [store.put_bytes(b"second %d" % number) for number in range(10)]
    with database.write() as session:
        for digest in digests:
            announce_checkpoint(session, digest)

    def point(claimed: Claimed, digest: str) -> None:
        with database.write() as session:
            point_at_checkpoint(session, *claimed, digest, 7)

    jobs = [threading.Thread(target=point, args=pair) for pair in zip(claims, digests, strict=True)]
    jobs += [threading.Thread(target=end_shard, args=(database, claimed)) for claimed in claims]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(30)
    assert [saved(database, shard_id) for shard_id, _ in claims] == [None] * 10
    pass_time(database, STORED_WITHIN_S + MARGIN_S)
    sweep_discards(database, store)
    assert files(store) == set()


def test_a_store_that_is_away_keeps_its_files_for_a_later_sweep(
    database: Database,
    store: LocalStore,
    claimed: Claimed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_checkpoint(database, store, claimed, b"one")
    end_shard(database, claimed)

    def away(digest: str) -> None:
        raise ConnectionError(digest)

    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", away)
        assert sweep_discards(database, store) == 0
    assert sweep_discards(database, store) == 1
    assert files(store) == set()
