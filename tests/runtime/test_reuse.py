"""Records are taken over from an identical check of the same project that succeeded, and from nothing else."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from seatrial.contracts.states import RunState
from seatrial.store.activity import Author
from seatrial.store.code_pins import restart_orphans
from seatrial.store.database import Database
from seatrial.store.deleting import delete_one
from seatrial.store.lifecycle import cancel_audit
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ShardRow
from tests.rows import add_project
from tests.runtime.bench import AuditBench, flip_bits
from tests.runtime.test_looks import HOPELESS, QUICK, policy
from workers.runtime import code, measuring, reuse
from workers.runtime.inline import InlineExecutor


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


@pytest.fixture
def bench(db: Database, settings: Settings) -> AuditBench:
    return AuditBench(db, settings)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards that are measured from here on."""
    found: list[str] = []
    run = InlineExecutor.run

    def told(self: InlineExecutor, job: Any, holder: Any) -> Any:
        found.append(job.shard_id)
        return run(self, job, holder)

    monkeypatch.setattr(InlineExecutor, "run", told)
    return found


def run(bench: AuditBench, **asked: Any) -> str:
    audit_id = bench.submit(params=asked.pop("params", QUICK), **asked)
    bench.worker().drain()
    assert bench.audit(audit_id).state == RunState.SUCCEEDED
    return audit_id


def records_of(bench: AuditBench, audit_id: str) -> list[tuple[str, int, str | None]]:
    return sorted((one.stage, one.ordinal, one.records_digest) for one in bench.shards(audit_id))


def change(bench: AuditBench, table: Any, *where: Any, **values: Any) -> None:
    with bench.db.write() as session:
        session.execute(update(table).where(*where).values(**values))


def test_an_identical_check_is_not_measured_again(bench: AuditBench, measured: list[str]) -> None:
    first = run(bench)
    assert measured
    # Its numbers are nothing to be taken over: whoever writes into a database changes no verdict of later audits.
    honest = bench.check(first).result
    change(bench, CheckRow, CheckRow.audit_id == first, result={"estimates": {}, "flags": [], "counts": {}})
    measured.clear()
    second = run(bench, reuse=True)
    assert measured == []
    check, source = bench.check(second), bench.check(first)
    assert records_of(bench, second) == records_of(bench, first)
    assert check.result == honest
    assert check.figures == source.figures
    assert source.finished_at is not None
    assert check.reused == {
        "audit": first,
        "check": source.id,
        "measured_at": source.finished_at.isoformat().replace("+00:00", "Z"),
    }
    assert sum(shard.seconds or 0.0 for shard in bench.shards(second)) == 0.0
    # Without being asked, nothing is taken over.
    run(bench)
    assert measured


Undo = Callable[[], None]


def lose(bench: AuditBench, audit_id: str) -> Undo:
    path = bench.stored(bench.shards(audit_id)[-1].records_digest)
    aside = path.rename(path.with_suffix(".aside"))
    return lambda: aside.rename(path) and None


def fail(bench: AuditBench, audit_id: str) -> Undo:
    change(bench, AuditRow, AuditRow.id == audit_id, state=RunState.FAILED)
    return lambda: change(bench, AuditRow, AuditRow.id == audit_id, state=RunState.SUCCEEDED)


def move_to_another_project(bench: AuditBench, audit_id: str) -> Undo:
    change(bench, AuditRow, AuditRow.id == audit_id, project_id=add_project(bench.db))
    return lambda: change(bench, AuditRow, AuditRow.id == audit_id, project_id=bench.project)


def measure_elsewhere(bench: AuditBench, audit_id: str) -> Undo:
    shard = bench.shards(audit_id)[-1]
    change(bench, ShardRow, ShardRow.id == shard.id, hardware="another processor, 1 threads")
    return lambda: change(bench, ShardRow, ShardRow.id == shard.id, hardware=shard.hardware)


def begun(bench: AuditBench, **asked: Any) -> CheckRow:
    """Return the check of an audit that would rather not be measured, as it stands once a worker has taken it up."""
    audit_id = bench.submit(params=asked.pop("params", QUICK), reuse=True, **asked)
    assert bench.worker().step()
    check = bench.check(audit_id)
    with bench.db.write() as session:
        # What goes on comes before what is new.
        cancel_audit(session, audit_id)
    return check


def test_damaged_records_are_measured_again(bench: AuditBench) -> None:
    first = run(bench)
    before = records_of(bench, first)
    flip_bits(bench.stored(next(one.records_digest for one in bench.shards(first) if one.stage == "attack")))
    second = run(bench, reuse=True)
    assert bench.check(second).reused is None
    assert records_of(bench, second) == before


def test_what_cannot_be_relied_on_is_left_alone(bench: AuditBench) -> None:
    first = run(bench)
    for spoil in (lose, fail, move_to_another_project, measure_elsewhere):
        undo = spoil(bench, first)
        assert begun(bench).stage == "preflight", spoil
        undo()
        assert begun(bench).reused is not None, spoil
    with bench.db.write() as session:
        delete_one(session, bench.project, first, Author("somebody"), cascade=True)
    # Those that took them over still name the files, but measured nothing.
    assert begun(bench).stage == "preflight"


def test_another_code_or_question_is_measured(bench: AuditBench, monkeypatch: pytest.MonkeyPatch) -> None:
    run(bench)
    for asked in ({"seed": 1}, {"samples": 19}, {"batch_size": 4}, {"params": {**QUICK, "steps": 3}}):
        assert begun(bench, **asked).stage == "preflight", asked
    assert begun(bench).reused is not None
    for module in (measuring, reuse):
        monkeypatch.setattr(module, "code_version", lambda: "a plug-in was changed")
    assert begun(bench).stage == "preflight"


def test_looks_are_taken_over_under_the_policy_that_decided_and_no_other(
    db: Database, settings: Settings, measured: list[str]
) -> None:
    bench = AuditBench(db, settings, examples=120)
    asked = {"samples": 100, "stop": "decided", "policy": policy(HOPELESS), "deciding": ["decided", "d"]}
    first = run(bench, **asked)
    measured.clear()
    second = run(bench, reuse=True, **asked)
    assert measured == []
    assert bench.check(second).result == bench.check(first).result
    assert bench.check(second).looks == bench.check(first).looks
    assert begun(bench, **{**asked, "deciding": ["decided", "another policy"]}).stage == "preflight"


def test_what_was_taken_over_begins_anew_with_another_code(bench: AuditBench) -> None:
    run(bench)
    audit_id = bench.submit(params=QUICK, reuse=True)
    assert bench.worker().step()
    assert bench.check(audit_id).reused is not None
    change(bench, AuditRow, AuditRow.id == audit_id, code="nobody runs it")
    assert restart_orphans(bench.db, "new", alive_s=1) == 1
    again = bench.check(audit_id)
    assert (again.reused, again.stage, bench.shards(audit_id)) == (None, None, [])


def test_sources_of_a_plug_in_are_part_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An installation that can be edited keeps its version whatever is changed.
    folder = tmp_path / "plugged"
    folder.mkdir()
    source = folder / "__init__.py"
    source.write_text("SPEC = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("plugged", "plugged:SPEC", "seatrial.families")
    others = code.entry_points

    class Groups:
        groups = frozenset({"seatrial.families"})

    monkeypatch.setattr(code, "entry_points", lambda group=None: (point, *others(group=group)) if group else Groups())
    version = code.code_version.__wrapped__
    before = version()
    assert version() == before
    source.write_text("SPEC = 2")
    assert version() != before
    assert "plugged" not in sys.modules
