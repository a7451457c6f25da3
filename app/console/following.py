"""Event streams behind pages: what the API streams, for whoever is logged in."""

from collections.abc import Callable

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.audits.events import Look
from app.audits.streams import EventStream, EventStreams, Follower
from app.console.viewer import LoginNeededError, principal_of, requires
from app.web.services import Services
from seatrial.store.database import Database


async def follow(
    request: Request,
    services: Services,
    followed: str,
    *,
    read: Callable[[Database, str, str, int], Look] | None = None,
) -> Response:
    """Stream the events of an audit, or of what ``read`` reads the events of; 401 where nobody is logged in.

    Args:
        request: Its header Last-Event-ID says where to go on.
        services: What the process works with.
        followed: Id of what is followed.
        read: Reads what happened, of an audit by default.
    """
    try:
        viewer = await run_in_threadpool(requires("read"), request, services)
    except LoginNeededError:
        # An event source follows no redirect to a form.
        return Response(status_code=401)
    told = request.headers.get("last-event-id", "")
    since = int(told) if told.isdecimal() and len(told) < 12 else 0
    follower = Follower(
        viewer.project_id, viewer.principal.key_digest, lambda: principal_of(request, services) is not None
    )
    return EventStream(services.of(EventStreams), services.database, follower, followed, since, read=read)
