"""Workers forked from one process that has their imports, as real processes of their own.

A worker and the process its models run in import for 5 s of computing; that was most of what a test with real workers
took. ``python -m tests.nursery DESCRIPTOR`` imports once and forks a worker when asked: it runs the module's ``main``
with the environment, the log and the signals a new interpreter would have, and its first zygote is a fork as well.
Everything from there on is the product's. ``SEATRIAL_TEST_INTERPRETERS=1`` starts interpreters instead.
"""

import atexit
import ctypes
import gc
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = ["workers.runtime.worker", "celery.bin.celery", "celery.bin.worker", "celery.beat", "kombu.transport.redis"]

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


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
    """The process workers are forked from, seen from the tests."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.nursery", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env=_quiet(os.environ),
                preexec_fn=die_with_parent,
            )
        self._answers = self._control.makefile("rb")

    def ask(self, **request: Any) -> Any:
        """Send a request and return its answer."""
        self._control.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self._answers.readline())

    def start(self, module: str, arguments: list[str], environment: dict[str, str], log: Path) -> "Forked":
        """Run ``python -m module`` with these arguments, as a fork."""
        return Forked(self, self.ask(module=module, arguments=arguments, environment=environment, log=str(log)))

    def close(self) -> None:
        """End it, and with it whatever it has forked."""
        self._answers.close()
        self._control.close()
        self._process.wait()


class Forked:
    """A forked worker, with the part of ``subprocess.Popen`` that tests use."""

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

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        deadline = time.monotonic() + (timeout or float("inf"))
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"forked {self.pid}", timeout or 0)
            time.sleep(0.01)
        return status


@cache
def nursery() -> Nursery:
    """Return the one of this test process."""
    made = Nursery()
    atexit.register(made.close)
    return made


def _quiet(environment: Any) -> dict[str, str]:
    """Return an environment in which imports start no threads: a fork copies none."""
    return {**environment, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def main(descriptor: int) -> None:
    """Fork a worker for every request, and tell who has ended."""
    gc.disable()
    for name in IMPORTED:
        import_module(name)
    child = import_module("workers.runtime.child")
    child.prepare()
    child.prepare_transformers()
    gc.freeze()
    gc.enable()
    control = socket.socket(fileno=descriptor)
    with control, control.makefile("rb") as lines:
        for line in lines:
            request = json.loads(line)
            if "poll" in request:
                pid, status = os.waitpid(request["poll"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            elif not (answer := os.fork()):
                break
            control.sendall(json.dumps(answer).encode() + b"\n")
        else:
            return
    _become(**request)


def _become(module: str, arguments: list[str], environment: dict[str, str], log: str) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    _have_a_zygote()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _have_a_zygote() -> None:
    """Let the first zygote this process starts be a fork of now, before it has connections, threads and secrets."""
    from seatrial.sandbox import launcher, zygote

    ours, theirs = socket.socketpair()
    if not (pid := os.fork()):
        try:
            ours.close()
            os.setsid()
            kept = launcher.minimal_environment()
            os.environ.clear()
            os.environ.update(kept)
            _, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
            theirs.close()
            if descriptors:
                zygote.main(descriptors[0])
        finally:
            os._exit(0)
    theirs.close()
    spare = [_Zygote(pid)]

    def start(command: list[str], *, pass_fds: list[int], **options: Any) -> Any:
        if not spare:
            return subprocess.Popen(command, pass_fds=pass_fds, **options)
        with ours:
            socket.send_fds(ours, [b"\n"], pass_fds)
        return spare.pop()

    launcher.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": start})  # type: ignore[assignment]


class _Zygote:
    """The part of ``subprocess.Popen`` that the launcher uses."""

    def __init__(self, pid: int) -> None:
        self.pid, self._status = pid, None

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout or float("inf"))
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"zygote {self.pid}", timeout or 0)
            time.sleep(0.01)
        return status

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
