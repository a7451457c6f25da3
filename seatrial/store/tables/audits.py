"""Audit -> check -> stage -> shard, and the events of an audit."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index, UniqueConstraint, desc
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, Deferrable, partial, utc_now

ADVANCEABLE = "state IN ('queued', 'running') AND open_shards = 0"
"""Checks that go on to their next stage or their result. A query must say it in these words: a plan that is made once
for all values of its parameters takes no partial index."""

BEGUN = "state = 'running' AND open_shards = 0"
"""Those of them that have begun, in the same way."""

UNFINISHED = "state IN ('queued', 'running')"
"""Audits that go on, in the same way."""

QUEUED = "state = 'queued'"
"""Shards that wait, in the same way."""


class AuditRow(Base):
    """What was asked, and how it stands."""

    __tablename__ = "audits"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    seed: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int]
    spec: Mapped[dict[str, Any]]
    spec_digest: Mapped[str]
    state: Mapped[str] = mapped_column(default="queued")
    policy: Mapped[dict[str, Any] | None]
    """What it is to be judged by when it has ended: ``source`` and ``document``; null without a gate."""
    baseline: Mapped[str | None]
    """Id of an audit, or name of a baseline, to compare it with then; null for the policy's."""
    verdict: Mapped[str | None]
    error: Mapped[dict[str, Any] | None]
    estimated_s: Mapped[float | None] = mapped_column(Float)
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    """The higher first among the audits of its project."""
    code: Mapped[str | None]
    """Digest of the code that measures it, from its first stage on; null before, and where codes may mix."""
    request_id: Mapped[str | None]
    """Of the request that asked for it, or for the plan or the hardening it is of, as the log has it."""
    traceparent: Mapped[str | None]
    """Context of that request's trace; null where traces are off."""
    event_seq: Mapped[int] = mapped_column(default=0, server_default="0")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_audits_project_id_id", "project_id", "id"),
        Index("ix_audits_project_id_state_id", "project_id", "state", "id"),
        Index("ix_audits_project_id_model_id_id", "project_id", "model_id", "id"),
        Index("ix_audits_state", "state"),
        # What a project's day was spent on.
        Index("ix_audits_project_id_created_at", "project_id", "created_at"),
        # In the order in which a project's audits are claimed.
        Index("ix_audits_next", "project_id", desc("priority"), "id", **partial(UNFINISHED)),
        # The audits still to be judged: few, and looked for often.
        Index("ix_audits_unjudged", "state", **partial("policy IS NOT NULL AND verdict IS NULL")),
    )


class CheckRow(Deferrable, Base):
    """One family run on the audit's model and data. Leased while it is advanced from stage to stage."""

    __tablename__ = "checks"

    id: Mapped[str] = mapped_column(primary_key=True)
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), index=True)
    ordinal: Mapped[int]
    kind: Mapped[str]
    params: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="queued")
    stage: Mapped[str | None]
    open_shards: Mapped[int] = mapped_column(default=0, server_default="0")
    """Shards of the present stage that are not terminal; at 0 the check may be advanced."""
    asked: Mapped[str | None]
    """Digest of all its records follow from but code and machine; null where that is not known, as of an endpoint."""
    measured_with: Mapped[str | None]
    """Digest of the code and the machine of the worker that began it; null before."""
    reused: Mapped[dict[str, Any] | None]
    """The check its records were measured by, where that is an earlier one; see :mod:`seatrial.store.reuse`."""
    looks: Mapped[list[Any] | None]
    """Looks that left it open, in order, where the audit stops when it is decided: ``examples``, ``doubted`` (null: not
    worked out yet)."""
    result: Mapped[dict[str, Any] | None]
    figures: Mapped[dict[str, Any] | None]
    """Artifact digest by figure name."""
    figures_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Size of the figures together; null of figures from before it was told. Of one row: what two share is in both."""
    figure_sizes: Mapped[dict[str, int] | None]
    """Size by artifact digest; null of figures from before it was told."""
    error: Mapped[dict[str, Any] | None]
    estimated_s: Mapped[float | None] = mapped_column(Float)
    spread_low: Mapped[float | None] = mapped_column(Float)
    spread_high: Mapped[float | None] = mapped_column(Float)
    """Between which multiples of the estimate it was to end; see :mod:`seatrial.families.timing`."""
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        # However many have ended: claims and sweeps read what waits and what is held.
        Index("ix_checks_advanceable", "id", **partial(ADVANCEABLE)),
        Index("ix_checks_begun", "audit_id", **partial(BEGUN)),
        Index("ix_checks_held", "lease_until", **partial("token IS NOT NULL")),
        Index("ix_checks_asked", "asked", **partial("asked IS NOT NULL")),
    )


class StageRow(Base):
    """One stage of a check: what it runs over and how it was cut."""

    __tablename__ = "stages"

    check_id: Mapped[str] = mapped_column(ForeignKey("checks.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    ordinal: Mapped[int]
    source: Mapped[str]
    examples: Mapped[int]
    shards: Mapped[int]


class ShardRow(Deferrable, Base):
    """A run of whole batches of one stage: positions ``start`` to ``stop`` of the stage's source."""

    __tablename__ = "shards"

    id: Mapped[str] = mapped_column(primary_key=True)
    check_id: Mapped[str] = mapped_column(ForeignKey("checks.id", ondelete="CASCADE"))
    stage: Mapped[str]
    ordinal: Mapped[int]
    start: Mapped[int]
    stop: Mapped[int]
    state: Mapped[str] = mapped_column(default="queued")
    done: Mapped[int] = mapped_column(default=0, server_default="0")
    records_digest: Mapped[str | None]
    records_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Size of the file; null of records from before it was told."""
    code: Mapped[str | None]
    hardware: Mapped[str | None]
    """Digest of the code, and type of the processor, that measured the records."""
    flags: Mapped[list[Any] | None]
    error: Mapped[dict[str, Any] | None]
    seconds: Mapped[float | None] = mapped_column(Float)
    queries: Mapped[int | None] = mapped_column(BigInteger)
    forward_passes: Mapped[int | None] = mapped_column(BigInteger)
    """Scores asked for, and those the model computed: the rest came from a cache. Null where nothing was asked."""
    saved_digest: Mapped[str | None]
    saved_attempt: Mapped[int | None]
    """The state its family saved last, and in which attempt; null in a shard that has ended."""
    saved_bytes: Mapped[int | None] = mapped_column(BigInteger)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("check_id", "stage", "ordinal", name="uq_shards_check_id_stage_ordinal"),
        Index("ix_shards_state_id", "state", "id"),
        Index("ix_shards_queued", "check_id", "id", **partial(QUEUED)),
        # Whether records may be deleted: nobody else names them.
        Index("ix_shards_records_digest", "records_digest", **partial("records_digest IS NOT NULL")),
        Index("ix_shards_saved", "check_id", **partial("saved_digest IS NOT NULL")),
    )


class EventRow(Base):
    """One thing that happened to an audit; ``seq`` counts per audit, without gaps."""

    __tablename__ = "events"

    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
