"""``seatrial health``: whether the worker here lives, or what it depends on."""

import click
from sqlalchemy.exc import SQLAlchemyError

from app.cli.showing import echo_line
from seatrial import alive
from seatrial.store.database import connect
from seatrial.store.migrations import is_compatible
from seatrial.store.queue import WakeupNotifier
from seatrial.store.settings import Settings


@click.command()
@click.option("--services", is_flag=True, help="Ask the database and the broker instead: whether work could be done.")
def health(services: bool) -> None:
    """Tell whether the worker of this machine or container is alive, and exit with 1 where none does or one hangs.

    It reads what workers and the scheduler leave in SEATRIAL_HOME every few seconds, and opens no connection.
    """
    # A Celery worker at work answers no ping for as long as its shard takes.
    if not services:
        alive.main()
    settings = Settings()
    database = connect(settings, pool_size=1)
    try:
        is_migrated = is_compatible(database)
    except SQLAlchemyError as error:
        raise click.ClickException(f"the database does not answer ({type(error).__name__})") from error
    finally:
        database.dispose()
    if not is_migrated:
        raise click.ClickException("the database's schema is not up to date: run `seatrial migrate`")
    if WakeupNotifier(settings).is_reachable() is False:
        raise click.ClickException("the broker does not answer")
    echo_line("ok")
