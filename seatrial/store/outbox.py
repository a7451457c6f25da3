"""Telling webhooks what happened: a message is a row, written in the transaction of what it tells.

So there is no moment at which one exists without the other, whatever is killed when; what is sent, and when, is the
business of :mod:`app.webhooks`.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from seatrial.contracts.webhooks import AuditEvent, Filter, WebhookEvent, WebhookMessage
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, DeliveryRow, WebhookRow
from seatrial.store.tables.base import utc_now

EVERY_EVENT = "*"
NOT_PASSED: Filter = "audit.not_passed"


def announce(session: Session, audit_id: str, event: AuditEvent, data: Mapping[str, Any] | None = None) -> None:
    """Leave a message for every enabled webhook of the audit's project that listens to the event.

    Args:
        session: The write transaction of what is told; the audit's row already says it.
        audit_id: What it happened to; nobody is told when there is none.
        event: What happened.
        data: What is told beside the audit's ids, state and verdict, which every message has, or in their place.
    """
    audit = session.execute(
        select(AuditRow.project_id, AuditRow.state, AuditRow.verdict, AuditRow.model_id, AuditRow.dataset_id).where(
            AuditRow.id == audit_id
        )
    ).one_or_none()
    if audit is None:
        return
    told = {
        "audit": audit_id,
        "state": audit.state,
        "verdict": audit.verdict,
        "model": audit.model_id,
        "dataset": audit.dataset_id,
        **(data or {}),
    }
    is_bad_news = event == "audit.judged" and told["verdict"] != "passed"
    # Held until the message is in: were a webhook deleted in between, its foreign key would undo the audit's end.
    enabled = (
        select(WebhookRow.id, WebhookRow.events)
        .where(WebhookRow.project_id == audit.project_id, WebhookRow.is_enabled.is_(True))
        .order_by(WebhookRow.id)
        .with_for_update(read=True, key_share=True)
    )
    for webhook in session.execute(enabled).all():
        if event in webhook.events or EVERY_EVENT in webhook.events or (is_bad_news and NOT_PASSED in webhook.events):
            enqueue(session, webhook.id, event, told)


def enqueue(session: Session, webhook_id: str, event: WebhookEvent, data: Mapping[str, Any]) -> str:
    """Leave a message for one webhook, due now, and return its id."""
    now, message_id = utc_now(), new_id("dlv")
    payload = WebhookMessage(type=event, timestamp=now, data=dict(data)).model_dump(mode="json")
    session.execute(
        insert(DeliveryRow).values(
            id=message_id, webhook_id=webhook_id, event=event, payload=payload, due_at=now, log=[], created_at=now
        )
    )
    return message_id
