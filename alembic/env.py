"""Runs migrations on the database of the settings, or on the connection a caller hands over."""

from alembic import context

from seatrial.store.database import connect
from seatrial.store.settings import get_settings
from seatrial.store.tables import Base
from seatrial.store.tables.base import UtcDateTime


def render_item(kind, item, _autogenerate):
    """Write our column types as the plain ones they are in the database, so that migrations import nothing of ours."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def run(connection) -> None:
    """Run the migrations asked for."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        render_item=render_item,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with connect(get_settings()).engine.begin() as opened:
        run(opened)
