"""Words people put on models, datasets and audits."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, utc_now


class TagRow(Base):
    """A tag on a model, a dataset or an audit: it changes no number and no digest."""

    __tablename__ = "tags"

    subject_id: Mapped[str] = mapped_column(primary_key=True)
    """Id of what it is on: ``mdl_``, ``dat_`` or ``aud_``."""
    tag: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (Index("ix_tags_project_id_tag_subject_id", "project_id", "tag", "subject_id"),)
