"""Workers and zygotes forked from one process that has their imports, as real processes of their own.

A worker and the process its models run in import for 5 s of computing; that was most of what a test with real workers
took. ``python -m tests.nursery DESCRIPTOR`` imports once, for all test processes, and forks a worker when asked: it
runs the module's ``main`` with the environment, the log and the signals a new interpreter would have, and its zygotes
are forks as well. Commands that start interpreters are given the variables of :func:`forking`: their workers
are interpreters, their zygotes forks (`tests/interpreter/sitecustomize.py`). Everything from there on is the
product's. ``SEATRIAL_TEST_INTERPRETERS=1`` starts interpreters everywhere.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import random
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = ["workers.runtime.worker", "celery.bin.celery", "celery.bin.worker", "celery.beat", "kombu.transport.redis"]
SOCKET = "NURSERY_OF_THE_TESTS"
"""Variable that names the nursery's socket to interpreters."""

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_PIECE_BYTES = 2**16


def is_wanted() -> bool:
    """Return whether workers are to be forked."""
    return sys.platform == "linux" and not os.environ.get("SEATRIAL_TEST_INTERPRETERS")


def die_with_parent() -> None:
    """Ask the kernel to stop this child when the test process goes."""
    # A shell that starts the tests in the background has them ignore it, and so whatever they start.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class Nursery:
    """The process workers are forked from, seen from a test or from a worker that an interpreter runs.

    What was forked for it ends when its connection does, and the nursery with its last connection.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def ask(self, descriptor: int | None = None, **request: Any) -> Any:
        """Send a request, and a descriptor with it, and return its answer."""
        with self._lock:
            data = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(self._socket, [data], [] if descriptor is None else [descriptor])
            self._socket.sendall(data[sent:])
            return json.loads(self._answers.readline())

    def start(self, module: str, arguments: list[str], environment: dict[str, str], log: Path) -> "Forked":
        """Run ``python -m module`` with these arguments, as a fork."""
        return Forked(self, self.ask(module=module, arguments=arguments, environment=environment, log=str(log)))

    def zygote(self, descriptor: int, environment: dict[str, str]) -> "Forked":
        """Fork a zygote that serves this socket."""
        return Forked(self, self.ask(descriptor, zygote=environment))

    def close(self) -> None:
        """End what was forked for this one."""
        self._answers.close()
        self._socket.close()


class Forked:
    """A forked process, with the part of ``subprocess.Popen`` that is used of it."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid, self.returncode = pid, None
        self._nursery = nursery

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self.returncode is None:
            self.returncode = self._nursery.ask(poll=self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; its process id is nobody else's before :meth:`poll` has told its end."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        deadline = time.monotonic() + (timeout or float("inf"))
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"forked {self.pid}", timeout or 0)
            time.sleep(0.01)
        return status


def address() -> Path:
    """Return where the nursery of this run of the tests listens."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    return Path(tempfile.gettempdir(), f"seatrial-nursery-{run[:12]}", "socket")


@cache
def nursery() -> Nursery:
    """Return the one all processes of this run of the tests share, as this process sees it."""
    path = address()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            made = Nursery(path)
        except OSError:
            made = _begun(path)
    atexit.register(made.close)
    return made


def forking() -> dict[str, str]:
    """Return the variables with which an interpreter has its zygotes forked; none where interpreters are wanted."""
    if not is_wanted():
        return {}
    nursery()
    folders = [str(ROOT / "tests" / "interpreter"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(folders), SOCKET: str(address())}


@contextlib.contextmanager
def zygotes_forked() -> Iterator[None]:
    """Fork the zygotes that this process starts within the block, where forks are wanted."""
    before = launcher().subprocess
    if is_wanted():
        _fork_zygotes_of(nursery)
    yield
    launcher().subprocess = before


def launcher() -> Any:
    """Return the module that starts zygotes."""
    return import_module("seatrial.sandbox.launcher")


def _begun(path: Path) -> Nursery:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        # Whoever connects before the imports are done waits for the answer.
        listener.listen(64)
        listener.set_inheritable(True)
        command = [sys.executable, "-m", "tests.nursery", str(listener.fileno())]
        # Nobody's child to wait for: it outlives the test process that happened to be first.
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        os.posix_spawn(sys.executable, command, _quiet(os.environ), file_actions=[nothing], setsid=True)
        return Nursery(path)


def _quiet(environment: Any) -> dict[str, str]:
    """Return an environment in which imports start no threads: a fork copies none."""
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    folders = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, **quiet, "PYTHONPATH": os.pathsep.join(folders)}


def main(descriptor: int) -> None:
    """Fork a process for every request, and tell who has ended, until nobody asks any more."""
    gc.disable()
    for name in IMPORTED:
        import_module(name)
    child = import_module("workers.runtime.child")
    child.prepare()
    child.prepare_transformers()
    gc.freeze()
    gc.enable()
    listener = socket.socket(fileno=descriptor)
    path = Path(listener.getsockname())
    request, descriptors = _Server(listener).run()
    if request is None:
        shutil.rmtree(path.parent, ignore_errors=True)
    else:
        _become(request, descriptors, path)


class _Server:
    """The requests of all connections, and what was forked for each."""

    def __init__(self, listener: socket.socket) -> None:
        self._ready = selectors.DefaultSelector()
        self._listener = listener
        self._forked: dict[socket.socket, set[int]] = {}
        self._ready.register(listener, selectors.EVENT_READ)

    def run(self) -> tuple[dict[str, Any] | None, list[int]]:
        """Return None at the end, and in a forked process what it is to become."""
        while True:
            for key, _ in self._ready.select():
                found = key.fileobj
                if found is self._listener:
                    connection, _ = self._listener.accept()
                    self._ready.register(connection, selectors.EVENT_READ)
                    self._forked[connection] = set()
                    continue
                assert isinstance(found, socket.socket)
                data, descriptors, _, _ = socket.recv_fds(found, _PIECE_BYTES, 1)
                while data and not data.endswith(b"\n"):
                    more = found.recv(_PIECE_BYTES)
                    data = data + more if more else b""
                if not data:
                    self._leave(found)
                    if not self._forked:
                        return None, []
                    continue
                request = json.loads(data)
                if "poll" in request:
                    answer = self._status(found, request["poll"])
                elif not (answer := os.fork()):
                    self._let_go()
                    return request, list(descriptors)
                else:
                    self._forked[found].add(answer)
                for number in descriptors:
                    os.close(number)
                found.sendall(json.dumps(answer).encode() + b"\n")

    def _status(self, connection: socket.socket, process: int) -> int | None:
        pid, status = os.waitpid(process, os.WNOHANG)
        if not pid:
            return None
        self._forked[connection].discard(process)
        return os.waitstatus_to_exitcode(status)

    def _leave(self, connection: socket.socket) -> None:
        self._ready.unregister(connection)
        connection.close()
        for process in self._forked.pop(connection):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)

    def _let_go(self) -> None:
        for connection in (self._listener, *self._forked):
            connection.close()
        self._ready.close()


def _become(request: dict[str, Any], descriptors: list[int], path: Path) -> None:
    if "zygote" in request:
        _be_a_zygote(descriptors[0], request["zygote"])
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    _have(request["environment"])
    random.seed()
    fork_zygotes_of(path)
    sys.argv = [request["module"], *request["arguments"]]
    _run(request["module"])


def _run(module: str) -> NoReturn:
    """Run a module as an interpreter would, but for taking all that was imported apart at its end: 0.4 s of pages."""
    status: Any = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        if isinstance(status, str):
            print(status, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _have(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _be_a_zygote(descriptor: int, environment: dict[str, str]) -> None:
    """Serve as one, in the session and with the variables of a new interpreter."""
    from seatrial.sandbox import zygote

    try:
        os.setsid()
        _have(environment)
        zygote.main(descriptor)
    finally:
        os._exit(0)


def fork_zygotes_of(path: Path) -> None:
    """Let the zygotes of this interpreter be forks of the nursery that listens there."""
    _fork_zygotes_of(cache(lambda: Nursery(path)))


def _fork_zygotes_of(nursery: Callable[[], Nursery]) -> None:
    def start(command: list[str], *, pass_fds: list[int], env: dict[str, str], **options: Any) -> Any:
        return nursery().zygote(pass_fds[0], env)

    _start_zygotes_by(start)


def _start_zygotes_by(start: Any) -> None:
    launcher().subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": start})


if __name__ == "__main__":
    main(int(sys.argv[1]))
