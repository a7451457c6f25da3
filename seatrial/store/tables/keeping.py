"""What is kept and what is not: tombstones, files to free, how long a project keeps things, who did what."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, utc_now


class TombstoneRow(Base):
    """What was deleted, when and by whom, with all that others may have relied on; never changed."""

    __tablename__ = "tombstones"

    id: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(unique=True)
    """Id of what was deleted: ``mdl_``, ``dat_``, ``aud_`` or ``hrd_``."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    kind: Mapped[str]
    name: Mapped[str]
    """Name and version of a model or a dataset; of an audit or a hardening, those of its model."""
    details: Mapped[dict[str, Any]]
    """See :mod:`seatrial.store.tombstones`."""
    actor: Mapped[str]
    """Id of the key, ``operator`` or ``retention``."""
    cascade_of: Mapped[str | None]
    """What it was deleted along with."""
    created_at: Mapped[datetime]
    """When what was deleted had been made."""
    deleted_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        Index("ix_tombstones_project_id_id", "project_id", "id"),
        Index("ix_tombstones_project_id_kind_created_at", "project_id", "kind", "created_at"),
        Index("ix_tombstones_cascade_of", "cascade_of"),
    )


class ReleaseRow(Base):
    """A file that something deleted had named; a sweep deletes it unless other rows name it.

    Not a :class:`~seatrial.store.tables.files.DiscardRow`, whose file nobody else can name. ``due_at`` is in seconds
    since the epoch by the database's clock.
    """

    __tablename__ = "releases"

    digest: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[float] = mapped_column(Float, index=True)


class RetentionRow(Base):
    """How long a project keeps what is of a kind; without a row, for ever."""

    __tablename__ = "retentions"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    keep_days: Mapped[int]


class ActivityRow(Base):
    """One thing somebody did; never changed, never deleted."""

    __tablename__ = "activity"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    actor: Mapped[str]
    """Id of the key, ``operator``, ``command line`` or ``retention``."""
    action: Mapped[str]
    subject: Mapped[str]
    """Id or name of what it was done to."""
    details: Mapped[dict[str, Any]]
    request_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (Index("ix_activity_project_id_id", "project_id", "id"),)


class QuotaRow(Base):
    """What a project may use at most; null, and no row, for without limit."""

    __tablename__ = "quotas"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    unfinished_audits: Mapped[int | None]
    audit_s: Mapped[float | None] = mapped_column(Float)
    daily_s: Mapped[float | None] = mapped_column(Float)
    stored_bytes: Mapped[int | None] = mapped_column(BigInteger)
    requests_per_s: Mapped[float | None] = mapped_column(Float)
    open_uploads: Mapped[int | None]
