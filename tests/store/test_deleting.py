"""What is deleted is gone whole, what runs stays, and no file goes that a row names: whatever is killed when."""

import hashlib
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from sqlalchemy import delete, func, select, update

from seatrial.contracts.states import TERMINAL, ModelState, RunState
from seatrial.store.activity import Author
from seatrial.store.artifacts import LocalStore, digest_of_bytes
from seatrial.store.claiming import claim_work
from seatrial.store.database import Database, connect, epoch_now
from seatrial.store.deleting import InUseError, NotThereError, delete_one
from seatrial.store.ids import new_id
from seatrial.store.lifecycle import cancel_audit, close_check, close_shard, list_records, open_stage, retry_audit
from seatrial.store.reaping import reap
from seatrial.store.releasing import find_named, lock_digest, sweep_released, sweep_unnamed
from seatrial.store.settings import Settings
from seatrial.store.tables import (
    ActivityRow,
    AuditRow,
    BaselineRow,
    CheckRow,
    DatasetRow,
    DiscardRow,
    EventRow,
    ModelRow,
    ReleaseRow,
    ShardRow,
    StageRow,
    TagRow,
    TombstoneRow,
)
from seatrial.store.transitions import move
from tests.databases import migrated, new_migrated_database
from tests.rows import FACTS, add_project
from tests.servers import Process, eventually
from workers.runtime.stages import cut, make_shards

AUTHOR = Author("key_1")
TABLES: dict[str, Any] = {"mdl": ModelRow, "dat": DatasetRow, "aud": AuditRow}


class Killed(BaseException):
    """What a process feels of SIGKILL."""


class Deadly(LocalStore):
    """Kills whoever deletes, before or after the file went."""

    kill: str | None = None

    def delete_older(self, digest: str, age_s: float) -> int | None:
        if self.kill == "before":
            raise Killed
        size = super().delete_older(digest, age_s)
        if self.kill == "after":
            raise Killed
        return size


def upload(db: Database, store: LocalStore, project: str, table: type[Any], content: bytes) -> str:
    """Store a file and its row as :mod:`app.web.committing` does, and return the row's id."""
    digest = digest_of_bytes(content)
    prefix = "mdl" if table is ModelRow else "dat"
    common: dict[str, Any] = {
        "project_id": project,
        "name": new_id("n"),
        "version": "1",
        "task": "image-classification",
    }
    common |= {"manifest": {}, "digest": digest, "size_bytes": len(content)}
    own: dict[str, Any] = (
        {"format": "safetensors"} if table is ModelRow else {"format": "npz", "split": "test", "facts": FACTS}
    )
    row = table(id=new_id(prefix), **common, **own)
    path = store.staging() / new_id("tmp")
    path.write_bytes(content)
    store.prepare(path, digest)
    with db.write() as session:
        lock_digest(session, digest)
        session.add(row)
        session.flush()
        store.put_file(path, digest)
    return str(row.id)


def submit(db: Database, project: str, model: str, dataset: str, further: str | None = None, **audit: Any) -> str:
    """Queue an audit of one check."""
    params = {"kind": "uncertainty_span", "surrogate": further}
    spec = {"batch_size": 10, "shards": None, "max_error_rate": 0.05, "samples": 100, "checks": [params]}
    row = AuditRow(
        **{"id": new_id("aud"), "project_id": project, "model_id": model, "dataset_id": dataset, "seed": 0},
        **{"samples": 100, "spec": spec, "spec_digest": "sha256:" + "0" * 64, **audit},
    )
    with db.write() as session:
        session.add(row)
        session.flush()
        session.add(CheckRow(id=new_id("chk"), audit_id=row.id, ordinal=0, kind="uncertainty_span", params=params))
    return row.id


def work(db: Database, store: LocalStore, content: bytes = b"", *, dies: bool = False, fails: bool = False) -> bool:
    """Claim one thing and do it as a worker does, or die with it in hand."""
    with db.write() as session:
        claimed = claim_work(session, lease_s=3600, worker="w")
    if claimed is None:
        return False
    table, row_id, token = claimed
    if dies:
        with db.write() as session:
            session.execute(update(table).where(table.id == row_id).values(lease_until=epoch_now() - 1))
        reap(db, max_attempts=3)
        return True
    if table is ModelRow:
        with db.write() as session:
            move(session, ModelRow, ModelState.READY, ModelRow.id == row_id, token=None, lease_until=None, facts={})
    elif table is CheckRow:
        with db.read() as session:
            stages = session.scalar(select(func.count()).select_from(StageRow).where(StageRow.check_id == row_id))
        figure = store.put_bytes(b"<svg>" + content) if stages else ""
        with db.write() as session:
            if not stages:
                rows = make_shards(row_id, "attack", cut(20, 10, 2))
                open_stage(session, row_id, token, name="attack", source="sample", examples=20, shards=rows)
            else:
                shards = session.scalars(select(ShardRow.state).where(ShardRow.check_id == row_id)).all()
                end = RunState.FAILED if RunState.FAILED in shards else RunState.SUCCEEDED
                close_check(session, row_id, token, end, figures={"span": figure})
    elif fails:
        with db.write() as session:
            close_shard(session, row_id, token, RunState.FAILED, error={})
    else:
        digest = store.put_bytes(content)
        with db.write() as session:
            close_shard(session, row_id, token, RunState.SUCCEEDED, records_digest=digest, done=10)
    return True


def assert_consistent(db: Database, store: LocalStore) -> None:
    """Assert that what rows name is there, that nothing hangs in the air, and that tombstones are of the dead."""
    with db.read() as session:
        named = set(session.scalars(select(ModelRow.digest))) | set(session.scalars(select(DatasetRow.digest)))
        named |= set(session.scalars(select(ShardRow.records_digest).where(ShardRow.records_digest.is_not(None))))
        for figures in session.scalars(select(CheckRow.figures).where(CheckRow.figures.is_not(None))):
            named |= set(figures.values())
        alive = {row_id for table in TABLES.values() for row_id in session.scalars(select(table.id))}
        dead = set(session.scalars(select(TombstoneRow.subject)))
        for table, column, of in (
            (CheckRow, CheckRow.audit_id, AuditRow.id),
            (EventRow, EventRow.audit_id, AuditRow.id),
            (BaselineRow, BaselineRow.audit_id, AuditRow.id),
            (StageRow, StageRow.check_id, CheckRow.id),
            (ShardRow, ShardRow.check_id, CheckRow.id),
        ):
            hanging = select(func.count()).select_from(table).where(column.not_in(select(of)))
            assert session.scalar(hanging) == 0, table
        assert set(session.scalars(select(TagRow.subject_id))) <= alive
        for model_id, dataset_id in session.execute(select(AuditRow.model_id, AuditRow.dataset_id)):
            assert {model_id, dataset_id} <= alive
        for params in session.scalars(select(CheckRow.params)):
            assert params["surrogate"] is None or params["surrogate"] in alive
    for digest in named:
        store.verify(digest)
    assert not alive & dead


class Machine(RuleBasedStateMachine):
    """Uploads, audits, workers, kills and deletions in any order."""

    uploads = Bundle("uploads")
    audits = Bundle("audits")
    contents = st.sampled_from([b"a", b"b", b"c"])
    make_database = staticmethod(lambda home: migrated(Settings(home=home)))

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="seatrial-deleting-"))
        self.db = self.make_database(self.home)
        self.store = Deadly(self.home / "artifacts")
        self.project = add_project(self.db)
        self.made: set[str] = set()
        self.deleted: set[str] = set()

    def teardown(self) -> None:
        while work(self.db, self.store, b"a"):
            pass
        assert_consistent(self.db, self.store)
        # Every file has an owner in the end, and what was deleted none.
        self.store.kill = None
        while sweep_released(self.db, self.store, kept_s=0).files:
            pass
        list(sweep_unnamed(self.db, self.store, kept_s=0))
        assert_consistent(self.db, self.store)
        with self.db.read() as session:
            left = set(self.store.digests())
            assert find_named(session, left) == left
            assert session.scalar(select(func.count()).select_from(ReleaseRow)) == 0
        self.db.dispose()
        shutil.rmtree(self.home)

    @rule(target=uploads, table=st.sampled_from([ModelRow, DatasetRow]), content=contents)
    def upload(self, table: type[Any], content: bytes) -> str:
        made = upload(self.db, self.store, self.project, table, content)
        self.made.add(made)
        return made

    @rule(target=audits, some=st.lists(uploads, min_size=2, max_size=4), content=contents)
    def submit(self, some: list[str], content: bytes) -> Any:
        there = [one for one in dict.fromkeys(some) if one not in self.deleted]
        models = [one for one in there if one.startswith("mdl")]
        datasets = [one for one in there if one.startswith("dat")]
        if not (models and datasets):
            return multiple()
        audit = submit(self.db, self.project, models[0], datasets[0], models[1] if len(models) > 1 else None)
        self.made.add(audit)
        return audit

    @rule(content=contents, dies=st.booleans(), fails=st.booleans())
    def work(self, content: bytes, dies: bool, fails: bool) -> None:
        work(self.db, self.store, content, dies=dies, fails=fails)

    @rule()
    def work_much(self) -> None:
        for _ in range(6):
            work(self.db, self.store, b"a")

    @rule(audit=audits)
    def cancel(self, audit: str) -> None:
        with self.db.write() as session:
            cancel_audit(session, audit)

    @rule(audit=audits)
    def retry(self, audit: str) -> None:
        with self.db.write() as session:
            lost = [shard for shard, _ in list_records(session, audit)]
            retry_audit(session, audit, lost=lost)

    @rule(audit=audits)
    def promote(self, audit: str) -> None:
        if audit not in self.deleted:
            with self.db.write() as session:
                row = {"project_id": self.project, "model_name": "m", "name": "champion", "note": ""}
                session.add(BaselineRow(id=new_id("bas"), audit_id=audit, **row))
                session.add(TagRow(subject_id=audit, tag=new_id("t"), project_id=self.project))

    @rule(subject=st.one_of(uploads, audits), cascade=st.booleans(), is_killed=st.booleans())
    def delete(self, subject: str, cascade: bool, is_killed: bool) -> None:
        with self.db.read() as session:
            running = set(session.scalars(select(AuditRow.id).where(AuditRow.state.not_in(TERMINAL))))
        try:
            with self.db.write() as session:
                gone = {one.subject for one in delete_one(session, self.project, subject, AUTHOR, cascade=cascade)}
                if is_killed:
                    raise Killed
        except NotThereError:
            assert subject in self.deleted
        except InUseError:
            assert subject not in self.deleted
        except Killed:
            pass
        else:
            assert subject in gone
            assert not gone & running
            self.deleted |= gone

    @rule(kill=st.sampled_from([None, None, "before", "after"]))
    def sweep(self, kill: str | None) -> None:
        self.store.kill = kill
        try:
            sweep_released(self.db, self.store, kept_s=0)
        except Killed:
            pass
        finally:
            self.store.kill = None

    @invariant()
    def nothing_is_lost(self) -> None:
        assert_consistent(self.db, self.store)
        with self.db.read() as session:
            alive = {row_id for table in TABLES.values() for row_id in session.scalars(select(table.id))}
            assert alive == self.made - self.deleted
            assert set(session.scalars(select(TombstoneRow.subject))) == self.deleted


def test_any_order_of_claims_kills_deletes_and_retries_loses_nothing() -> None:
    # As many as `make test` has seconds for; the drill below searches.
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=6, stateful_step_count=30, suppress_health_check=list(HealthCheck))
    )


@pytest.mark.drill
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_orders_lose_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    made: type[Machine] = Machine
    if kind == "postgres":
        server = request.getfixturevalue("postgres_url")
        with new_migrated_database(server) as url:

            class OnPostgres(Machine):
                make_database = staticmethod(lambda home: _emptied(Settings(home=home, database_url=url)))

            _search(OnPostgres)
        return
    _search(made)


def _search(machine: type[Machine]) -> None:
    found = settings(max_examples=150, stateful_step_count=50, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=found)


def _emptied(opened: Settings) -> Database:
    db = connect(opened)
    with db.write() as session:
        for table in (AuditRow, ModelRow, DatasetRow, TombstoneRow, ReleaseRow, DiscardRow, TagRow, ActivityRow):
            session.execute(delete(table))
    return db


CONTENTS = [hashlib.sha256(bytes([number])).digest() for number in range(4)]


def test_two_processes_that_delete_and_are_killed_leave_nothing_half_deleted(
    database: Database,
    tmp_path: Path,
) -> None:
    store, project = LocalStore(tmp_path / "artifacts"), add_project(database)
    dataset = upload(database, store, project, DatasetRow, b"data")
    models, kept = [], []
    for number in range(8):
        content = CONTENTS[number % len(CONTENTS)]
        models.append(upload(database, store, project, ModelRow, content))
        submit(database, project, models[-1], dataset)
        if number < 3:
            kept.append(upload(database, store, project, ModelRow, content))
    while work(database, store, b"records"):
        pass
    url = "" if database.is_sqlite else database.engine.url.render_as_string(hide_password=False)
    arguments = ["-m", "tests.store.deleter", str(tmp_path), url, project, *models]
    for seconds in (random.Random(0).uniform(0.01, 0.1), None):
        both = [Process(arguments, {}, tmp_path / f"{seconds}-{number}.log") for number in range(2)]
        eventually(lambda both=both: all(one.log.read_text() == "ready\n" for one in both), every_s=0.005)
        if seconds is not None:
            time.sleep(seconds)
            for one in both:
                one.signal(signal.SIGKILL)
        ends = [one.wait(60) for one in both]
        assert_consistent(database, store)
    assert ends == [0, 0]
    with database.read() as session:
        assert set(session.scalars(select(ModelRow.id))) == set(kept)
        assert session.scalar(select(func.count()).select_from(AuditRow)) == 0
        assert session.scalar(select(func.count()).select_from(TombstoneRow)) == 16
        # Each was deleted once, whoever tried.
        assert session.scalar(select(func.count()).select_from(ActivityRow)) == 8
    assert set(store.digests()) == {digest_of_bytes(content) for content in (*CONTENTS[:3], b"data")}
