"""When a request is sent again, and after how long; how long an audit is waited for."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from seatrial.client.errors import ServiceUnreachableError, problem_of
from seatrial.client.requests import Request

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
BACKOFF_S = (0.2, 10.0)
"""Seconds before the first repetition, and the most they double to; each is shortened by chance, to half at least."""
MAX_ASKED_S = 120.0
"""Longest pause a service is given when it asks for one."""
POLL_S = (0.2, 2.0)
"""Seconds between two readings of an audit: the first, and the longest it grows to."""
OUTAGE_S = 120.0
"""How long a service may be away while an audit is waited for: a restart must not lose a pipeline its hours."""
JUDGED_S = 60.0
"""How long after its end an audit is given to be judged."""

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def pause_before_retry(
    request: Request, outcome: httpx.Response | httpx.RequestError, *, attempt: int, retries: int, base_url: str
) -> float:
    """Return the seconds to wait before a request is sent again.

    One that is not repeatable is sent again only where the service cannot have acted on it.

    Args:
        request: What was sent.
        outcome: What came of it: a response with an error status, or none.
        attempt: Times it had been sent before.
        retries: Times it may be sent again in all.
        base_url: Where it was sent to.

    Raises:
        ProblemResponseError: The service refused for good.
        ServiceUnreachableError: It did not answer, and is not asked again.
    """
    is_last = attempt >= retries
    if isinstance(outcome, httpx.Response):
        # A service that answers 429 has not begun.
        is_repeatable = request.is_repeatable or outcome.status_code == 429
        if is_last or not is_repeatable or outcome.status_code not in RETRIED_STATUSES:
            raise problem_of(outcome)
        return max(asked_pause_s(outcome), backoff_s(attempt))
    reason = str(outcome) or type(outcome).__name__
    if isinstance(outcome, _NEVER_SENT):
        if is_last:
            raise ServiceUnreachableError(f"no service at {base_url}: {reason}") from outcome
    elif isinstance(outcome, _HOPELESS):
        raise ServiceUnreachableError(f"{request.method} {base_url}{request.path}: {reason}") from outcome
    elif is_last or not request.is_repeatable:
        if isinstance(outcome, httpx.DecodingError):
            reason = f"the body is not what its headers say: {reason}"
        raise ServiceUnreachableError(f"{request.method} {request.path}: {reason}") from outcome
    return backoff_s(attempt)


def backoff_s(attempt: int) -> float:
    """Return the pause after an attempt, counted from 0: drawn, so that clients cut off together return one by one."""
    first, most = BACKOFF_S
    return float(min(first * 2**attempt, most)) * random.uniform(0.5, 1.0)  # noqa: S311


def asked_pause_s(response: httpx.Response) -> float:
    """Return the seconds a Retry-After header asks for (RFC 9110, 10.2.3: a number of seconds, or a date), else 0.

    >>> asked_pause_s(httpx.Response(503, headers={"Retry-After": "7"}))
    7.0
    >>> asked_pause_s(httpx.Response(503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}))
    0.0
    """
    asked = response.headers.get("Retry-After", "").strip()
    if asked.isdecimal():
        return min(float(asked), MAX_ASKED_S)
    try:
        then = parsedate_to_datetime(asked)
        seconds = (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_ASKED_S)
