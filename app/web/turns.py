"""Whose turn it is where only so many requests are worked on at a time, and of a project no more than its share."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.web.problems import TooManyRequestsError

LOOK_S = 0.25
"""Seconds between two looks whether the client is still there."""

RETRY_AFTER_S = 10


class ProjectTurns:
    """Places for work, and requests that wait for one.

    Belongs to one event loop.

    Args:
        total: Places.
        per_project: How many of them one project may have.
        waiting: How many requests of a project may wait; more are refused.
        told: What the refused are told, made of how many wait.
    """

    def __init__(self, total: int, per_project: int, waiting: int, told: Callable[[int], str]) -> None:
        self._total = total
        self._per_project = per_project
        self._most_waiting = waiting
        self._told = told
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def turn(self, project_id: str, stay: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Wait for a place and hold it for the block; ``stay`` raises when nobody waits any more.

        Raises:
            TooManyRequestsError: As many of the project wait as may.
        """
        async with self._changed:
            if not self._is_free(project_id):
                if self._waiting[project_id] >= self._most_waiting:
                    raise TooManyRequestsError(self._told(self._waiting[project_id]), retry_after_s=RETRY_AFTER_S)
                self._waiting[project_id] += 1
                try:
                    while not self._is_free(project_id):
                        await self._wait()
                        await stay()
                finally:
                    self._waiting[project_id] -= 1
            self._running[project_id] += 1
        try:
            yield
        finally:
            async with self._changed:
                self._running[project_id] -= 1
                # Keeps the projects of all times out of memory.
                self._running, self._waiting = +self._running, +self._waiting
                self._changed.notify_all()

    async def _wait(self) -> None:
        # Not for longer: to see whether the client is still there.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), LOOK_S)

    def _is_free(self, project_id: str) -> bool:
        return self._running.total() < self._total and self._running[project_id] < self._per_project
