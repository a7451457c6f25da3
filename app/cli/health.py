"""``seatrial health``: whether this process could do its work."""

import click
from sqlalchemy.exc import SQLAlchemyError

from app.cli.showing import echo_line
from seatrial.store.database import connect
from seatrial.store.migrations import is_current
from seatrial.store.queue import WakeupNotifier
from seatrial.store.settings import Settings


@click.command()
def health() -> None:
    """Check the database and the broker, and exit with 1 when one is unavailable. For container health checks."""
    # A Celery worker at work answers no ping for as long as its shard takes, so what it depends on is asked instead.
    settings = Settings()
    database = connect(settings, pool_size=1)
    try:
        is_migrated = is_current(database)
    except SQLAlchemyError as error:
        raise click.ClickException(f"the database does not answer ({type(error).__name__})") from error
    finally:
        database.dispose()
    if not is_migrated:
        raise click.ClickException("the database's schema is not up to date: run `seatrial migrate`")
    if WakeupNotifier(settings).is_reachable() is False:
        raise click.ClickException("the broker does not answer")
    echo_line("ok")
