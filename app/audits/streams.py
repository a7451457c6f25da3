"""Event streams kept open: how many there may be, what they cost together, and when they end.

A stream takes no thread while it is open. All streams of an API process look at the same moments, in threads of their
own, and those that ask the same share the answer: however many follow an audit, it is one query per moment.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from anyio import CapacityLimiter, to_thread
from starlette.types import Receive, Scope, Send

from app.audits import events
from app.web.heads import Stream, is_head
from app.web.problems import ProblemError
from seatrial.store.database import Database
from seatrial.store.settings import Settings

T = TypeVar("T")

# Other requests have forty of their own.
_THREADS = 4


class TooManyStreamsError(ProblemError):
    """As many event streams are open as there may be."""

    status = 429
    code = "too-many-streams"
    title = "Too many event streams are open"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": "5"})


@dataclass(frozen=True)
class Follower:
    """Who follows an audit.

    Attributes:
        project_id: Whose audit it is.
        key_digest: Which key; None where none is needed.
        is_known: Whether the follower still may; asked again and again, in a thread.
    """

    project_id: str
    key_digest: str | None
    is_known: Callable[[], bool]


class EventStreams:
    """The open event streams of this process."""

    def __init__(self, settings: Settings) -> None:
        self._max_per_key = settings.max_streams_per_key
        self._max_per_project = settings.max_streams_per_project
        # Others must find a connection too, however many projects there are.
        self._max_in_all = settings.max_connections // 2
        self._open: Counter[tuple[str, str | None]] = Counter()
        self._asked: dict[Hashable, asyncio.Task[object]] = {}
        self._limiter = CapacityLimiter(_THREADS)
        self.is_stopping = False

    def stop(self) -> None:
        """End every stream at its next look, and those that are asked for from now on."""
        self.is_stopping = True

    @contextmanager
    def place(self, follower: Follower) -> Iterator[None]:
        """Hold a place for a stream.

        Raises:
            TooManyStreamsError: There is none.
        """
        taken = [("project", follower.project_id), ("service", None)]
        if follower.key_digest is not None:
            taken.append(("key", follower.key_digest))
        for kind, most, setting in (
            ("key", self._max_per_key, "SEATRIAL_MAX_STREAMS_PER_KEY"),
            ("project", self._max_per_project, "SEATRIAL_MAX_STREAMS_PER_PROJECT"),
            ("service", self._max_in_all, "half of SEATRIAL_MAX_CONNECTIONS"),
        ):
            if any(self._open[one] >= most for one in taken if one[0] == kind):
                raise TooManyStreamsError(
                    f"{most:,} event streams of this {kind} are open, as many as there may be ({setting}): close one, "
                    "or poll the audit every few seconds."
                )
        self._open.update(taken)
        try:
            yield
        finally:
            self._open.subtract(taken)
            # A count of nothing would be kept for every key there ever was.
            for one in taken:
                if not self._open[one]:
                    del self._open[one]

    async def ask(self, what: Hashable, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, done in a thread once for all who ask the same ``what`` meanwhile."""
        task = self._asked.get(what)
        if task is None:
            running: Awaitable[object] = to_thread.run_sync(work, limiter=self._limiter)
            task = self._asked[what] = asyncio.ensure_future(running)
            task.add_done_callback(partial(self._forget, what))
        # Whoever began it may leave before it is done.
        return cast(T, await asyncio.shield(task))

    def _forget(self, what: Hashable, task: asyncio.Task[object]) -> None:
        self._asked.pop(what, None)
        if not task.cancelled():
            # Looked at here, so that nothing is logged where all who asked have left.
            task.exception()


class EventStream(Stream):
    """The events of an audit as an answer; a problem where there is no place or no such audit.

    Args:
        streams: The others.
        database: Where events are.
        follower: Who asks.
        audit_id: Which audit.
        after: Sequence number the stream begins after.
        read: Reads what happened, of an audit by default.
    """

    def __init__(
        self,
        streams: EventStreams,
        database: Database,
        follower: Follower,
        audit_id: str,
        after: int,
        *,
        read: Callable[[Database, str, str, int], events.Look] | None = None,
    ) -> None:
        # Proxies must pass each event on when it comes.
        super().__init__((), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._streams = streams
        self._database = database
        self._follower = follower
        self._audit_id = audit_id
        self._after = after
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more, the audit is gone, or the follower is no longer known."""
        if is_head(scope):
            await self._look(self._after)
            await super().__call__(scope, receive, send)
            return
        with self._streams.place(self._follower):
            look = await self._look(self._after)
            self.body_iterator = events.stream_events(
                look, self._look, self._is_known, lambda: self._streams.is_stopping
            )
            await super().__call__(scope, receive, send)

    async def _look(self, after: int) -> events.Look:
        project_id = self._follower.project_id
        # Not bound before: whoever puts another in its place, as a test does, is asked from then on.
        read = self._read or events.read_events
        return await self._streams.ask(
            (project_id, self._audit_id, after),
            lambda: read(self._database, project_id, self._audit_id, after),
        )

    async def _is_known(self) -> bool:
        return await self._streams.ask(self._follower, self._follower.is_known)
