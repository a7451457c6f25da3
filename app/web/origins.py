"""Work for a request that was answered long ago: its id in the log and on what is made, its trace goes on."""

from collections.abc import Iterator
from contextlib import contextmanager

from seatrial import tracing
from seatrial.logs import about, bound_ids


def origin() -> dict[str, str | None]:
    """Return what a row keeps of the request this thread or task is in: ``request_id`` and ``traceparent``."""
    return {"request_id": bound_ids().get("request_id"), "traceparent": tracing.current()}


@contextmanager
def on_behalf_of(what: str, request_id: str | None, traceparent: str | None, **ids: str) -> Iterator[None]:
    """Do something for a request as if within it.

    Args:
        what: What is done, without ids.
        request_id: Its id; None where it was not kept.
        traceparent: Context of its trace; None begins one.
        ids: What lines of the log and the span are about.
    """
    known = {} if request_id is None else {"request_id": request_id}
    with about(**ids, **known), tracing.span(what, traceparent, **ids, **known):
        yield
