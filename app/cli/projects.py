"""``seatrial projects``: how projects share the workers, on the machine that holds the database."""

import os
from pathlib import Path

import click
from sqlalchemy import select, update

from app.cli.showing import echo_line
from seatrial.store.database import connect
from seatrial.store.settings import Settings
from seatrial.store.tables import ProjectRow

_HOME = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder everything is written under.  [default: SEATRIAL_HOME or .seatrial]",
)


@click.group()
def projects() -> None:
    """See and set how projects share the workers."""


@projects.command("list")
@_HOME
def list_projects(home: Path | None) -> None:
    """List projects with their weights, priorities and the seconds of workers they have had, over their weights."""
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    database = connect(Settings(), pool_size=1)
    try:
        with database.read() as session:
            for row in session.scalars(select(ProjectRow).order_by(ProjectRow.name)):
                echo_line(f"{row.name}  weight {row.weight:g}  priority {row.priority}  {row.turn:.0f} s")
    finally:
        database.dispose()


@projects.command("share")
@click.argument("name")
@click.option("--weight", type=click.FloatRange(0.01, 1000), help="Share of the workers, beside the others' weights.")
@click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    help="While projects of a higher one have work, those of a lower one have none of the workers.",
)
@_HOME
def share(name: str, weight: float | None, priority: int | None, home: Path | None) -> None:
    """Set the weight and the priority of the project NAME; what is not given stays."""
    values = {key: value for key, value in (("weight", weight), ("priority", priority)) if value is not None}
    if not values:
        raise click.UsageError("give --weight, --priority or both")
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    database = connect(Settings(), pool_size=1)
    try:
        with database.write() as session:
            changed = session.execute(update(ProjectRow).where(ProjectRow.name == name).values(**values))
            if not changed.rowcount:  # type: ignore[attr-defined]
                raise click.ClickException(f"there is no project {name}: a key for it makes it")
            row = session.execute(select(ProjectRow.weight, ProjectRow.priority).where(ProjectRow.name == name)).one()
        echo_line(f"{name}: weight {row.weight:g}, priority {row.priority}")
    finally:
        database.dispose()
