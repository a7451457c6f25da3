"""Which code works with the schema."""

from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base


class SchemaRow(Base):
    """One row, written after every migration: code that knows the migration ``needs`` works with the schema."""

    __tablename__ = "schema"

    id: Mapped[int] = mapped_column(primary_key=True)
    needs: Mapped[str]
