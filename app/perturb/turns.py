"""Whose turn it is: one at a time, and the projects in turn."""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from app.web.problems import TooManyRequestsError


class Turns:
    """Lets one in at a time; of those who wait, one of each project before the next one of any.

    Belongs to one event loop.

    Args:
        most_waiting: How many of a project may wait.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: OrderedDict[str, deque[anyio.Event]] = OrderedDict()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, project_id: str, *, retry_after_s: int) -> AsyncIterator[None]:
        """Wait for the project's turn and hold it for the block.

        Raises:
            TooManyRequestsError: As many of the project wait as may.
        """
        if self._is_taken:
            await self._wait(project_id, retry_after_s)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, project_id: str, retry_after_s: int) -> None:
        queue = self._waiting.setdefault(project_id, deque())
        if len(queue) >= self._most_waiting:
            raise TooManyRequestsError(
                f"{len(queue)} requests of this project wait for their turn already: ask again in {retry_after_s} s.",
                retry_after_s=retry_after_s,
            )
        turn = anyio.Event()
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._pass_on()
            else:
                queue.remove(turn)
                if not queue:
                    self._waiting.pop(project_id, None)
            raise

    def _pass_on(self) -> None:
        if not self._waiting:
            self._is_taken = False
            return
        project_id, queue = next(iter(self._waiting.items()))
        queue.popleft().set()
        if queue:
            self._waiting.move_to_end(project_id)
        else:
            del self._waiting[project_id]
