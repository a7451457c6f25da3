"""``seatrial projects``: how projects share the workers and keep things, on the machine that holds the database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cli.showing import echo, echo_line
from app.projects import repository, service
from seatrial.contracts.near_names import instead
from seatrial.contracts.projects import ProjectChange, Quotas, Retention
from seatrial.store.activity import COMMAND_LINE, Author
from seatrial.store.database import Database, connect
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
    """List projects: weight, priority, the seconds of workers they have had over their weight, and their limits."""
    with _database(home) as database, database.read() as session:
        rows = session.scalars(select(ProjectRow).order_by(ProjectRow.name)).all()
        quotas = repository.find_quotas(session, [row.id for row in rows])
        for row in rows:
            limits = quotas[row.id].model_dump(exclude_none=True)
            told = ", ".join(f"{name} {most:g}" for name, most in limits.items()) or "no limits"
            echo_line(f"{row.name}  weight {row.weight:g}  priority {row.priority}  {row.turn:.0f} s  {told}")


@projects.command("show")
@click.argument("name")
@_HOME
def show(name: str, home: Path | None) -> None:
    """Print the project NAME: its share, what it keeps, what it may use and uses, and what it takes of the disk."""
    with _database(home) as database, database.read() as session:
        told = service.read_project(session, _find(session, name))
    echo(told.model_dump_json(indent=2))


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
    if weight is None and priority is None:
        raise click.UsageError("give --weight, --priority or both")
    _change(name, home, ProjectChange(weight=weight, priority=priority))


_DAYS = click.IntRange(0, 36_500)


@projects.command("keep")
@click.argument("name")
@click.option("--audits", type=_DAYS, help="Days audits are kept from their end; 0: for ever.")
@click.option("--attested-audits", type=_DAYS, help="The same, of audits whose verdict is attested.")
@click.option("--hardenings", type=_DAYS, help="Days hardenings are kept from their end.")
@click.option("--models", type=_DAYS, help="Days models are kept that no audit uses.")
@click.option("--datasets", type=_DAYS, help="Days datasets are kept that no audit uses.")
@_HOME
def keep(name: str, home: Path | None, **days: int | None) -> None:
    """Set for how many days the project NAME keeps things; what is not given stays. Baselines are kept in any case."""
    given = {kind: value or None for kind, value in days.items() if value is not None}
    if not given:
        raise click.UsageError("give --audits, --attested-audits, --hardenings, --models or --datasets")
    _change(name, home, ProjectChange(retention=Retention(**given)))


_WHOLE = click.IntRange(min=-1)
_SECONDS = click.FloatRange(min=-1)


@projects.command("quota")
@click.argument("name")
@click.option("--unfinished-audits", type=_WHOLE, help="Audits and trainings queued or running.")
@click.option("--audit-s", type=_SECONDS, help="Seconds one audit or training may take, as estimated.")
@click.option("--daily-s", type=_SECONDS, help="Seconds the audits and trainings of 24 hours may take, as estimated.")
@click.option("--stored-bytes", type=_WHOLE, help="Bytes of all files of the project.")
@click.option("--requests-per-s", type=_SECONDS, help="Requests a second to each API process.")
@click.option("--open-uploads", type=_WHOLE, help="Uploads open at a time at each API process.")
@_HOME
def quota(name: str, home: Path | None, **limits: float | None) -> None:
    """Set what the project NAME may use at most; -1 is no limit, what is not given stays."""
    given = {limit: None if most == -1 else most for limit, most in limits.items() if most is not None}
    if not given:
        raise click.UsageError("give a limit, as --unfinished-audits 20")
    try:
        change = ProjectChange(quotas=Quotas.model_validate(given))
    except ValidationError as error:
        first = error.errors()[0]
        raise click.UsageError(f"{first['loc'][0]}: {first['msg']}") from error
    _change(name, home, change)


def _change(name: str, home: Path | None, change: ProjectChange) -> None:
    """Change a project as a request does, and print it."""
    with _database(home) as database, database.write() as session:
        row = _find(session, name)
        service.change_project(session, row, change, Author(COMMAND_LINE))
        told = service.read_project(session, row)
    echo(told.model_dump_json(indent=2))


def _find(session: Session, name: str) -> ProjectRow:
    row = repository.find_project(session, name)
    if row is None:
        there = session.scalars(select(ProjectRow.name).order_by(ProjectRow.name)).all()
        raise click.ClickException(f"there is no project {name}{instead(name, there)}; a key for one makes it")
    return row


@contextmanager
def _database(home: Path | None) -> Iterator[Database]:
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    database = connect(Settings(), pool_size=1)
    try:
        yield database
    finally:
        database.dispose()
