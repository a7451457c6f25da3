"""Signatures and secrets of Standard Webhooks (https://www.standardwebhooks.com, specification 1.0, symmetric).

A receiver verifies with any library of that name: the HMAC of id, time and body under the secret, and that the time is
not long ago. During a rotation a message is signed with the new and the old secret, and either verifies it.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

SECRET_PREFIX = "whsec_"  # noqa: S105 - the specification's prefix
# The specification asks for 24 to 64; as long as the digest is what RFC 2104 (section 3) recommends.
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a new secret, 32 random bytes.

    >>> len(base64.b64decode(new_secret().removeprefix(SECRET_PREFIX)))
    32
    """
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature of a message.

    Args:
        secret: As :func:`new_secret` made it.
        message_id: The ``webhook-id``; no dot in it.
        timestamp: The ``webhook-timestamp``, seconds since the epoch.
        body: The bytes sent.

    The example is the specification's own:

    >>> secret, message_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    >>> sign(secret, message_id, 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def signed_headers(secrets_in_force: Sequence[str], message_id: str, sent_at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt; the id is the same in all of them, the time and the signatures are not."""
    timestamp = int(sent_at.timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(secret, message_id, timestamp, body) for secret in secrets_in_force),
    }


def stored(secret: str) -> dict[str, Any]:
    """Return how a secret without an end is stored."""
    return {"secret": secret, "expires_at": None}


def in_force(kept: Sequence[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return the stored secrets that are signed with, the newest first."""
    return [one for one in kept if one["expires_at"] is None or datetime.fromisoformat(one["expires_at"]) > now]


def rotated(kept: Sequence[dict[str, Any]], secret: str, now: datetime, overlap: timedelta) -> list[dict[str, Any]]:
    """Return the stored secrets with a new one in front.

    The one before is signed with until the overlap is over; those before it keep the end they have. Without an overlap
    all of them end at once, as a secret that has leaked must.
    """
    if not overlap:
        return [stored(secret)]
    until = (now + overlap).isoformat()
    before = [{**one, "expires_at": one["expires_at"] or until} for one in in_force(kept, now)]
    return [stored(secret), *before]
