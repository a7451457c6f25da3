"""``seatrial serve`` as a real process: its workers live, return and end with it."""

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from app.access.service import ensure_project
from app.cli.supervisor import Supervisor
from seatrial import alive
from seatrial.store.settings import Settings
from tests.databases import migrated
from tests.nursery import forking
from tests.rows import add_audit
from tests.servers import ROOT, die_with_parent, eventually, free_port

pytestmark = pytest.mark.slow


class Serving:
    """A running ``seatrial serve``."""

    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        self.home = home
        self._errors = (home / "errors.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", "serve", "--port", "0", "--home", str(home), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **forking(), **environment},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            preexec_fn=die_with_parent,
        )
        assert self.process.stdout is not None
        self.announced = "".join(self.process.stdout.readline() for _ in range(5))
        found = re.search(r"listens on (http://\S+)", self.announced)
        assert found, self.errors()
        self.url = found[1]

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        # One that was killed just now is there until it is waited for, without a command line.
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            return [child for child in children if "workers.local" in child.cmdline()]
        return []

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()
        self._errors.close()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    running = Serving(tmp_path)
    eventually(running.is_ready, what="the service")
    yield running
    running.close()


def test_a_killed_worker_is_back_within_a_second_and_all_end_together(serving: Serving) -> None:
    (first,) = eventually(serving.workers, what="a worker")  # type: ignore[misc]
    first.kill()
    killed_at = time.monotonic()
    (second,) = eventually(lambda: [one for one in serving.workers() if one.pid != first.pid], every_s=0.02)  # type: ignore[misc]
    assert time.monotonic() - killed_at < 1.0
    assert "was killed by signal 9; starting it again." in serving.errors()
    serving.process.terminate()
    assert serving.process.wait(20) == 0
    assert not second.is_running()


@pytest.mark.drill
def test_ctrl_c_is_a_clean_end(serving: Serving) -> None:
    (worker,) = eventually(serving.workers, what="a worker")  # type: ignore[misc]
    serving.process.send_signal(signal.SIGINT)
    assert serving.process.wait(20) == 0
    assert not worker.is_running()
    assert "Traceback" not in serving.errors()
    assert list((serving.home / alive.FOLDER).glob("*.port")) == []


def test_a_worker_ends_when_its_server_is_killed(serving: Serving) -> None:
    (worker,) = eventually(serving.workers, what="a worker")  # type: ignore[misc]
    serving.process.kill()
    serving.process.wait()
    eventually(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, timeout_s=20)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Serving]:
    """A service whose workers take no part."""
    running = Serving(tmp_path, "--workers", "0")
    eventually(running.is_ready, what="the service")
    yield running
    running.close()


def test_no_key_on_loopback_and_a_taken_port_is_said(api: Serving) -> None:
    serving = api
    assert "none needed" in serving.announced
    assert httpx.get(f"{serving.url}/v1/models").status_code == 200
    assert httpx.get(f"{serving.url}/v1/models", headers={"Host": "example.org"}).status_code == 403
    port = serving.url.rpartition(":")[2]
    again = subprocess.run(
        [sys.executable, "-m", "seatrial", "serve", "--port", port], cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode == 1
    # Who looks after this home knows which port is its own.
    assert alive.ports(serving.home) == {int(port)}
    assert again.stderr == (
        f"Error: cannot listen on 127.0.0.1:{port}: Address already in use. Give another --port, or 0 for a free one.\n"
    )


@pytest.mark.drill
def test_endless_headers_are_refused_and_the_file_limit_is_raised(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        running = Serving(tmp_path, "--workers", "0")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        eventually(running.is_ready, what="the service")
        assert psutil.Process(running.process.pid).rlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        answer = httpx.get(f"{running.url}/healthz", headers={"X": "x" * 100_000})
        assert (answer.status_code, answer.json()["code"]) == (431, "header-too-large")
        assert httpx.get(f"{running.url}/healthz", headers={"X": "x" * 50_000}).status_code == 200
    finally:
        running.close()


@pytest.mark.drill
def test_keys_are_required_on_any_other_address(tmp_path: Path) -> None:
    running = Serving(tmp_path, "--host", "0.0.0.0", "--workers", "0", SEATRIAL_REQUIRE_KEYS="false")
    try:
        command = re.search(r"`(seatrial keys create) NAME (--home .+)` creates one", running.announced)
        assert command, running.announced
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        eventually(lambda: _status(f"{url}/v1/models"), what="the service")
        assert _status(f"{url}/v1/models") == 401
        # Wherever it is run.
        words = [sys.executable, "-m", *shlex.split(f"{command[1]} ci {command[2]}")]
        made = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
        headers = {"Authorization": f"Bearer {made.stdout.decode().strip()}"}
        assert httpx.get(f"{url}/v1/models", headers=headers).status_code == 200
    finally:
        running.close()


def _status(url: str) -> int | None:
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return None


@pytest.mark.drill
def test_without_the_worker_packages_serve_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else found(name, *rest)\n"
        f"from app.cli import main; main(['serve', '--port', '{free_port()}', '--home', {str(tmp_path)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "a worker needs torch: install it with `pip install 'seatrial[worker]'`" in done.stderr


def test_what_dies_at_once_is_started_ever_more_slowly() -> None:
    said: list[str] = []
    supervisor = Supervisor([sys.executable, "-S", "-c", "raise SystemExit(3)"], 1, said.append)
    supervisor.start()
    eventually(lambda: len(said) >= 3, timeout_s=20)
    supervisor.stop()
    assert said[:3] == [
        "Worker 1 ended with status 3; starting it again.",
        "Worker 1 ended with status 3; starting it again in 0.5 s.",
        "Worker 1 ended with status 3; starting it again in 1 s.",
    ]
    assert supervisor.pids == []


def test_what_does_not_end_by_itself_is_killed() -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    supervisor = Supervisor([sys.executable, "-S", "-c", deaf], 2, lambda line: None)
    supervisor.start()
    eventually(lambda: len(supervisor.pids) == 2)
    processes = [psutil.Process(pid) for pid in supervisor.pids]
    time.sleep(0.5)
    began = time.monotonic()
    supervisor.stop(grace_s=0.5)
    assert time.monotonic() - began < 5
    assert not any(process.is_running() for process in processes)


def test_sigterm_ends_a_server_that_streams_events_whatever_its_own_limits(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    settings = Settings(home=home, require_keys=False)
    database = migrated(settings)
    # The operator's, who needs no key.
    project = ensure_project(database, "default")
    audit = add_audit(database, project_id=project)
    database.dispose()
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app", "--port", str(port)]
    environment = {**os.environ, "SEATRIAL_HOME": str(home), "SEATRIAL_REQUIRE_KEYS": "false"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=die_with_parent)
    try:
        url = f"http://127.0.0.1:{port}"

        def is_up() -> bool:
            try:
                return httpx.get(f"{url}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        eventually(is_up, timeout_s=120, what="the server")
        with httpx.stream("GET", f"{url}/v1/audits/{audit}/events", timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            process.send_signal(signal.SIGTERM)
            # Whoever follows is let go, and goes on elsewhere.
            list(lines)
        assert process.wait(60) is not None
    finally:
        process.kill()
        process.wait()
