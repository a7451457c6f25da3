"""When a request is sent again, and after how long."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from seatrial.client.errors import ServiceUnreachableError, problem_of
from seatrial.client.steps import Pause, Request, Steps

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
BACKOFF_S = (0.2, 10.0)
"""Seconds before the first repetition, and the most they double to; each is shortened by chance to half at most."""
MAX_ASKED_S = 120.0
"""Longest pause a service is given when it asks for one."""

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def answered(request: Request, retries: int, base_url: object) -> Steps[httpx.Response]:
    """Send a request until it is answered, ``retries`` times more at most, and return the answer.

    One that is not repeatable is sent again only where the service can not have acted on it.

    Raises:
        ProblemResponseError: The service refused.
        ServiceUnreachableError: It did not answer.
    """
    for attempt in range(retries + 1):
        is_last, asked_s = attempt == retries, 0.0
        try:
            answer: httpx.Response = yield request
        except _HOPELESS as error:
            raise ServiceUnreachableError(f"{request.method} {base_url}{request.path}: {error}") from error
        except _NEVER_SENT as error:
            if is_last:
                raise ServiceUnreachableError(f"no service at {base_url}: {error or type(error).__name__}") from error
        except httpx.TransportError as error:
            if is_last or not request.is_repeatable:
                told = error or type(error).__name__
                raise ServiceUnreachableError(f"{request.method} {request.path}: {told}") from error
        else:
            if not answer.is_error:
                return answer
            # Whoever answers 429 has not begun.
            is_repeatable = request.is_repeatable or answer.status_code == 429
            if is_last or not is_repeatable or answer.status_code not in RETRIED_STATUSES:
                raise problem_of(answer)
            asked_s = asked_pause_s(answer)
        yield Pause(max(asked_s, backoff_s(attempt)))
    raise AssertionError("unreachable: the last attempt returns or raises")


def backoff_s(attempt: int) -> float:
    """Return the pause after an attempt, counted from 0; clients cut off together do not come back together."""
    first, most = BACKOFF_S
    return float(min(first * 2**attempt, most)) * random.uniform(0.5, 1.0)  # noqa: S311


def asked_pause_s(answer: httpx.Response) -> float:
    """Return the seconds a Retry-After header asks for (RFC 9110, 10.2.3: a number of seconds, or a date), else 0.

    >>> asked_pause_s(httpx.Response(503, headers={"Retry-After": "7"}))
    7.0
    >>> asked_pause_s(httpx.Response(503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}))
    0.0
    """
    asked = answer.headers.get("Retry-After", "").strip()
    if asked.isdecimal():
        return min(float(asked), MAX_ASKED_S)
    try:
        then = parsedate_to_datetime(asked)
        seconds = (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_ASKED_S)
