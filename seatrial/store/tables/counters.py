"""Counts of what happened."""

from sqlalchemy import Float
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base


class CounterRow(Base):
    """One count: what is counted, and the values of its labels as a JSON list in the order of their names."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(primary_key=True)
    labels: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[float] = mapped_column(Float)
