"""Workers seen alive."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, utc_now

SCHEDULER = "scheduler"
"""Id of the row that says when the scheduler swept last; it is no worker."""


class WorkerRow(Base):
    """A worker process: told by itself at every sweep, so the API can say when nobody works."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str]
    pid: Mapped[int]
    code: Mapped[str | None]
    """Digest of the code it runs; null of one from before it was told."""
    usage: Mapped[dict[str, Any] | None]
    """Of memory, processor and GPU, when it was seen last: :class:`seatrial.store.worker_usage.WorkerUsage`."""
    started_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_seen_at: Mapped[datetime] = mapped_column(default=utc_now)
