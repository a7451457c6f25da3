"""Models and datasets."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, select, text
from sqlalchemy.orm import Mapped, column_property, mapped_column

from seatrial.store.tables.access import ProjectRow
from seatrial.store.tables.base import Base, Deferrable, partial, utc_now

# A rejected model does not hold its name: the mended weights may take it.
_NOT_REJECTED = text("state != 'rejected'")

CHECKING = "state = 'checking'"
"""Models that wait for their checks, or are in them: a query must say it in these words, as of audits."""


class ModelRow(Deferrable, Base):
    """A model: its manifest, its bytes (by digest), and what a worker found."""

    __tablename__ = "models"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    project_name: Mapped[str] = column_property(
        select(ProjectRow.name).where(ProjectRow.id == project_id).scalar_subquery()
    )
    """Of its project, read along with it: an operator binds the secrets of endpoints to projects by name."""
    name: Mapped[str]
    version: Mapped[str]
    task: Mapped[str]
    manifest: Mapped[dict[str, Any]]
    digest: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    format: Mapped[str]
    """``safetensors`` (one file) or ``archive`` (a folder, zipped or in a tar)."""
    state: Mapped[str] = mapped_column(default="checking")
    problem: Mapped[dict[str, Any] | None]
    facts: Mapped[dict[str, Any] | None]
    derived_from: Mapped[str | None]
    """Id of the model it was trained from by a hardening."""
    weights_digest: Mapped[str | None]
    """Its weights as one safetensors file, of a hardened model; the file itself where that is one."""
    weights_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Size of that; null where there is none, and of models that were trained before it was told."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        Index(
            "uq_models_project_name_version",
            "project_id",
            "name",
            "version",
            unique=True,
            sqlite_where=_NOT_REJECTED,
            postgresql_where=_NOT_REJECTED,
        ),
        Index("ix_models_project_id_id", "project_id", "id"),
        # Whether a file may be deleted: no row names it.
        Index("ix_models_digest", "digest"),
        Index("ix_models_weights_digest", "weights_digest", **partial("weights_digest IS NOT NULL")),
        Index("ix_models_state", "state"),
        Index("ix_models_checking", "project_id", "id", **partial(CHECKING)),
        Index("ix_models_held", "lease_until", **partial("token IS NOT NULL")),
    )


class DatasetRow(Base):
    """A dataset: its manifest, its bytes (by digest), and the facts read off them."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str]
    version: Mapped[str]
    task: Mapped[str]
    split: Mapped[str]
    manifest: Mapped[dict[str, Any]]
    digest: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    format: Mapped[str]
    facts: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        Index("uq_datasets_project_name_version", "project_id", "name", "version", unique=True),
        Index("ix_datasets_project_id_id", "project_id", "id"),
        Index("ix_datasets_digest", "digest"),
    )
