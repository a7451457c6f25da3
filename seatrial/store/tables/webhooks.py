"""Who is told what happened, and every attempt to tell."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, Leased, utc_now


class WebhookRow(Base):
    """An address that is told of events, signed with its secrets."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    url: Mapped[str]
    events: Mapped[list[Any]]
    description: Mapped[str]
    is_enabled: Mapped[bool] = mapped_column(default=True)
    secrets: Mapped[list[Any]]
    """The one in force first, then those still signed with after a rotation: ``{secret, expires_at}``."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (Index("ix_webhooks_project_id_id", "project_id", "id"),)


class DeliveryRow(Leased, Base):
    """One message to one webhook. Leased by the API process that is sending it; its id is the message's."""

    __tablename__ = "deliveries"

    id: Mapped[str] = mapped_column(primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str]
    payload: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(default="pending")
    """``pending``, ``delivered`` or ``failed``."""
    due_at: Mapped[datetime] = mapped_column(default=utc_now)
    log: Mapped[list[Any]]
    """An entry an attempt: when, status, milliseconds, error."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_deliveries_webhook_id_id", "webhook_id", "id"),
        Index("ix_deliveries_status_due_at", "status", "due_at"),
    )
