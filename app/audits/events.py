"""The events of an audit as a stream (server-sent events), resumable from any of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

from starlette.concurrency import run_in_threadpool

from app.audits import repository
from app.audits.reading import moment, not_found
from app.audits.repository import AnyRow
from app.contracts.states import TERMINAL
from app.core.database import Database
from app.web.problems import NotFoundError

POLL_S = 0.5
HEARTBEAT_S = 15.0
# As OpenAPI 3.2 describes a stream: one event, its data as parsed.
EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Sequence number, for Last-Event-ID."},
        "event": {"type": "string", "enum": ["audit", "check", "progress"], "description": "What it tells."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/EventRead"},
            "description": "The event as JSON.",
        },
    },
}
# Long histories go out in pieces, so memory stays small.
_BATCH = 500


def read_events(database: Database, project_id: str, audit_id: str, after: int) -> tuple[Sequence[AnyRow], bool]:
    """Return the events after ``after`` and whether these are the last there will be.

    Raises:
        NotFoundError: The project has no such audit (any more).
    """
    with database.read() as session:
        found = repository.list_events(session, project_id, audit_id, after=after, limit=_BATCH)
    if found is None:
        raise not_found(audit_id)
    audit, events = found
    last = events[-1].seq if events else after
    return events, audit.state in TERMINAL and last >= audit.event_seq


async def stream_events(
    database: Database, project_id: str, audit_id: str, after: int, first: tuple[Sequence[AnyRow], bool]
) -> AsyncIterator[str]:
    """Yield events as text until the audit has ended.

    Args:
        database: Held only while it is asked, never while we sleep.
        project_id: Whose audit it is.
        audit_id: Which audit.
        after: Sequence number the client has seen.
        first: What :func:`read_events` returned, read before the response began so that a problem can still be one.
    """
    yield "retry: 2000\n\n"
    (events, is_over), silent_s = first, 0.0
    while True:
        for event in events:
            yield format_event(event)
            after = event.seq
        if is_over:
            return
        silent_s = 0.0 if events else silent_s + POLL_S
        if silent_s >= HEARTBEAT_S:
            # Keeps proxies from closing a connection they take for dead.
            yield ": heartbeat\n\n"
            silent_s = 0.0
        if len(events) < _BATCH:
            await asyncio.sleep(POLL_S)
        try:
            events, is_over = await run_in_threadpool(read_events, database, project_id, audit_id, after)
        except NotFoundError:
            # Deleted meanwhile: the response has begun, so it can only end.
            return


def format_event(event: AnyRow) -> str:
    """Return one event as text."""
    data = {"seq": event.seq, "kind": event.kind, "data": event.data, "created_at": moment(event.created_at)}
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(data)}\n\n"
