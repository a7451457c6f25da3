"""How fast an endpoint is asked: within its limit, and slower for a while whenever it says that was too fast."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_ASKED_PAUSE_S = 300.0
"""Longest Retry-After that is kept to."""
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0
SLICE_S = 1.0
"""Longest sleep before the caller is asked whether to go on."""
SLOWEST_PER_S = 1 / 60
RECOVERY_STEPS = 20
"""An answer gives back this fraction of the full pace: ten answers undo one halving."""


class Pace:
    """Requests per second: halved when told to slow down, raised by a fixed step with each answer (AIMD).

    Without a limit the full pace is the one observed when first told to slow down.

    Args:
        most: Requests per second at most; None for no limit.
        clock: Seconds that never go back.
        sleep: Waits so many seconds.
    """

    def __init__(self, most: float | None, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._most = most
        self._rate = most
        self._full = most
        self._clock = clock
        self._sleep = sleep
        self._next_at = clock()
        self._last_at: float | None = None
        self._gap_s = 0.0

    @property
    def per_s(self) -> float | None:
        """Requests per second at present; None for no limit."""
        return self._rate

    def wait(self, check_cancelled: Callable[[], None]) -> None:
        """Return when the next request is due; ``check_cancelled`` is called now and once a second, and may raise."""
        check_cancelled()
        while (left := self._next_at - self._clock()) > 0:
            self._sleep(min(left, SLICE_S))
            check_cancelled()
        now = self._clock()
        if self._last_at is not None:
            self._gap_s = now - self._last_at
        self._last_at = now
        if self._rate is not None:
            self._next_at = now + 1 / self._rate

    def hold(self, seconds: float) -> None:
        """Put the next request off."""
        self._next_at = max(self._next_at, self._clock() + seconds)

    def slow_down(self) -> None:
        """Halve the pace: the endpoint said that this was too fast."""
        if self._full is None:
            # At least one a second: what was observed may have been an idle hour.
            self._full = max(1 / self._gap_s, 1.0) if self._gap_s > 0 else 1.0
        self._rate = max((self._rate or self._full) / 2, SLOWEST_PER_S)

    def speed_up(self) -> None:
        """Take a step back to the full pace: the endpoint answered."""
        if self._rate is None or self._full is None or self._rate == self._most:
            return
        self._rate += self._full / RECOVERY_STEPS
        if self._rate >= self._full:
            self._rate = self._most
            # Another time of day may allow another pace.
            self._full = self._most


class BackOff:
    """Growing pauses with jitter, from a generator of its own: the global one belongs to the attacks."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - spreads retries; nothing secret, nothing measured

    def pause_s(self, attempt: int) -> float:
        """Return the pause after so many failed attempts, at least half of 0.5 s doubled each time."""
        longest = min(FIRST_PAUSE_S * 2.0**attempt, MAX_PAUSE_S)
        return longest * self._random.uniform(0.5, 1.0)


def asked_pause_s(retry_after: str, now: datetime | None = None) -> float:
    """Return the seconds a Retry-After header asks for, at most ``MAX_ASKED_PAUSE_S``; 0 for none.

    >>> asked_pause_s("7"), asked_pause_s("soon"), asked_pause_s("86400")
    (7.0, 0.0, 300.0)
    >>> asked_pause_s("Thu, 01 Jan 2026 00:01:00 GMT", datetime(2026, 1, 1, tzinfo=UTC))
    60.0
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), MAX_ASKED_PAUSE_S)
    try:
        until = parsedate_to_datetime(text)
    # An offset out of range is an OverflowError in some of the dates it takes.
    except (ValueError, OverflowError):
        return 0.0
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), MAX_ASKED_PAUSE_S)
