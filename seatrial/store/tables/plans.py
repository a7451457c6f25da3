"""Plans and their steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, Leased, utc_now


class PlanRow(Base):
    """Jobs that follow each other."""

    __tablename__ = "plans"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str]
    state: Mapped[str] = mapped_column(default="queued")
    verdict: Mapped[str | None]
    """Of the last step that has one."""
    error: Mapped[dict[str, Any] | None]
    request_id: Mapped[str | None]
    traceparent: Mapped[str | None]
    """Of the request that asked for it, as an audit has them, and given to what is made for it."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (Index("ix_plans_project_id_id", "project_id", "id"),)


class PlanStepRow(Leased, Base):
    """One job of a plan. Leased by the API process that begins or ends it, not while the job itself runs."""

    __tablename__ = "plan_steps"

    id: Mapped[str] = mapped_column(primary_key=True)
    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    kind: Mapped[str]
    params: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="queued")
    job: Mapped[str | None]
    """Id of the audit or the delivery that it waits for, written in the transaction that made it."""
    result: Mapped[dict[str, Any] | None]
    error: Mapped[dict[str, Any] | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("plan_id", "ordinal", name="uq_plan_steps_plan_id_ordinal"),
        Index("ix_plan_steps_state", "state"),
    )
