"""Projects, API keys, console sessions, idempotent responses."""

from datetime import datetime
from typing import Any

from sqlalchemy import Float, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, utc_now


class ProjectRow(Base):
    """Everything belongs to a project; a key sees its own only."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    weight: Mapped[float] = mapped_column(Float, default=1.0, server_default="1")
    """Its share of the workers is this over the sum of all that have work of the same priority."""
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    """While a project of a higher one has work, it has none of the workers."""
    turn: Mapped[float] = mapped_column(Float, default=0.0, server_default="0")
    """Seconds of workers it has had, over its weight; see :mod:`seatrial.store.claiming`."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class KeyRow(Base):
    """An API key: only its SHA-256 is kept (the secret itself has 256 random bits, so no slow hash is needed)."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    prefix: Mapped[str]
    digest: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]
    """When it stops working by itself; null for never."""
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """Somebody who logged in to the console with a key; only the SHA-256 of the cookie is kept."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(primary_key=True)
    key_digest: Mapped[str]
    """Of the key, in :class:`KeyRow` or the operator's settings: the session is worth what the key is worth now."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime]

    __table_args__ = (Index("ix_sessions_expires_at", "expires_at"),)


class IdempotencyRow(Base):
    """The first response to an Idempotency-Key, kept a day."""

    __tablename__ = "idempotency"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    status: Mapped[int]
    headers: Mapped[dict[str, str]]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (Index("ix_idempotency_created_at", "created_at"),)
