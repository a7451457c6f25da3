"""The connections of a server that may have to make room, and the clocks each of them runs against."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

log = logging.getLogger(__name__)

# Seconds after which a client that takes nothing of its answer may have to make room.
STALLED_S = 5.0
# Refused connections that linger at a time.
MAX_LINGERING = 64
_TOLD_EVERY_S = 60.0


class Connection(Protocol):
    """What can be closed to make room."""

    def drop(self) -> None:
        """Close at once, whatever is still unsent."""


class ConnectionTable:
    """The connections of a server that may have to make room, and those that were refused.

    First those that wait for a request or for its body, longest first; then those whose client takes nothing of its
    answer.

    Args:
        limit: Most connections at a time, the refused not counted.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting: dict[Connection, None] = {}
        self.stalled: dict[Connection, float] = {}
        self.refused: dict[Connection, None] = {}
        self._told_at = -_TOLD_EVERY_S

    def forget(self, one: Connection) -> None:
        """Take a connection out of all."""
        self.waiting.pop(one, None)
        self.stalled.pop(one, None)
        self.refused.pop(one, None)

    def make_room(self, opened: int) -> bool:
        """Close the connection that has waited longest when there are too many; return whether there is room now."""
        if opened - len(self.refused) <= self.limit:
            return True
        if (longest := next(iter(self.waiting), None)) is not None:
            longest.drop()
            return True
        now = time.monotonic()
        stalled, since = next(iter(self.stalled.items()), (None, now))
        if stalled is not None and since + STALLED_S <= now:
            stalled.drop()
            return True
        if now >= self._told_at + _TOLD_EVERY_S:
            self._told_at = now
            log.warning("all %d connections are busy: new ones are refused (SEATRIAL_MAX_CONNECTIONS)", self.limit)
        while len(self.refused) >= MAX_LINGERING:
            next(iter(self.refused)).drop()
        return False


class Alarm:
    """Rings once, unless it is cleared before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop, self._ring = loop, ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, after_s: float, *, anew: bool = False) -> None:
        """Ring after so many seconds; one that is set stays as it is unless set ``anew``."""
        if anew:
            self.clear()
        if self._handle is None:
            self._handle = self._loop.call_later(after_s, self._fire)

    def clear(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._ring()


class TimedFlow(FlowControl):
    """Knows since when the client may send: what we do not read, it cannot send faster."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(transport)
        self._loop = loop
        self.readable_since = loop.time()

    def resume_reading(self) -> None:
        """Read again."""
        if self.read_paused:
            self.readable_since = self._loop.time()
        super().resume_reading()
