"""SQL of webhooks and their deliveries.

Locking: whoever changes a webhook holds its row before touching its deliveries, as a deletion does. The lock does not
keep messages from being left for it (see :mod:`seatrial.store.outbox`).
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.webhooks import DeliveryStatus
from seatrial.store.database import epoch_now
from seatrial.store.tables import DeliveryRow, WebhookRow

PENDING: DeliveryStatus = "pending"


@dataclass(frozen=True)
class Claim:
    """A delivery that is ours to send until the lease ends, and what is needed for it.

    Attributes:
        id: The delivery, and the message.
        token: Names the claim.
        attempts: Counting this one.
        payload: The message.
        log: Entries of the attempts before.
        webhook_id: Who is told.
        project_id: Whose webhook it is.
        url: Where.
        secrets: As stored.
        is_enabled: Whether it still is to be told.
    """

    id: str
    token: str
    attempts: int
    payload: dict[str, Any]
    log: list[Any]
    webhook_id: str
    project_id: str
    url: str
    secrets: list[Any]
    is_enabled: bool


def count(session: Session, project_id: str) -> int:
    """Count the project's webhooks."""
    return session.scalar(select(func.count()).where(WebhookRow.project_id == project_id)) or 0


def find(session: Session, project_id: str, webhook_id: str, *, for_update: bool = False) -> WebhookRow | None:
    """Return a webhook of the project, held for the rest of the transaction with ``for_update``."""
    query = select(WebhookRow).where(WebhookRow.id == webhook_id, WebhookRow.project_id == project_id)
    return session.scalar(query.with_for_update(key_share=True) if for_update else query)


def list_webhooks(session: Session, project_id: str, *, before: str | None, limit: int) -> Sequence[WebhookRow]:
    """Return the project's webhooks, newest first."""
    query = select(WebhookRow).where(WebhookRow.project_id == project_id)
    if before is not None:
        query = query.where(WebhookRow.id < before)
    return session.scalars(query.order_by(WebhookRow.id.desc()).limit(limit)).all()


def remove(session: Session, webhook_id: str) -> None:
    """Delete a webhook and its deliveries."""
    session.execute(delete(WebhookRow).where(WebhookRow.id == webhook_id))


def find_delivery(session: Session, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
    """Return a delivery of a webhook."""
    query = select(DeliveryRow).where(DeliveryRow.id == delivery_id, DeliveryRow.webhook_id == webhook_id)
    return session.scalar(query, execution_options={"populate_existing": True})


def list_deliveries(
    session: Session, webhook_id: str, *, status: DeliveryStatus | None, before: str | None, limit: int
) -> Sequence[DeliveryRow]:
    """Return a webhook's deliveries, newest first."""
    query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
    if status is not None:
        query = query.where(DeliveryRow.status == status)
    if before is not None:
        query = query.where(DeliveryRow.id < before)
    return session.scalars(query.order_by(DeliveryRow.id.desc()).limit(limit)).all()


def _is_free() -> ColumnElement[bool]:
    # Unlike a shard's, a lease that has run out is free at once: the attempt it was for is counted, and nothing that is
    # sent can kill its process.
    return DeliveryRow.lease_until.is_(None) | (DeliveryRow.lease_until < epoch_now())


def _due(now: datetime, busy: Collection[str], crowded: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    others = (DeliveryRow.webhook_id.in_(select(WebhookRow.id).where(WebhookRow.project_id.not_in(crowded))),)
    return (
        DeliveryRow.status == PENDING,
        DeliveryRow.due_at <= now,
        _is_free(),
        DeliveryRow.webhook_id.not_in(busy),
        *(others if crowded else ()),
    )


def is_any_due(session: Session, now: datetime, busy: Collection[str], crowded: Collection[str]) -> bool:
    """Return whether a claim would find something."""
    return session.scalar(select(DeliveryRow.id).where(*_due(now, busy, crowded)).limit(1)) is not None


def claim_due(
    session: Session,
    now: datetime,
    busy: Collection[str],
    crowded: Collection[str],
    *,
    lease_s: float,
    worker: str,
) -> Claim | None:
    """Take the delivery that has been due for longest and that nobody else takes; the attempt is counted here.

    Args:
        session: An open write transaction.
        now: What is due by then.
        busy: Webhooks that are to be left alone.
        crowded: Projects whose webhooks are to be left alone.
        lease_s: Seconds the claim holds.
        worker: Who takes it, for people.
    """
    # SQLite needs no lock: its write transaction excludes every other (and it ignores FOR UPDATE).
    candidates = select(DeliveryRow.id).where(*_due(now, busy, crowded)).order_by(DeliveryRow.due_at, DeliveryRow.id)
    chosen = session.scalar(candidates.limit(1).with_for_update(skip_locked=True))
    if chosen is None:
        return None
    token = secrets.token_hex(16)
    session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.id == chosen)
        .values(token=token, lease_until=epoch_now() + lease_s, worker=worker, attempts=DeliveryRow.attempts + 1)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(
        select(
            DeliveryRow.attempts,
            DeliveryRow.payload,
            DeliveryRow.log,
            DeliveryRow.webhook_id,
            WebhookRow.project_id,
            WebhookRow.url,
            WebhookRow.secrets,
            WebhookRow.is_enabled,
        )
        .join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
        .where(DeliveryRow.id == chosen)
    ).one()
    return Claim(chosen, token, **row._mapping)


def let_go(session: Session, claim: Claim, **values: Any) -> bool:
    """End a claim and write what came of it; False, and nothing is written, when it is no longer ours."""
    statement = (
        update(DeliveryRow)
        .where(DeliveryRow.id == claim.id, DeliveryRow.token == claim.token)
        .values(token=None, lease_until=None, **values)
        .execution_options(synchronize_session=False)
    )
    return bool(session.execute(statement).rowcount)  # type: ignore[attr-defined]


def hold_webhook(session: Session, webhook_id: str) -> WebhookRow | None:
    """Read a webhook and hold it for the rest of the transaction; None when it is gone."""
    return session.scalar(select(WebhookRow).where(WebhookRow.id == webhook_id).with_for_update(key_share=True))


def send_again(session: Session, delivery_id: str, now: datetime) -> bool:
    """Make a delivery due with all its attempts before it; False when it is being sent this moment."""
    statement = (
        update(DeliveryRow)
        .where(DeliveryRow.id == delivery_id, _is_free())
        .values(status=PENDING, due_at=now, attempts=0, finished_at=None, token=None, lease_until=None)
        .execution_options(synchronize_session=False)
    )
    return bool(session.execute(statement).rowcount)  # type: ignore[attr-defined]
