"""Models run in child processes: what they do wrong costs their own check, and nobody else waits."""

import ast
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from seatrial.contracts.states import ModelState
from seatrial.sandbox import confinement
from seatrial.sandbox.channel import Message
from seatrial.store.artifacts import LocalStore, digest_of_bytes
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from seatrial.store.transitions import move
from tests import assets
from tests.databases import migrated
from tests.nursery import zygotes_forked
from tests.rows import add_project
from tests.runtime.inline import InlineWorker
from tests.sandbox.test_launcher import is_running
from tests.servers import eventually
from workers.errors import AccidentError
from workers.runtime import checking, limits, sandboxed
from workers.runtime.jobs import ModelJob
from workers.runtime.sandboxed import SandboxedExecutor
from workers.runtime.worker import Worker

MIB = 2**20


class Bench:
    """A worker with its database, and the processes its models were run in."""

    def __init__(self, home: Path) -> None:
        self.log = home / "pids"
        self.settings = Settings(
            home=home,
            device="cpu",
            torch_threads=1,
            lease_s=2,
            heartbeat_s=0.1,
            check_memory_bytes=512 * MIB,
            # For the log of processes, which the models write.
            confine=False,
        )
        self.db = migrated(self.settings)
        self.store = LocalStore(home / "artifacts")
        self.executor = SandboxedExecutor(self.store, self.settings)
        self.worker = Worker(self.db, self.store, self.settings, executor=self.executor)
        self.project = add_project(self.db)

    def add(self, name: str, **manifest: Any) -> str:
        return add_model(self.db, self.store, self.project, name, **manifest)

    def read(self, model_id: str) -> ModelRow:
        with self.db.read() as session:
            return session.get_one(ModelRow, model_id)

    def pids(self) -> list[int]:
        return [int(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def code_of(self, name: str) -> str:
        """Check a model that is refused and return why; the next model is checked as if nothing had been."""
        model_id = self.add(name)
        self.worker.drain()
        row = self.read(model_id)
        assert row.state == ModelState.REJECTED
        assert row.problem is not None
        assert not is_running(self.pids()[-1])
        honest = self.add("honest")
        assert self.worker.drain() == 1
        assert self.read(honest).state == ModelState.READY
        return str(row.problem["code"])


def add_model(db: Database, store: LocalStore, project: str, name: str, **manifest: Any) -> str:
    data = assets.weights()
    row = ModelRow(
        id=new_id("mdl"),
        project_id=project,
        name=name,
        version=new_id("v"),
        task="image-classification",
        manifest=assets.model_manifest(name=name, **manifest),
        digest=store.put_bytes(data),
        size_bytes=len(data),
        format="safetensors",
    )
    with db.write() as session:
        session.add(row)
    return row.id


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    home = tmp_path_factory.mktemp("bench")
    before = list(sandboxed.PREPARE)
    sandboxed.PREPARE.append(["tests.runtime.hostile:install", str(home / "pids")])
    with zygotes_forked():
        made = Bench(home)
        yield made
        sandboxed.PREPARE[:] = before
        made.worker.leave()
        made.db.dispose()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "AGAIN_S", 0.0)


def test_a_child_measures_what_this_process_would(bench: Bench, tmp_path: Path) -> None:
    model_id = bench.add("honest")
    bench.worker.drain()
    settings = bench.settings.model_copy(update={"home": tmp_path})
    db = migrated(settings)
    inline = InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)
    same = add_model(db, inline.store, add_project(db), "honest")
    inline.drain()
    with db.read() as session:
        expected = session.get_one(ModelRow, same).facts
    db.dispose()
    found = bench.read(model_id).facts
    assert found is not None
    assert expected is not None
    timed = {"forward_s", "backward_s", "memory_bytes_per_example"}
    assert {name: value for name, value in found.items() if name not in timed} == {
        name: value for name, value in expected.items() if name not in timed
    }


def test_a_process_is_kept_for_its_own_model_only(bench: Bench) -> None:
    first, second = (bench.read(bench.add("honest")) for _ in range(2))
    holder = _Holder()
    for row in (first, first, second, first):
        bench.executor.check(ModelJob(row), holder)
    # What they wait for in the queue is done by nobody else.
    bench.worker.drain()
    pids = bench.pids()[-6:-2]
    assert pids[0] == pids[1]
    assert len(set(pids)) == 3


def test_memory_that_earlier_jobs_used_up_is_not_the_next_ones_fault(bench: Bench) -> None:
    model_id = bench.add("fills")
    bench.worker.drain()
    row = bench.read(model_id)
    bench.executor.check(ModelJob(row), _Holder())
    # In the same process, where it ran out of memory, and in a new one.
    first, second, third = bench.pids()[-3:]
    assert first == second != third
    assert not is_running(first)


class _Holder:
    row_id = "mdl_test"

    def check_cancelled(self) -> None:
        pass

    def delete_checkpoint(self, store: LocalStore, digest: str) -> None:
        store.delete(digest)


@pytest.mark.drill
def test_a_check_without_an_end_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = bench.settings.model_copy(update={"check_deadline_s": 5.0})
    monkeypatch.setattr(bench.executor, "_settings", hurried)
    assert bench.code_of("sleeps") == "check-timed-out"


def test_a_check_that_takes_all_memory_is_refused(bench: Bench) -> None:
    assert bench.code_of("grows") == "out-of-memory"


def test_a_crash_is_the_models_fault_and_not_tried_again(bench: Bench) -> None:
    before = len(bench.pids())
    assert bench.code_of("aborts") == "check-crashed"
    assert len(bench.pids()) == before + 2


def test_a_librarys_panic_is_caught_and_its_words_are_the_operators(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    model_id = bench.add("panics")
    with caplog.at_level(logging.WARNING):
        assert bench.worker.drain() == 3
    # What a fault nobody foresaw left behind does not meet the next attempt.
    assert len(set(bench.pids()[-3:])) == 3
    problem = bench.read(model_id).problem
    assert problem is not None
    assert problem["code"] == "unexpected-error"
    assert "PanicException" in problem["detail"]
    assert "the contents" not in problem["detail"]
    reference = problem["detail"].partition("reference ")[2].partition(")")[0]
    assert len(reference) == 8
    assert reference in caplog.text
    assert "the contents of a file" in caplog.text


@pytest.mark.slow
def test_a_child_knows_no_address_and_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEATRIAL_BOOTSTRAP_KEY", "k" * 40)
    monkeypatch.setattr(
        sandboxed, "PREPARE", [*sandboxed.PREPARE, ["tests.runtime.hostile:install", str(tmp_path / "p")]]
    )
    settings = Settings(
        home=tmp_path,
        device="cpu",
        database_url="postgresql://seatrial:pppppppp@db/x",
        broker_url="redis://:qqqqqqqq@broker/0",
        endpoint_secrets={"TOKEN": {"host": "models.example.com", "value": "ssssssss"}},  # type: ignore[dict-item]
    )
    store = LocalStore(tmp_path / "artifacts")
    local = migrated(Settings(home=tmp_path))
    with local.read() as session:
        row = session.get_one(ModelRow, add_model(local, store, add_project(local), "tells"))
    local.dispose()
    executor = SandboxedExecutor(store, settings)
    executor.device()
    told: list[str] = []
    monkeypatch.setattr(sandboxed.log, "error", lambda *words: told.append(str(words)))
    with pytest.raises(AccidentError):
        executor.check(ModelJob(row), _Holder())  # type: ignore[arg-type]
    executor.close()
    assert "SEATRIAL_" not in told[0]
    assert "PATH" in told[0]
    assert not any(secret in told[0] for secret in ("kkkkkkkk", "pppppppp", "qqqqqqqq", "ssssssss"))


@pytest.mark.slow
@pytest.mark.skipif(not confinement.version(), reason="the kernel offers no Landlock")
def test_a_model_reaches_the_files_it_was_given_and_nothing_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    row = bench.read(bench.add("reaches"))
    told: list[str] = []
    monkeypatch.setattr(sandboxed.log, "error", lambda *words: told.append(words[-1]))
    executor = SandboxedExecutor(bench.store, bench.settings.model_copy(update={"confine": True}))
    executor.device()
    with pytest.raises(AccidentError):
        executor.check(ModelJob(row), _Holder())  # type: ignore[arg-type]
    executor.close()
    assert ast.literal_eval(told[0]) == {
        **dict.fromkeys(("given", "scratch"), "done"),
        **dict.fromkeys(("database", "parent", "shadow", "overwrite", "write", "connect", "signal"), "PermissionError"),
        "stored": "nothing",
    }
    assert digest_of_bytes(bench.store.local_path(row.digest).read_bytes()) == row.digest
    with bench.db.write() as session:
        move(session, ModelRow, ModelState.REJECTED, ModelRow.id == row.id)


def test_a_cancelled_check_is_ended_and_stays_cancelled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody waits for what it might still store.
    monkeypatch.setattr(limits, "STOP_S", 60.0)
    monkeypatch.setattr(limits, "CANCEL_S", 0.3)
    before = len(bench.pids())
    model_id = bench.add("sleeps")
    working = threading.Thread(target=bench.worker.drain)
    working.start()
    eventually(lambda: len(bench.pids()) > before)
    with bench.db.write() as session:
        problem = {"code": "check-cancelled", "title": "cancelled", "detail": "for the test", "field": None}
        end = {"problem": problem, "token": None, "lease_until": None}
        assert move(session, ModelRow, ModelState.REJECTED, ModelRow.id == model_id, **end)
    working.join(30)
    assert not working.is_alive()
    assert not is_running(bench.pids()[-1])
    assert bench.read(model_id).problem == problem


def test_a_stopping_worker_gives_the_check_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    monkeypatch.setattr(bench.worker, "_is_stopping", stopping.is_set)
    monkeypatch.setattr(limits, "STOP_S", 0.3)
    before = len(bench.pids())
    model_id = bench.add("sleeps")
    working = threading.Thread(target=bench.worker.drain)
    working.start()
    eventually(lambda: len(bench.pids()) > before)
    stopping.set()
    working.join(30)
    row = bench.read(model_id)
    assert (row.state, row.token, row.attempts) == (ModelState.CHECKING, None, 0)
    with bench.db.write() as session:
        move(session, ModelRow, ModelState.REJECTED, ModelRow.id == model_id)


def test_what_a_child_writes_for_a_while_goes_with_it(bench: Bench) -> None:
    bench.add("honest")
    bench.worker.drain()
    assert [path.name for path in bench.executor._scratch.path.rglob("left")] == ["left"]
    bench.executor.forget()
    assert list(bench.executor._scratch.path.rglob("left")) == []


@pytest.mark.slow
def test_a_child_reads_and_deletes_the_files_of_its_job_and_no_others(bench: Bench) -> None:
    with bench.db.read() as session:
        row = session.scalars(select(ModelRow).limit(1)).one()
    other = bench.store.put_bytes(b"of another project")
    job, mine = ModelJob(row), bench.store.put_bytes(b"a checkpoint of the job's")

    def answer(name: str, digest: str, payload: bytes = b"") -> dict[str, Any]:
        message = Message({"call": name, "arguments": [digest]}, payload)
        return bench.executor._answer(message, job, _Holder(), {mine})[0]  # type: ignore[arg-type]

    assert "value" in answer("local_path", row.digest)
    assert "missing" in answer("local_path", other)
    assert "missing" in answer("read_passing", other)
    assert "missing" in answer("local_path", digest_of_bytes(b"nothing"))
    for digest in (row.digest, other):
        assert "missing" in answer("delete_checkpoint", digest)
        assert "store" in answer("put_passing", digest, b"other weights")
        assert digest_of_bytes(bench.store.local_path(digest).read_bytes()) == digest
    assert "store" in answer("put_passing", mine, b"other bytes")
    assert answer("put_passing", mine, b"a checkpoint of the job's") == {}
    assert answer("delete_checkpoint", mine) == {}
