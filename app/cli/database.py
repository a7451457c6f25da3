"""``seatrial migrate``: bring the database to the present schema."""

import os
from pathlib import Path

import click

from app.cli.showing import echo_line
from app.core.database import connect
from app.core.migrations import upgrade
from app.core.private_files import created_privately
from app.core.settings import Settings


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the SQLite database.  [default: SEATRIAL_HOME or .seatrial]",
)
def migrate(home: Path | None) -> None:
    """Bring the database to the present schema; safe to run again, and from several places at once."""
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    with created_privately():
        database = connect(Settings())
        try:
            upgrade(database)
        finally:
            database.dispose()
    echo_line("The database has the present schema.")
