import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seatrial import alive
from tests.servers import eventually
from workers.runtime.presence import Presence
from workers.runtime.worker import work_until


def age(home: Path, seconds: float) -> None:
    for path in (home / alive.FOLDER).iterdir():
        then = time.time() - seconds
        os.utime(path, (then, then))


def test_a_worker_that_gives_no_sign_is_told_from_one_that_lives(tmp_path: Path) -> None:
    assert alive.look(tmp_path) == (False, "no worker lives here")
    alive.mark(tmp_path, every_s=10)
    assert alive.look(tmp_path) == (True, f"process {os.getpid()} lives")
    age(tmp_path, 44)
    assert alive.look(tmp_path)[0]
    age(tmp_path, 60)
    assert alive.look(tmp_path) == (False, f"process {os.getpid()} gave no sign for 60 s")
    alive.mark(tmp_path, every_s=20)
    age(tmp_path, 60)
    assert alive.look(tmp_path)[0]
    alive.unmark(tmp_path)
    assert not alive.look(tmp_path)[0]


def test_marks_of_the_dead_of_other_hosts_and_garbage_say_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    alive.mark(tmp_path, every_s=10)
    (own,) = (tmp_path / alive.FOLDER).iterdir()
    told = json.loads(own.read_text())
    own.with_name(own.name.replace(str(os.getpid()), str(gone.pid))).write_text(json.dumps(told | {"pid": gone.pid}))
    own.with_name(f"elsewhere-{os.getpid()}.json").write_text(own.read_text())
    own.with_name(own.name.replace(str(os.getpid()), "1")).write_text("{")
    own.unlink()
    assert alive.look(tmp_path) == (False, "no worker lives here")
    assert sorted(path.name.rpartition("-")[2] for path in own.parent.iterdir()) == sorted(
        ["1.json", f"{os.getpid()}.json"]
    )


def test_the_command_asks_nobody(tmp_path: Path) -> None:
    alive.mark(tmp_path, every_s=10, trouble="cannot reach the database (OperationalError)")
    source = "import sys; sys.argv[1:] = ['health']; from seatrial.__main__ import main; main()"
    code = f"import atexit, sys; atexit.register(lambda: print('click' in sys.modules)); {source}"
    env = {**os.environ, "SEATRIAL_HOME": str(tmp_path), "SEATRIAL_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/x"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == f"ok: process {os.getpid()} lives; cannot reach the database (OperationalError)\nFalse\n"


def test_presence_marks_whatever_its_database_does(tmp_path: Path) -> None:
    def fail() -> None:
        raise ConnectionError

    presence = Presence(fail, every_s=0.01, home=tmp_path)
    presence.start()
    eventually(lambda: "ConnectionError" in alive.look(tmp_path)[1], timeout_s=5)
    presence.stop()
    assert not alive.look(tmp_path)[0]


class Doing:
    """A worker that has work so many times, and none in between."""

    def __init__(self, *claims: int) -> None:
        self.claims = list(claims)

    def drain(self) -> int:
        return self.claims.pop(0) if self.claims else 0


@pytest.mark.parametrize("until_idle_s", [0.0, 0.05])
def test_it_ends_when_there_was_nothing_to_do_for_so_long(until_idle_s: float) -> None:
    worker, stopping = Doing(1, 0, 0, 2, 0), threading.Event()
    began = time.monotonic()
    work_until(worker, stopping.is_set, lambda: time.sleep(0.002), until_idle_s=until_idle_s)  # type: ignore[arg-type]
    assert time.monotonic() - began >= until_idle_s
    assert worker.claims == ([0, 2, 0] if until_idle_s == 0 else [])
