"""Hardenings: a training, the version it makes of a model, and the pair of audits that tells what it is worth."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.contracts.states import RunState
from seatrial.store.tables.audits import QUEUED
from seatrial.store.tables.base import Base, Deferrable, partial, utc_now

TRAINING, AUDITING = "training", "auditing"
"""Stages: a worker trains; then the API submits the pair of audits and waits for their end."""

OVER = (RunState.SUCCEEDED, RunState.CANCELLED)
"""States that nothing goes on from; from a failure a retry does, with what was trained."""

IN_AUDITS = "state = 'running' AND stage = 'auditing'"
"""Hardenings the API goes on with, in the words of the index."""


class HardeningRow(Deferrable, Base):
    """What was asked, and how it stands. Leased by the worker that trains, not while the audits run."""

    __tablename__ = "hardenings"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    validation_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id"))
    audited_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    method: Mapped[str]
    params: Mapped[dict[str, Any]]
    seed: Mapped[int] = mapped_column(BigInteger)
    spec: Mapped[dict[str, Any]]
    """The request as understood, its policy by the version there was at submission."""
    state: Mapped[str] = mapped_column(default="queued")
    stage: Mapped[str] = mapped_column(default=TRAINING, server_default=TRAINING)
    progress: Mapped[dict[str, Any] | None]
    curves: Mapped[list[Any] | None]
    outcome: Mapped[dict[str, Any] | None]
    """What the worker made: digests of the new version, or its map of logits, and which epoch was kept."""
    hardened_id: Mapped[str | None] = mapped_column(ForeignKey("models.id"))
    audit_before: Mapped[str | None] = mapped_column(ForeignKey("audits.id"))
    audit_after: Mapped[str | None] = mapped_column(ForeignKey("audits.id"))
    result: Mapped[dict[str, Any] | None]
    verdict: Mapped[str | None]
    error: Mapped[dict[str, Any] | None]
    estimated_s: Mapped[float | None] = mapped_column(Float)
    seconds: Mapped[float | None] = mapped_column(Float)
    code: Mapped[str | None]
    hardware: Mapped[str | None]
    """Digest of the code, and type of the processor, that trained."""
    saved_digest: Mapped[str | None]
    saved_attempt: Mapped[int | None]
    saved_bytes: Mapped[int | None] = mapped_column(BigInteger)
    event_seq: Mapped[int] = mapped_column(default=0, server_default="0")
    request_id: Mapped[str | None]
    traceparent: Mapped[str | None]
    """Of the request that asked for it, as an audit has them, and given to what is made for it."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_hardenings_project_id_id", "project_id", "id"),
        Index("ix_hardenings_project_id_state", "project_id", "state"),
        Index("ix_hardenings_project_id_created_at", "project_id", "created_at"),
        Index("ix_hardenings_queued", "project_id", "id", **partial(QUEUED)),
        Index("ix_hardenings_held", "lease_until", **partial("token IS NOT NULL")),
        Index("ix_hardenings_in_audits", "id", **partial(IN_AUDITS)),
    )


class HardeningEventRow(Base):
    """One thing that happened to a hardening; ``seq`` counts per hardening, without gaps."""

    __tablename__ = "hardening_events"

    hardening_id: Mapped[str] = mapped_column(ForeignKey("hardenings.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
