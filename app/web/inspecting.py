"""Inspecting uploads: each in a child process, a few at a time, for no project more than its share.

The threads that answer requests never read an uploaded file, so a hundred of them hold nobody up; and a client that
goes away takes its inspection along.
"""

import asyncio
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from app.web.problems import MalformedBodyError, TooManyRequestsError
from app.web.turns import LOOK_S, RETRY_AFTER_S, ProjectTurns
from seatrial.sandbox.calls import Call
from seatrial.sandbox.launcher import ChildDiedError, LaunchError, Zygote
from seatrial.store.settings import Settings

MODULES = ("app.models.inspection", "app.datasets.inspection")
"""Imported in the process the children are forked from."""


class Inspections:
    """The turns of the uploads a process inspects.

    Args:
        settings: How many at one time, for one project, and waiting.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        total = settings.inspections or os.cpu_count() or 1
        per_project = settings.inspections_per_project or max(1, total // 2)
        self._turns = ProjectTurns(
            total,
            per_project,
            settings.inspections_waiting,
            lambda waiting: (
                f"{waiting} uploads of this project wait for their inspection already: send the next when "
                "one of them is stored (SEATRIAL_INSPECTIONS_WAITING)."
            ),
        )
        # Threads of their own: the shared ones are for those who wait for the database.
        self._threads = CapacityLimiter(total)

    async def run(
        self, request: Request, project_id: str, function: str, arguments: Sequence[Any], *, size_bytes: int
    ) -> Any:
        """Return what a function says of an upload; see :class:`seatrial.sandbox.calls.Call`.

        Raises:
            InspectionError: The upload is refused.
            TooManyRequestsError: Too many of the project's uploads are waiting already.
            MalformedBodyError: The client went away; nobody hears this.
        """
        async with self._turns.turn(project_id, lambda: _stay(request)):
            call = Call(zygote(), function, arguments, self._settings, size_bytes=size_bytes)
            working = asyncio.ensure_future(to_thread.run_sync(call, limiter=self._threads))
            try:
                while not (await asyncio.wait([working], timeout=LOOK_S))[0]:
                    await _stay(request)
                return working.result()
            except (ChildDiedError, LaunchError) as error:
                raise TooManyRequestsError(
                    "The inspection could not be started or was ended, for want of memory on this machine it seems: "
                    "try again later.",
                    retry_after_s=RETRY_AFTER_S,
                ) from error
            finally:
                if not working.done():
                    call.end()
                    await asyncio.wait([working])
                    # Nobody asks for what came of it.
                    working.exception()


async def _stay(request: Request) -> None:
    if await request.is_disconnected():
        raise MalformedBodyError("The connection ended before the upload was inspected.")


@lru_cache(maxsize=1)
def zygote() -> Zygote:
    """Return the process's zygote; one for all applications in it."""
    return Zygote([["importlib:import_module", name] for name in MODULES])
