"""What takes seconds to compute for a request: reports, verdicts, comparisons, records, bundles.

In threads of their own, and of a project one at a time: forty of them, asked for with one key, would take all threads
that answer requests.
"""

from collections.abc import AsyncIterator, Callable, Generator
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from app.web.turns import ProjectTurns

T = TypeVar("T")
Piece = TypeVar("Piece", str, bytes)

# Python computes one thing at a time: more threads would only slow down whoever answers the short requests.
AT_ONCE = 2
PER_PROJECT = 1
# A browser that opens every report of a page of audits has fewer.
MOST_WAITING = 64


class Computations:
    """The turns of the long computations of a process."""

    def __init__(self) -> None:
        self._turns = ProjectTurns(
            AT_ONCE,
            PER_PROJECT,
            MOST_WAITING,
            lambda waiting: (
                f"{waiting} requests of this project wait for a report, a verdict, records, a bundle or a "
                "comparison already: ask for the next when some of them are answered."
            ),
        )
        self._threads = CapacityLimiter(AT_ONCE)

    async def run(self, request: Request, project_id: str, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, done in a thread when it is the project's turn.

        A client that goes away while it waits loses its turn; what has begun is finished, and the turn held that long.

        Raises:
            TooManyRequestsError: Too many requests of the project wait already.
            ClientDisconnect: Nobody waits for the answer any more.
        """

        async def stay() -> None:
            if await request.is_disconnected():
                raise ClientDisconnect

        async with self._turns.turn(project_id, stay):
            return await to_thread.run_sync(work, limiter=self._threads)

    async def stream(self, pieces: Generator[Piece]) -> AsyncIterator[Piece]:
        """Yield pieces, each made in one of these threads: as many are being made at a time, however many are wanted.

        A client that goes away ends the generator.
        """
        try:
            while (piece := await to_thread.run_sync(next, pieces, None, limiter=self._threads)) is not None:
                yield piece
        finally:
            pieces.close()
