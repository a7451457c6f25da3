"""The declarative base, UTC timestamps and the columns of everything that can be leased."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Float, Integer, MetaData, String, TypeDecorator, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC on every database (SQLite forgets the zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC; a naive datetime is a bug of ours."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Read back with the zone."""
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


def partial(condition: str) -> dict[str, Any]:
    """Return the arguments of an index over the rows of a condition, on both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class Base(DeclarativeBase):
    """Base of all rows."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        datetime: UtcDateTime,
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
        dict[str, str]: JSON(none_as_null=True),
        dict[str, int]: JSON(none_as_null=True),
        str: String,
    }


class Leased:
    """Columns of a row a worker may hold: models being checked, checks being advanced, shards being run.

    ``token`` names the claim: every write of a worker is conditional on it, so a worker that slept through its lease
    writes nothing. ``lease_until`` is in seconds since the epoch by the database's clock; without a token it is the
    moment until which nobody may claim the row.
    """

    token: Mapped[str | None] = mapped_column(String, default=None)
    lease_until: Mapped[float | None] = mapped_column(Float, default=None)
    attempts: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    worker: Mapped[str | None] = mapped_column(String, default=None)


class Deferrable(Leased):
    """Columns of what waits for its machine: ``deferrals`` counts how often it did, which are no attempts."""

    deferrals: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
