"""When a request is sent again, and after how long; how long an audit is waited for."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from seatrial.client.deadlines import time_left_s
from seatrial.client.errors import DeadlineError, ProblemResponseError, ServiceUnreachableError, problem_of
from seatrial.client.requests import Request

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
BACKOFF_S = (0.2, 10.0)
"""Seconds before the first repetition, and the most they double to; each is shortened by chance, to half at least."""
MAX_ASKED_S = 120.0
"""Longest pause a service is given when it asks for one."""
RATE_LIMITS = ("requests_per_s", "open_uploads")
"""Quotas that a pause is enough for; all others are used up until something ends, is deleted or a day has passed."""
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
        ProblemResponseError: The service refused for good, or for longer than :data:`MAX_ASKED_S`.
        ServiceUnreachableError: It did not answer, and is not asked again.
        DeadlineError: The pause would go beyond the time that is left.
    """
    pause_s, reason = _pause_and_reason(request, outcome, attempt=attempt, retries=retries, base_url=base_url)
    left_s = time_left_s()
    if left_s is not None and pause_s > left_s:
        raise DeadlineError(f"no time is left to ask again: {reason}") from reason
    return pause_s


def _pause_and_reason(
    request: Request, outcome: httpx.Response | httpx.RequestError, *, attempt: int, retries: int, base_url: str
) -> tuple[float, Exception]:
    is_last = attempt >= retries
    if isinstance(outcome, httpx.Response):
        # A service that answers 429 has not begun.
        is_repeatable = request.is_repeatable or outcome.status_code == 429
        problem = problem_of(outcome)
        asked_s = asked_pause_s(outcome)
        is_hopeless = outcome.status_code == 429 and (is_used_up(problem) or asked_s > MAX_ASKED_S)
        if is_last or is_hopeless or not is_repeatable or outcome.status_code not in RETRIED_STATUSES:
            raise problem
        return max(min(asked_s, MAX_ASKED_S), backoff_s(attempt)), problem
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
    return backoff_s(attempt), ServiceUnreachableError(f"{request.method} {request.path}: {reason}")


def is_used_up(problem: ProblemResponseError) -> bool:
    """Return whether a quota of the project refused a request, one that no pause of a client gives room again.

    >>> is_used_up(ProblemResponseError({"code": "quota-exceeded", "limit": {"name": "daily_s"}}))
    True
    >>> is_used_up(ProblemResponseError({"code": "quota-exceeded", "limit": {"name": "requests_per_s"}}))
    False
    >>> is_used_up(ProblemResponseError({"code": "quota-exceeded", "limit": {"name": "open_uploads", "most": 0}}))
    True
    """
    told = problem.problem.get("limit")
    limit = told if isinstance(told, dict) else {}
    is_rate = limit.get("name") in RATE_LIMITS and limit.get("most") != 0
    return problem.problem.get("code") == "quota-exceeded" and not is_rate


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
        return float(asked)
    try:
        then = parsedate_to_datetime(asked)
        seconds = (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(seconds, 0.0)
