"""Children are forked within limits, without secrets, and leave nothing behind however they end."""

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.sandbox import scratch
from seatrial.sandbox.launcher import (
    Child,
    ChildDiedError,
    DeadlineError,
    LaunchError,
    MemoryExceededError,
    Zygote,
    minimal_environment,
)
from seatrial.sandbox.scratch import Scratch, sweep
from tests.servers import eventually

ENTRY = "tests.sandbox.children:answer"
MIB = 2**20


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    started = Zygote([["tests.sandbox.children:prepare", "first"]])
    yield started
    started.close()


@pytest.fixture
def child(zygote: Zygote) -> Iterator[Child]:
    forked = zygote.fork(ENTRY)
    yield forked
    forked.close()


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_child_inherits_no_variable_of_the_service(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEATRIAL_BOOTSTRAP_KEY", "SEATRIAL_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "POSTGRES_PASSWORD"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in minimal_environment().values()
    fresh = Zygote()
    child = fresh.fork(ENTRY)
    child.channel.send({"ask": "environment"})
    told = child.receive().header
    inherited = Path(f"/proc/{told['pid']}/environ").read_bytes()
    child.close()
    fresh.close()
    assert "secret" not in told["environment"].values()
    assert b"secret" not in inherited
    assert told["environment"]["HF_HUB_OFFLINE"] == "1"


def test_what_the_zygote_prepares_its_children_have(zygote: Zygote) -> None:
    child = zygote.fork(ENTRY, prepare=[["tests.sandbox.children:prepare", "second"]])
    child.channel.send({"ask": "environment"})
    assert child.receive().header["prepared"][-2:] == ["first", "second"]
    child.close()


@pytest.mark.skipif(sys.platform != "linux", reason="of the Linux kernel")
def test_the_kernel_takes_a_child_before_its_parent(child: Child) -> None:
    child.channel.send({"ask": "environment"})
    child.receive()
    mine, its = (int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in ("self", child.pid))
    assert its >= 500 > mine


def test_bytes_go_both_ways(child: Child) -> None:
    payload = os.urandom(3 * MIB)
    child.channel.send({"ask": "echo"}, payload)
    assert child.receive().payload == payload


def test_a_child_holds_nothing_of_its_zygote_or_its_siblings(zygote: Zygote, child: Child) -> None:
    sibling = zygote.fork(ENTRY)
    sibling.channel.send({"ask": "descriptors"})
    sockets = [name for name in sibling.receive().header["open"] if name.startswith("socket:")]
    sibling.close()
    assert len(sockets) == 1


def test_memory_beyond_the_limit_is_refused_and_below_it_is_not(child: Child) -> None:
    child.limit_memory(64 * MIB)
    child.channel.send({"ask": "allocate", "bytes": 16 * MIB})
    assert child.receive().header == {"allocated": 16 * MIB}
    child.channel.send({"ask": "allocate", "bytes": 128 * MIB})
    assert child.receive().header == {"refused": True}
    child.limit_memory(None)
    child.channel.send({"ask": "allocate", "bytes": 128 * MIB})
    assert child.receive().header == {"allocated": 128 * MIB}


def test_a_child_that_grows_is_ended(child: Child) -> None:
    child.channel.send({"ask": "grow"})
    with pytest.raises(MemoryExceededError):
        child.receive(memory_bytes=child.base_bytes + 64 * MIB, wake_s=0.02)
    assert child.close() == -signal.SIGKILL


def test_a_child_that_takes_too_long_is_ended(child: Child) -> None:
    child.channel.send({"ask": "sleep"})
    end = time.monotonic() + 0.2
    with pytest.raises(DeadlineError):
        child.receive(deadline=lambda: end)
    assert child.close() == -signal.SIGKILL
    assert not is_running(child.pid)


@pytest.mark.parametrize(("how", "status"), [("crash", -signal.SIGABRT), ("exit", 1)])
def test_a_child_that_ends_without_an_answer_says_how(child: Child, how: str, status: int) -> None:
    child.channel.send({"ask": how})
    with pytest.raises(ChildDiedError) as died:
        child.receive()
    assert died.value.status == status
    assert child.close() == status


def test_a_process_with_many_open_files_hears_its_children(zygote: Zygote) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        child = zygote.fork(ENTRY)
        assert child.channel.fileno() > 1024
        child.channel.send({"ask": "echo"}, b"heard")
        assert child.receive().payload == b"heard"
        child.close()
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_answer_that_is_too_large_is_none(zygote: Zygote) -> None:
    child = zygote.fork(ENTRY, max_payload_bytes=MIB)
    child.channel.send({"ask": "huge", "bytes": 2 * MIB})
    with pytest.raises(ChildDiedError):
        child.receive()
    child.close()


def test_killing_from_another_thread_ends_the_wait(child: Child) -> None:
    child.channel.send({"ask": "sleep"})
    with pytest.raises(ChildDiedError) as died:
        child.receive(on_wake=child.kill)
    assert died.value.status == -signal.SIGKILL


def test_a_zygote_that_died_is_started_again() -> None:
    zygote = Zygote()
    first = zygote.fork(ENTRY)
    assert zygote._process is not None
    zygote._process.kill()
    # Its children go with it.
    eventually(lambda: not is_running(first.pid), timeout_s=5)
    second = zygote.fork(ENTRY)
    second.channel.send({"ask": "environment"})
    assert second.receive().header["pid"] == second.pid
    second.close()
    first.close()
    zygote.close()


def test_a_zygote_that_dies_while_it_is_asked_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    zygote = Zygote()
    zygote.fork(ENTRY).close()
    assert zygote._process is not None
    zygote._process.kill()
    zygote._process.wait()
    # It was there a moment ago.
    looks = iter([True])
    really = zygote._is_running
    monkeypatch.setattr(zygote, "_is_running", lambda: next(looks, None) or really())
    child = zygote.fork(ENTRY)
    assert is_running(child.pid)
    child.close()
    zygote.close()


def test_what_cannot_be_prepared_is_said_and_the_next_is_forked(zygote: Zygote) -> None:
    with pytest.raises(LaunchError, match="no_such_module"):
        zygote.fork(ENTRY, prepare=[["no_such_module:function"]])
    zygote.fork(ENTRY).close()


OWNER = """
import sys, time
from seatrial.sandbox.launcher import Zygote
from seatrial.sandbox.scratch import Scratch
from pathlib import Path
scratch = Scratch(Path(sys.argv[1]))
scratch.new_folder().joinpath("left").write_bytes(b"behind")
zygote = Zygote()
child = zygote.fork("tests.sandbox.children:answer")
child.channel.send({"ask": "sleep"})
print(zygote._process.pid, child.pid, flush=True)
time.sleep(60)
"""


def test_children_and_folders_of_a_killed_process_go(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    with owner.stdout:
        assert len(list(tmp_path.glob(scratch.PREFIX + "*"))) == 1
        # A folder in use is left alone.
        assert sweep(tmp_path) == 0
        owner.kill()
        owner.wait()
    eventually(lambda: not any(map(is_running, pids)), timeout_s=10)
    assert sweep(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_folder_sweeps_those_of_the_dead_and_goes_with_its_owner(tmp_path: Path) -> None:
    dead = tmp_path / (scratch.PREFIX + "dead")
    dead.mkdir()
    (dead / "lock").touch()
    mine = Scratch(tmp_path)
    assert not dead.exists()
    assert mine.new_folder().is_dir()
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_swept_before_it_was_locked_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = fcntl.flock
    swept = []

    def flock(file: Any, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            # Another process looks between the file and the lock.
            monkeypatch.setattr(fcntl, "flock", really)
            swept.append(sweep(tmp_path))
        really(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    mine = Scratch(tmp_path)
    assert swept == [1]
    assert mine.new_folder().is_dir()
    mine.close()


def test_a_folder_that_was_tidied_away_is_made_again(tmp_path: Path) -> None:
    mine = Scratch(tmp_path)
    shutil.rmtree(mine.path)
    assert mine.new_folder().is_dir()
    # And is not another's to sweep.
    assert sweep(tmp_path) == 0
    mine.close()
    assert list(tmp_path.iterdir()) == []
