"""Workers of several versions claim, end, stumble, die and write late while audits are cancelled, retried and deleted.

Whatever the order, states follow the table, what a worker was told is stored is stored once, one code measures a check,
and in the end everything has ended.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete, func, select, update

from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.activity import Author
from seatrial.store.claiming import claim_work
from seatrial.store.code_pins import restart_orphans
from seatrial.store.counters import LEASE_EXPIRIES, SHARD_FAILURES, SHARD_SECONDS, SHARDS_REQUEUED, read_counts
from seatrial.store.database import Database, connect, epoch_now
from seatrial.store.deleting import InUseError, delete_one
from seatrial.store.lifecycle import cancel_audit, close_check, close_shard, give_back, open_stage, retry_audit
from seatrial.store.reaping import reap
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, CounterRow, EventRow, ModelRow, ShardRow, StageRow, WorkerRow
from seatrial.store.transitions import RUN_TRANSITIONS, SHARD_TRANSITIONS, release
from tests.databases import migrated, new_migrated_database
from tests.rows import add_audit, add_project
from workers.runtime.stages import cut, make_shards

EXAMPLES, MAX_ATTEMPTS = 30, 3
LIVED = 60.0


@dataclass(frozen=True)
class Held:
    """What a worker believes it holds."""

    table: type[Any]
    row_id: str
    token: str
    code: str


def reachable(transitions: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """Return the states that can follow each one, in any number of steps, itself included."""
    found = {str(state): {str(state)} for state in RunState}
    for _ in RunState:
        for reached in found.values():
            reached |= {str(after) for state in tuple(reached) for after in transitions[RunState(state)]}
    return found


FOLLOWING = {AuditRow: reachable(RUN_TRANSITIONS), CheckRow: reachable(RUN_TRANSITIONS)}
FOLLOWING[ShardRow] = reachable(SHARD_TRANSITIONS)


class Machine(RuleBasedStateMachine):
    """Audits of one project, workers of ever newer code."""

    make_database = staticmethod(lambda home: migrated(Settings(home=home)))
    picks = st.integers(0, 7)

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="seatrial-interleavings-"))
        self.db: Database = self.make_database(self.home)
        self.project = add_project(self.db)
        self.audits: list[str] = []
        self.held: list[Held] = []
        self.states: dict[tuple[type[Any], str], str] = {}
        self.records: dict[str, str] = {}
        """Of each shard, what the last worker brought that was told it is stored."""
        self.told: Counter[str] = Counter()
        self.versions = 0
        self.codes: list[str] = []
        self.upgrade()

    @rule()
    def upgrade(self) -> None:
        """Start workers of the next version beside those that run."""
        self.versions += 1
        self.codes.append(f"code-{self.versions}")
        with self.db.write() as session:
            session.add(WorkerRow(id=self.codes[-1], device="cpu", pid=1, code=self.codes[-1]))

    @precondition(lambda self: len(self.codes) > 1)
    @rule(pick=picks)
    def retire(self, pick: int) -> None:
        """End the workers of one version; what they held expires, and they may still write late."""
        code = self.codes.pop(pick % len(self.codes))
        with self.db.write() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.id == code))
        for held in self.held:
            if held.code == code:
                self._expire(held)
        self.reap()

    @rule(checks=st.integers(1, 2))
    def submit(self, checks: int) -> None:
        self.audits.append(add_audit(self.db, project_id=self.project, checks=checks, samples=EXAMPLES))

    @rule(pick=picks, times=st.integers(1, 3))
    def claim(self, pick: int, times: int) -> None:
        code = self.codes[pick % len(self.codes)]
        for _ in range(times):
            with self.db.write() as session:
                claimed = claim_work(session, lease_s=LIVED, worker="w", code=code)
            if claimed is not None:
                self.held.append(Held(*claimed, code))

    @precondition(lambda self: self.held)
    @rule(pick=picks, end=st.sampled_from(["succeed", "succeed", "succeed", "fail", "stumble", "put_off"]))
    def finish(self, pick: int, end: str) -> None:
        held = self.held.pop(pick % len(self.held))
        is_ours = self._is_held(held)
        if held.table is ShardRow:
            assert self._end_shard(held, end) == is_ours
        else:
            self._advance(held, end)

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def die(self, pick: int) -> None:
        """Let a lease run out; the worker does not know, and may write later."""
        self._expire(self.held[pick % len(self.held)])

    @rule()
    def reap(self) -> None:
        with self.db.read() as session:
            running = session.scalar(self._expired(ShardRow, ShardRow.state == RunState.RUNNING)) or 0
            checks = session.scalar(self._expired(CheckRow, CheckRow.token.is_not(None))) or 0
        # A shard's end may take a check's claim with it, never the other way round.
        taken = reap(self.db, max_attempts=MAX_ATTEMPTS)
        assert running <= taken <= running + checks
        self.told["expiries"] += taken

    @rule(pick=picks)
    def begin_anew(self, pick: int) -> None:
        restart_orphans(self.db, self.codes[pick % len(self.codes)], alive_s=LIVED)

    @precondition(lambda self: self.audits)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        with self.db.write() as session:
            cancel_audit(session, self.audits[pick % len(self.audits)])

    @precondition(lambda self: self.audits)
    @rule(pick=picks, loses=st.booleans())
    def retry(self, pick: int, loses: bool) -> None:
        audit_id = self.audits[pick % len(self.audits)]
        with self.db.write() as session:
            kept = select(ShardRow.id).join(CheckRow).where(CheckRow.audit_id == audit_id)
            succeeded = kept.where(ShardRow.state == RunState.SUCCEEDED, CheckRow.state == RunState.FAILED)
            retry_audit(session, audit_id, lost=session.scalars(succeeded.limit(1)).all() if loses else ())

    @precondition(lambda self: self.audits)
    @rule(pick=picks)
    def delete_audit(self, pick: int) -> None:
        audit_id = self.audits[pick % len(self.audits)]
        with self.db.read() as session:
            has_ended = session.get_one(AuditRow, audit_id).state in TERMINAL
        try:
            with self.db.write() as session:
                delete_one(session, self.project, audit_id, Author("key_1"), cascade=True)
        except InUseError:
            assert not has_ended
        else:
            assert has_ended
            self.audits.remove(audit_id)

    def _expired(self, table: type[Any], *where: Any) -> Any:
        return select(func.count()).select_from(table).where(table.lease_until < epoch_now(), *where)

    def _is_held(self, held: Held) -> bool:
        with self.db.read() as session:
            return session.scalar(select(held.table.token).where(held.table.id == held.row_id)) == held.token

    def _expire(self, held: Held) -> None:
        gone = update(held.table).where(held.table.id == held.row_id, held.table.token == held.token)
        with self.db.write() as session:
            session.execute(gone.values(lease_until=epoch_now() - 1))

    def _end_shard(self, held: Held, end: str) -> bool:
        key = (held.row_id, held.token)
        with self.db.read() as session:
            check = session.scalar(select(CheckRow.state).join(ShardRow).where(ShardRow.id == held.row_id))
        with self.db.write() as session:
            if end in ("stumble", "put_off"):
                # So short that it is over at once: nobody waits in this test.
                done = give_back(session, *key, counts=end == "stumble", put_off_s=1e-6 if end == "put_off" else 0.0)
            elif end == "fail":
                done = close_shard(session, *key, RunState.FAILED, error={"code": "bad-input"})
            else:
                values = {"records_digest": f"{held.code} {held.token}", "code": held.code, "seconds": 1.0}
                done = close_shard(session, *key, RunState.SUCCEEDED, done=10, **values)
        if done:
            # One that is given back while its check is cancelled is cancelled, too.
            is_cancelled = end in ("stumble", "put_off") and check == RunState.CANCELLING
            self.told["cancelled" if is_cancelled else end] += 1
            if end == "succeed":
                self.records[held.row_id] = f"{held.code} {held.token}"
        return done

    def _advance(self, held: Held, end: str) -> None:
        key = (held.row_id, held.token)
        if end in ("stumble", "put_off"):
            with self.db.write() as session:
                release(session, CheckRow, *key)
            return
        with self.db.read() as session:
            check = session.get(CheckRow, held.row_id)
            if check is None:
                return
            states = set(session.scalars(select(ShardRow.state).where(ShardRow.check_id == held.row_id)))
        if not states:
            rows = make_shards(held.row_id, "attack", cut(EXAMPLES, 10, 3))
            opened = {"name": "attack", "source": "sample", "examples": EXAMPLES, "code": held.code}
            with self.db.write() as session:
                open_stage(session, *key, shards=rows, **opened)
            with self.db.write() as session:
                # Refused since another code had begun it: let go, as a worker does.
                release(session, CheckRow, *key)
            return
        with self.db.write() as session:
            close_check(session, *key, RunState.FAILED if RunState.FAILED in states else RunState.SUCCEEDED)

    @invariant()
    def states_follow_the_table(self) -> None:
        with self.db.read() as session:
            now = {
                (table, row_id): state
                for table in FOLLOWING
                for row_id, state in session.execute(select(table.id, table.state))
            }
        for key, state in now.items():
            assert state in FOLLOWING[key[0]][self.states.get(key, RunState.QUEUED)], (key, self.states.get(key), state)
        assert {row_id for table, row_id in now if table is AuditRow} == set(self.audits)
        self.states = now

    @invariant()
    def rows_agree(self) -> None:
        with self.db.read() as session:
            checks = session.scalars(select(CheckRow)).all()
            shards: dict[str, list[ShardRow]] = {check.id: [] for check in checks}
            for shard in session.scalars(select(ShardRow).order_by(ShardRow.start)):
                shards[shard.check_id].append(shard)
            audits = {row.id: row for row in session.scalars(select(AuditRow))}
            events = session.execute(
                select(EventRow.audit_id, func.count(), func.max(EventRow.seq)).group_by("audit_id")
            )
            numbered = [(count, last) for _, count, last in events]
        for check in checks:
            own = shards[check.id]
            assert check.open_shards == sum(shard.state not in TERMINAL for shard in own), check.id
            if check.state in TERMINAL:
                assert check.token is None
                assert check.open_shards == 0
            measured = [shard for shard in own if shard.state == RunState.SUCCEEDED]
            assert len({shard.code for shard in measured}) <= 1, "two codes measured one check"
            for shard in measured:
                assert shard.records_digest == self.records[shard.id]
            if check.state == RunState.SUCCEEDED:
                assert [(shard.start, shard.stop) for shard in measured] == [(0, 10), (10, 20), (20, 30)]
        for audit in audits.values():
            ends = {check.state for check in checks if check.audit_id == audit.id}
            assert (audit.state in TERMINAL) == (ends <= TERMINAL)
            if audit.state == RunState.SUCCEEDED:
                assert ends == {RunState.SUCCEEDED}
        assert all(count == last for count, last in numbered)

    @invariant()
    def what_was_told_is_counted_once(self) -> None:
        with self.db.read() as session:
            counts = read_counts(session)
        died = sum(number for (claim, _), number in counts.get(LEASE_EXPIRIES.name, {}).items())
        assert died == self.told["expiries"]
        ended = counts.get(SHARD_SECONDS.name, {})
        assert sum(number for labels, number in ended.items() if labels[-1] != "sum") == self.told["succeed"]
        again = counts.get(SHARDS_REQUEUED.name, {})
        for reason, end in (("error", "stumble"), ("put_off", "put_off")):
            assert again.get(("uncertainty_span", reason), 0) == self.told[end]
        assert counts.get(SHARD_FAILURES.name, {}).get(("uncertainty_span", "bad-input"), 0) == self.told["fail"]

    def teardown(self) -> None:
        """End what is open with the newest code alone, and look whether all has ended."""
        try:
            while len(self.codes) > 1:
                self.retire(0)
            for held in self.held:
                self._expire(held)
            for _ in range(500):
                self.reap()
                self.begin_anew(0)
                self.claim(0, 1)
                late = self.held
                self.held = [one for one in late if self._is_held(one)]
                if not self.held:
                    break
                self.finish(0, "succeed")
                self.rows_agree()
            self.states_follow_the_table()
            self.rows_agree()
            self.what_was_told_is_counted_once()
            assert all(state in TERMINAL for state in self.states.values()), self.states
        finally:
            self.db.dispose()
            shutil.rmtree(self.home)


def test_any_interleaving_ends_with_nothing_lost_or_doubled() -> None:
    few = settings(max_examples=4, stateful_step_count=20, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Machine, settings=few)


@pytest.mark.drill
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_interleavings(kind: str, request: pytest.FixtureRequest) -> None:
    many = settings(max_examples=40, stateful_step_count=40, suppress_health_check=list(HealthCheck))
    if kind == "sqlite":
        run_state_machine_as_test(Machine, settings=many)
        return
    with new_migrated_database(request.getfixturevalue("postgres_url")) as url:

        class OnPostgres(Machine):
            make_database = staticmethod(lambda home: emptied(Settings(home=home, database_url=url)))

        run_state_machine_as_test(OnPostgres, settings=many)


def emptied(opened: Settings) -> Database:
    db = connect(opened)
    with db.write() as session:
        for table in (AuditRow, ModelRow, StageRow, WorkerRow, CounterRow):
            session.execute(delete(table))
    return db
