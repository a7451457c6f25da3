"""Files of the artifact store that are to go."""

from sqlalchemy import Float
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base


class DiscardRow(Base):
    """A file to delete once its time has come, whoever is alive by then; until then a shard may still adopt it.

    ``due_at`` is in seconds since the epoch by the database's clock.
    """

    __tablename__ = "discards"

    digest: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[float] = mapped_column(Float, index=True)
