"""Periodic work of the API: a thread of every process does what is due, so that the service needs no other process."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

EVERY_S = 0.5
MAX_PAUSE_S = 30.0

Job = Callable[[], object]


class PeriodicRunner:
    """Does its jobs over and over, in one thread, until it is stopped.

    A job that raises is told in the log, once until it works again, and left alone for longer each time; the others go
    on. Jobs are done by every API process at once, so each sees to it itself that its work is done once.

    Args:
        jobs: By name: what is to be done; each returns soon.
        every_s: Seconds between two rounds.
        max_pause_s: Longest time a failing job is left alone, in seconds.
    """

    def __init__(self, jobs: dict[str, Job], *, every_s: float = EVERY_S, max_pause_s: float = MAX_PAUSE_S) -> None:
        self._rounds = [_Round(name, job, every_s, max_pause_s) for name, job in jobs.items()]
        self._every_s = every_s
        self._stopping = threading.Event()
        # A daemon: a process that is killed between two looks loses nothing, all that is due is in the database.
        self._thread = threading.Thread(target=self._run, name="periodic", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Finish the job in hand and end, waiting so many seconds at most."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for one in self._rounds:
                if not self._stopping.is_set():
                    one.do()
            self._stopping.wait(self._every_s)


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
