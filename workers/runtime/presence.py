"""Telling that a worker lives, on a timer of its own: however long it is idle or at work, and however others fare."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from seatrial import alive

log = logging.getLogger(__name__)

MOST_S = 10.0
"""Seconds between two signs of life at most: a worker is believed dead after three times as many."""


class Presence:
    """Calls ``tell`` again and again in a thread until it is stopped; what goes wrong is told and tried again.

    Args:
        tell: Writes that the worker lives, and takes back what dead ones held.
        every_s: Seconds between two calls.
        home: Folder to leave a mark in each time, for :mod:`seatrial.alive`.
    """

    def __init__(self, tell: Callable[[], object], *, every_s: float, home: Path | None = None) -> None:
        self._tell = tell
        self._home = home
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
        if self._home is not None:
            with suppress(OSError):
                alive.unmark(self._home)

    def _run(self) -> None:
        while not self._stopping.is_set():
            trouble = None
            try:
                self._tell()
            except Exception as error:
                trouble = f"cannot reach the database ({type(error).__name__})"
                log.warning("cannot tell that this worker lives, trying again: %s", error)
            if self._home is not None:
                mark(self._home, every_s=self._every_s, trouble=trouble)
            self._stopping.wait(self._every_s)


def mark(home: Path, *, every_s: float, trouble: str | None = None) -> None:
    """Leave the mark of this process, where the disk lets it; see :func:`seatrial.alive.mark`."""
    try:
        alive.mark(home, every_s=every_s, trouble=trouble)
    except OSError as error:
        log.warning("cannot leave a sign of life in %s: %s", home, error)
