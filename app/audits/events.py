"""The events of an audit as a stream (server-sent events), resumable from any of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from app.audits import repository
from app.audits.reading import moment
from app.deletions.service import missing
from app.web.problems import NotFoundError
from seatrial.contracts.events import EventKind
from seatrial.contracts.states import TERMINAL
from seatrial.store.database import AnyRow, Database

POLL_S = 0.5
HEARTBEAT_S = 15.0
# A revoked key's streams end this much later at most.
CHECK_S = 5.0


def event_schema(model: str, kinds: Any) -> dict[str, Any]:
    """Return a stream's item as OpenAPI 3.2 describes it: one event, its data as parsed.

    Args:
        model: Name of the schema of its data.
        kinds: ``Literal`` of the kinds of events.
    """
    data = {"contentMediaType": "application/json", "contentSchema": {"$ref": f"#/components/schemas/{model}"}}
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "Sequence number, for Last-Event-ID."},
            "event": {"type": "string", "enum": list(get_args(kinds)), "description": "What it tells."},
            "data": {"type": "string", **data, "description": "The event as JSON."},
        },
    }


EVENT_SCHEMA = event_schema("EventRead", EventKind)
# Long histories go out in pieces, so memory stays small.
_BATCH = 500
# The column's own limit: a client may name any whole number.
_MAX_SEQ = 2**31 - 1


@dataclass(frozen=True)
class Look:
    """What one look at an audit's events found.

    Attributes:
        events: The events after the position asked for.
        position: Sequence number to go on after: that of the newest event for a position beyond it.
        is_over: Whether there will be no more.
    """

    events: Sequence[AnyRow]
    position: int
    is_over: bool


def read_events(database: Database, project_id: str, audit_id: str, after: int) -> Look:
    """Return the events after the sequence number ``after``.

    Raises:
        NotFoundError: The project has no such audit (any more).
    """
    with database.read() as session:
        read = repository.list_events(session, project_id, audit_id, after=min(after, _MAX_SEQ), limit=_BATCH)
        if read is None:
            raise missing(session, project_id, audit_id, "audit")
    audit, events = read
    position = events[-1].seq if events else min(after, audit.event_seq)
    # With a policy, the verdict is told after the end.
    has_ended = audit.state in TERMINAL and (audit.verdict is not None or not audit.is_gated)
    return Look(events, position, has_ended and position >= audit.event_seq)


async def stream_events(
    look: Look,
    look_after: Callable[[int], Awaitable[Look]],
    is_known: Callable[[], Awaitable[bool]],
    is_stopping: Callable[[], bool] = lambda: False,
) -> AsyncIterator[str]:
    """Yield events as text until the audit has ended and, where it has a policy, has been judged.

    Args:
        look: The first look, taken before the response began so that a problem can still be one.
        look_after: Looks again, at what comes after a position.
        is_known: Whether whoever follows still may.
        is_stopping: Whether this process is about to end; whoever follows goes on at another, by Last-Event-ID.
    """
    yield "retry: 2000\n\n"
    loop = asyncio.get_running_loop()
    heartbeat_at, check_at = loop.time() + HEARTBEAT_S, loop.time() + CHECK_S
    while True:
        for event in look.events:
            yield format_event(event)
        if look.is_over:
            return
        if look.events:
            heartbeat_at = loop.time() + HEARTBEAT_S
        elif loop.time() >= heartbeat_at:
            # Keeps proxies from closing a connection they take for dead.
            yield ": heartbeat\n\n"
            heartbeat_at = loop.time() + HEARTBEAT_S
        if len(look.events) < _BATCH:
            # Streams look at the same moments, so that they can share what they see.
            await asyncio.sleep(POLL_S - loop.time() % POLL_S)
        if is_stopping():
            return
        if loop.time() >= check_at:
            if not await is_known():
                # The next request with that key is told why.
                return
            check_at = loop.time() + CHECK_S
        try:
            look = await look_after(look.position)
        except NotFoundError:
            # Deleted meanwhile: the response has begun, so it can only end.
            return


def format_event(event: AnyRow) -> str:
    """Return one event as text."""
    data = {"seq": event.seq, "kind": event.kind, "data": event.data, "created_at": moment(event.created_at)}
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(data)}\n\n"
