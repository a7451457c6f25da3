"""Inspecting uploads: each in a child process, a few at a time, for no project more than its share.

The threads that answer requests never read an uploaded file, so a hundred of them hold nobody up; and a client that
goes away takes its inspection along.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from app.core.sandbox.calls import Call
from app.core.sandbox.launcher import ChildDiedError, Zygote
from app.core.settings import Settings
from app.web.problems import MalformedBodyError, TooManyRequestsError

MODULES = ("app.models.inspection", "app.datasets.inspection")
"""Imported in the process the children are forked from."""

LOOK_S = 0.25
"""Seconds between two looks whether the client is still there."""

RETRY_AFTER_S = 10


class Inspections:
    """The turns of the uploads a process inspects.

    Args:
        settings: How many at one time, for one project, and waiting.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._total = settings.inspections or os.cpu_count() or 1
        self._per_project = settings.inspections_per_project or max(1, self._total // 2)
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        # Threads of their own: the shared ones are for those who wait for the database.
        self._threads = CapacityLimiter(self._total)

    async def run(
        self, request: Request, project_id: str, function: str, arguments: Sequence[Any], *, size_bytes: int
    ) -> Any:
        """Return what a function says of an upload; see :class:`app.core.sandbox.calls.Call`.

        Raises:
            InspectionError: The upload is refused.
            TooManyRequestsError: Too many of the project's uploads are waiting already.
            MalformedBodyError: The client went away; nobody hears this.
        """
        async with self._turn(request, project_id):
            call = Call(_zygote(), function, arguments, self._settings, size_bytes=size_bytes)
            working = asyncio.ensure_future(to_thread.run_sync(call, limiter=self._threads))
            try:
                while not (await asyncio.wait([working], timeout=LOOK_S))[0]:
                    await _stay(request)
                return working.result()
            except ChildDiedError as error:
                raise TooManyRequestsError(
                    "The inspection was ended, for want of memory on this machine it seems: try again later.",
                    retry_after_s=RETRY_AFTER_S,
                ) from error
            finally:
                if not working.done():
                    call.end()
                    await asyncio.wait([working])
                    # Nobody asks for what came of it.
                    working.exception()

    @asynccontextmanager
    async def _turn(self, request: Request, project_id: str) -> AsyncIterator[None]:
        async with self._changed:
            if not self._is_free(project_id):
                if self._waiting[project_id] >= self._settings.inspections_waiting:
                    raise TooManyRequestsError(
                        f"{self._waiting[project_id]} uploads of this project wait for their inspection already: send "
                        "the next when one of them is stored (SEATRIAL_INSPECTIONS_WAITING).",
                        retry_after_s=RETRY_AFTER_S,
                    )
                self._waiting[project_id] += 1
                try:
                    while not self._is_free(project_id):
                        await self._wait()
                        await _stay(request)
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


async def _stay(request: Request) -> None:
    if await request.is_disconnected():
        raise MalformedBodyError("The connection ended before the upload was inspected.")


@lru_cache(maxsize=1)
def _zygote() -> Zygote:
    """Return the process's zygote; one for all applications in it."""
    return Zygote([["importlib:import_module", name] for name in MODULES])
