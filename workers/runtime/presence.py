"""Telling that a worker lives, on a timer of its own: however long it is idle or at work, and however others fare."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

MOST_S = 10.0
"""Seconds between two signs of life at most: a worker is believed dead after three times as many."""


class Presence:
    """Calls ``tell`` again and again in a thread until it is stopped; what goes wrong is told and tried again.

    Args:
        tell: Writes that the worker lives, and takes back what dead ones held.
        every_s: Seconds between two calls.
    """

    def __init__(self, tell: Callable[[], object], *, every_s: float) -> None:
        self._tell = tell
        self._every_s = min(every_s, MOST_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        """Tell from now on; starting twice is the same as once."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Tell no more; afterwards nothing is written."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._tell()
            except Exception as error:
                log.warning("cannot tell that this worker lives, trying again: %s", error)
            self._stopping.wait(self._every_s)
