"""How long the requests of a block may take together, pauses between repetitions included."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEAST_S = 1.0
"""Seconds a request is given although the time is over: what a service answers at once is not lost to a deadline."""

# Of the thread or the task: clients are shared between them.
_DEADLINE: ContextVar[float | None] = ContextVar("_DEADLINE", default=None)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Send no request again in the block once the seconds are over; None sets no limit.

    A block inside another has the earlier of both deadlines.
    """
    left = time_left_s()
    limits = [limit for limit in (seconds, left) if limit is not None]
    token = _DEADLINE.set(time.monotonic() + min(limits) if limits else None)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def time_left_s() -> float | None:
    """Return the seconds left, 0 at least; None where there is no limit."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def capped_s(timeout_s: float) -> float:
    """Return how long a request may wait for its next byte.

    >>> with within(5):
    ...     capped_s(60) <= 5
    True
    """
    left = time_left_s()
    return timeout_s if left is None else min(timeout_s, max(left, LEAST_S))
