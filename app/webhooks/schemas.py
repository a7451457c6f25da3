"""Bodies of the webhook routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from seatrial.contracts.base import Read, Request
from seatrial.contracts.webhooks import DeliveryStatus, Filter, WebhookEvent, WebhookMessage

Listened = Literal[WebhookEvent, Filter, "*"]

Url = Annotated[str, Field(min_length=10, max_length=2000)]
Events = Annotated[list[Listened], Field(min_length=1, max_length=20)]
Description = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]

_URL = (
    "Where to POST the messages, http or https. Private and local addresses are refused unless the operator allows "
    "their network (SEATRIAL_ENDPOINT_ALLOWED_NETWORKS), at once where they are written out and else when they are "
    "connected to; redirects are not followed. Readers of the project see it: put no password in. An incoming webhook "
    "of Slack (hooks.slack.com) or a workflow of Microsoft Teams is sent a message in its own form instead."
)
_EVENTS = (
    "What to tell: `audit.succeeded`, `audit.failed`, `audit.cancelled`, `audit.judged`, `ping`, `*` for all, or "
    "`audit.not_passed`: of `audit.judged` only those whose verdict is anything but `passed`."
)


class WebhookCreate(Request):
    """Who is to be told of what."""

    url: Url = Field(description=_URL, examples=["https://ci.example.com/hooks/seatrial"])
    events: Events = Field(default=["*"], description=_EVENTS)
    description: Description = Field(default="", description="For people.")


class WebhookChange(Request):
    """What is to be different; what is left out or null stays."""

    url: Url | None = Field(default=None, description=_URL)
    events: Events | None = Field(default=None, description=_EVENTS)
    description: Description | None = Field(default=None, description="For people.")
    is_enabled: bool | None = Field(
        default=None,
        description="Whether it is told. While it is not, new events leave no message, and what is due fails.",
    )


class SecretRotation(Request):
    """How long the old secret goes on."""

    overlap_s: int = Field(
        default=86_400,
        ge=0,
        le=604_800,
        description="Seconds during which messages are signed with the old secret too; 0: every old secret ends at "
        "once, for one that has leaked.",
    )


class WebhookRead(Read):
    """A webhook, without its secret."""

    id: str = Field(description="Identifier.", examples=["whk_..."])
    url: str = Field(description="Where messages go.")
    events: list[Listened] = Field(description="What is told.")
    description: str = Field(description="For people.")
    is_enabled: bool = Field(description="Whether it is told; a receiver that answers 410 ends that.")
    created_at: datetime = Field(description="When it was made (UTC).")


class SecretRead(Read):
    """A new secret, shown this once."""

    secret: str = Field(
        description="Give it to the receiver's Standard Webhooks library. It is not shown again; the database keeps it "
        "readable, since it signs.",
        examples=["whsec_..."],
    )
    previous_until: datetime | None = Field(
        default=None, description="Until when the old secrets are signed with too (UTC); null: they are not."
    )


class WebhookCreated(WebhookRead, SecretRead):
    """A webhook and its secret, shown this once."""


class AttemptRead(Read):
    """One attempt to tell."""

    at: datetime = Field(description="When it began (UTC).")
    status: int | None = Field(description="HTTP status; null when there was no answer.")
    ms: int = Field(description="Milliseconds it took.")
    error: str | None = Field(description="Why it failed; null for a success.")


class DeliveryRead(Read):
    """A message to a webhook and what came of it."""

    id: str = Field(description="Identifier, and the `webhook-id` of every attempt.", examples=["dlv_..."])
    webhook: str = Field(description="Who is told.")
    event: WebhookEvent = Field(description="Event the message is about.")
    status: DeliveryStatus = Field(
        description="`pending`: waits for its time or is being sent; `delivered`; `failed`: not tried again by itself."
    )
    due_at: datetime | None = Field(description="When the next attempt is made (UTC); null when there is none.")
    message: WebhookMessage = Field(description="The body, the same in every attempt.")
    log: list[AttemptRead] = Field(description="The attempts, oldest first; the last 50.")
    created_at: datetime = Field(description="When it happened (UTC).")
    finished_at: datetime | None = Field(description="When it was delivered or given up (UTC).")


WEBHOOK_EXAMPLES: dict[str, Any] = {
    "Verdicts, to a pipeline": {
        "url": "https://ci.example.com/hooks/seatrial",
        "events": ["audit.judged", "audit.failed"],
        "description": "starts the deployment",
    },
    "What did not pass, to a channel": {
        "url": "https://hooks.slack.com/services/T000/B000/XXXX",
        "events": ["audit.not_passed", "audit.failed"],
    },
    "Everything": {"url": "https://example.com/seatrial?team=vision", "events": ["*"]},
}
CHANGE_EXAMPLES: dict[str, Any] = {"Tell it again": {"is_enabled": True}}
ROTATION_EXAMPLES: dict[str, Any] = {
    "Give receivers a day": {"overlap_s": 86_400},
    "It has leaked": {"overlap_s": 0},
}
