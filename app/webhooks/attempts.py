"""One attempt to tell a webhook, and when the next one is made.

An attempt succeeds with a status from 200 to 299 and with nothing else: a redirect is a failure, since following it
would lead to an address nobody checked.
"""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from app.webhooks.signing import signed_headers
from seatrial.net import Answer, Outbound, OutboundError

log = logging.getLogger(__name__)

MINUTE, HOUR = 60.0, 3600.0

# The first steps of the specification's example, then steps of a night's length: a day in all, seven retries.
PAUSES_S = (5.0, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 8 * HOUR, 8 * HOUR)
JITTER = 0.1
"""Largest change of a pause, as a share of it: receivers that were down are not all asked again in one second."""
MAX_RETRY_AFTER_S = 8 * HOUR
GONE = 410
ANSWER_BYTES = 4096
REASON_CHARS = 200


@dataclass(frozen=True)
class Attempt:
    """What came of one attempt.

    Attributes:
        at: When it began.
        status: HTTP status; None when there was no answer.
        ms: Milliseconds it took.
        error: Why it failed, None when it did not.
        retry_after_s: Seconds the receiver asks to be left alone for.
    """

    at: datetime
    status: int | None
    ms: int
    error: str | None
    retry_after_s: float = 0.0

    def entry(self) -> dict[str, Any]:
        """Return it as the delivery's log keeps it."""
        return {"at": self.at.isoformat(), "status": self.status, "ms": self.ms, "error": self.error}


def attempt(
    outbound: Outbound,
    url: str,
    secrets: Sequence[str],
    message_id: str,
    body: bytes,
    *,
    at: datetime,
    timeout_s: float,
) -> Attempt:
    """Send a message once and return what came of it, whatever that is.

    Args:
        outbound: Client that checks addresses and cuts answers.
        url: Where to.
        secrets: Each gives one signature.
        message_id: The same in every attempt, so that a receiver can tell a repetition.
        body: The same in every attempt.
        at: The signed time.
        timeout_s: Seconds until the answer must be there.
    """
    headers = {"Content-Type": "application/json", **signed_headers(secrets, message_id, at, body)}
    began = time.perf_counter()
    status, error, retry_after_s = None, None, 0.0
    try:
        answer = outbound.post(url, body, headers, timeout_s=timeout_s)
    except OutboundError as failure:
        error = str(failure)
    except Exception:
        # It counts like any other failure: left uncounted it would be tried for ever.
        log.exception("message %s could not be sent", message_id)
        error = "the service made a mistake; its log tells more"
    else:
        status, error = answer.status, complaint(answer)
        retry_after_s = retry_after(answer.headers, at)
    return Attempt(at, status, round(1000 * (time.perf_counter() - began)), error, retry_after_s)


def complaint(answer: Answer) -> str | None:
    r"""Return what is wrong with an answer in a short line, None for a success.

    >>> complaint(Answer(302, {}, b"")), complaint(Answer(204, {}, b""))
    ('answered 302: redirects are not followed', None)
    >>> complaint(Answer(400, {}, b" no\x00\nsuch  channel "))
    'answered 400: no such channel'
    """
    if 200 <= answer.status < 300:
        return None
    if 300 <= answer.status < 400:
        said = "redirects are not followed"
    elif answer.status == GONE:
        said = "the webhook is disabled"
    else:
        text = answer.body.decode("utf-8", "replace")
        printable = "".join(letter if letter.isprintable() else " " for letter in text)
        said = " ".join(printable.split())[:REASON_CHARS]
    return f"answered {answer.status}" + (f": {said}" if said else "")


def retry_after(headers: Mapping[str, str], now: datetime) -> float:
    """Return the seconds of a Retry-After (RFC 9110, section 10.2.3), at most eight hours; 0 without a valid one.

    >>> retry_after({"retry-after": "120"}, datetime.now(UTC)), retry_after({"retry-after": "soon"}, datetime.now(UTC))
    (120.0, 0.0)
    """
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return min(float(told[:20]), MAX_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(told)
    # Besides ValueError, a year beyond what a date holds.
    except (ValueError, OverflowError):
        return 0.0
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_AFTER_S)


def pause_s(attempts: int, *, retry_after_s: float = 0.0) -> float | None:
    """Return how long to wait after a failed attempt, in seconds; None when there is no other.

    Args:
        attempts: Attempts made, at least 1.
        retry_after_s: What the receiver asks for; it makes the pause longer, never shorter.
    """
    if attempts > len(PAUSES_S):
        return None
    spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - guards nothing
    return max(PAUSES_S[attempts - 1] * spread, retry_after_s)
