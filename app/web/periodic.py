"""Periodic work of the API: a thread of every process does what is due, so that the service needs no other process."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

EVERY_S = 0.5
LEAST_S = 0.05
MAX_PAUSE_S = 30.0

Job = Callable[[], object]


class Hurry:
    """Lets whoever waits for periodic work ask that it be done now, instead of in its turn."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    def ask(self) -> None:
        """Ask; returns at once."""
        self.is_asked.set()


class PeriodicRunner:
    """Does its jobs over and over, in one thread, until it is stopped.

    A job that raises is told in the log, once until it works again, and left alone for longer each time; the others go
    on. Jobs are done by every API process at once, so each sees to it itself that its work is done once.

    Args:
        jobs: By name: what is to be done; each returns soon.
        every_s: Seconds between two rounds.
        max_pause_s: Longest time a failing job is left alone, in seconds.
        hurry: Whoever asks it gets a round that begins within ``LEAST_S`` of the end of the one before.
    """

    def __init__(
        self,
        jobs: dict[str, Job],
        *,
        every_s: float = EVERY_S,
        max_pause_s: float = MAX_PAUSE_S,
        hurry: Hurry | None = None,
    ) -> None:
        self._rounds = [_Round(name, job, every_s, max_pause_s) for name, job in jobs.items()]
        self._every_s = every_s
        self._hurry = Hurry() if hurry is None else hurry
        self._stopping = threading.Event()
        # A daemon: a process that is killed between two looks loses nothing, all that is due is in the database.
        self._thread = threading.Thread(target=self._run, name="periodic", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Finish the job in hand and end, waiting so many seconds at most."""
        self._stopping.set()
        self._hurry.ask()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Before the round: what is asked for during it may be what the round has already passed.
            self._hurry.is_asked.clear()
            for one in self._rounds:
                if not self._stopping.is_set():
                    one.do()
            # However often somebody asks, as about an audit that cannot be judged.
            least_s = min(LEAST_S, self._every_s)
            if not self._stopping.wait(least_s):
                self._hurry.is_asked.wait(self._every_s - least_s)


class _Round:
    def __init__(self, name: str, job: Job, every_s: float, max_pause_s: float) -> None:
        self._name, self._job = name, job
        self._every_s, self._max_pause_s = every_s, max_pause_s
        self._pause_s = 0.0
        self._not_before = 0.0

    def do(self) -> None:
        """Do the job unless it is being left alone."""
        if time.monotonic() < self._not_before:
            return
        try:
            self._job()
        except Exception as error:
            if not self._pause_s:
                log.warning("%s failed and will be tried again: %s: %s", self._name, type(error).__name__, error)
            self._pause_s = min(self._max_pause_s, max(self._every_s, 2 * self._pause_s))
            self._not_before = time.monotonic() + self._pause_s
            return
        if self._pause_s:
            log.warning("%s works again", self._name)
        self._pause_s = 0.0
