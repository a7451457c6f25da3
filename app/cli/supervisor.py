"""Keeps worker processes running beside the server, and takes them along when it ends."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PARENT_DEATH = Path(__file__).with_name("parent_death.py")

# glibc gives large freed blocks back to the system and faults them in again at every gradient step: a fifth of the time
# of a small network on a CPU (benchmarks/RESULTS.md). What the operator sets goes first.
_ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "536870912", "MALLOC_MMAP_THRESHOLD_": "536870912"}

POLL_S = 0.1
STEADY_S = 20.0
"""A process that lived this long had started well: its end is not a fault of its configuration."""
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 15.0, 30.0)
"""Seconds before the next start, by the number of early deaths in a row."""


@dataclass
class _Child:
    number: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    early_deaths: int = 0


class Supervisor:
    """Runs ``count`` copies of a command; one that dies is started again, at once the first time, then with backoff.

    Args:
        command: Program and arguments; the program by its full path.
        count: How many copies.
        say: Called with a sentence about every death.
    """

    def __init__(self, command: list[str], count: int, say: Callable[[str], None]) -> None:
        self._command = command
        self._say = say
        self._children = [_Child(number) for number in range(1, count + 1)]
        self._stopping = threading.Event()
        # All children are started by this one thread: the kernel sends PR_SET_PDEATHSIG when the *thread* that forked
        # ends, so it must live as long as they do.
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self.grace_s = 10.0

    def start(self) -> None:
        """Start the processes."""
        self._thread.start()

    def stop(self, grace_s: float = 10.0) -> None:
        """Send SIGTERM, wait up to ``grace_s`` seconds for all together, then SIGKILL. Safe to call twice."""
        self.grace_s = grace_s
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def pids(self) -> list[int]:
        """Process ids of the copies running now."""
        return [child.process.pid for child in self._children if child.process and child.process.poll() is None]

    def _watch(self) -> None:
        while not self._stopping.wait(POLL_S):
            for child in self._children:
                self._tend(child)
        running = [child.process for child in self._children if child.process and child.process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + self.grace_s
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _tend(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is not None:
            code = child.process.poll()
            if code is None:
                return
            child.process = None
            child.early_deaths = 0 if now - child.started_at >= STEADY_S else child.early_deaths + 1
            wait_s = BACKOFF_S[min(max(child.early_deaths - 1, 0), len(BACKOFF_S) - 1)]
            child.start_at = now + wait_s
            cause = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            self._say(f"Worker {child.number} {cause}; starting it again" + (f" in {wait_s:g} s." if wait_s else "."))
        if now >= child.start_at:
            child.started_at = now
            # A session of its own: Ctrl-C in the terminal goes to the server alone, which then stops its workers.
            bound = [sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), *self._command]
            # Started in a repository with a package called `workers`, it must still find ours.
            environment = {**_ALLOCATOR, "PYTHONSAFEPATH": "1", **os.environ}
            child.process = subprocess.Popen(bound, start_new_session=True, env=environment)  # noqa: S603
