"""What webhooks are told: the events, and the message of each."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from seatrial.contracts.base import Read

AuditEvent = Literal["audit.succeeded", "audit.failed", "audit.cancelled", "audit.judged", "audit.attested"]
"""What may happen to an audit that somebody wants to be told of."""

WebhookEvent = Literal[AuditEvent, "ping", "plan.notified"]
"""What a message may be about."""

Filter = Literal["audit.not_passed"]
"""Some messages of an event: `audit.judged` with any verdict but `passed`."""

DeliveryStatus = Literal["pending", "delivered", "failed"]
"""`pending`: waits for its time or is being sent; `failed`: will not be tried again by itself."""


class WebhookMessage(Read):
    """The body of a message: the same bytes in every attempt."""

    type: WebhookEvent = Field(description="What happened.", examples=["audit.judged", "audit.attested"])
    timestamp: datetime = Field(description="When it happened (UTC).")
    data: dict[str, Any] = Field(
        description="Of an audit: `audit`, `state`, `verdict` (null before it is judged), `model`, `dataset`: ids to "
        "read the rest with; `audit.judged` also names the `judgement` and its `headline`, `audit.attested` the "
        "judgement that was signed, whose `verdict` it tells, and the `attestation` with its `digest`. Of a ping: "
        "`webhook`. Of a plan, which names the webhook itself: `plan`, "
        "`audit`, `verdict` (the least favourable of its steps), `judgement`, `attestation` and `digest`, null where "
        "it has none, and after a hardening `hardening`, the `model` it made and `accuracy_holds`.",
        examples=[
            {"audit": "aud_...", "state": "succeeded", "verdict": "passed", "model": "mdl_...", "dataset": "dat_..."}
        ],
    )
