"""``seatrial migrate``: bring the database's schema up to date."""

import os
from pathlib import Path
from typing import cast

import click
from alembic.util import CommandError

from app.cli.showing import echo_line
from seatrial.store import migrations
from seatrial.store.database import Database, connect
from seatrial.store.grants import RoleKind, grant
from seatrial.store.migrations import upgrade
from seatrial.store.private_files import created_privately
from seatrial.store.settings import Settings


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the SQLite database.  [default: SEATRIAL_HOME or .seatrial]",
)
@click.option("--downgrade", metavar="REVISION", help="Take migrations back down to REVISION, or so many steps: -1.")
@click.option("--service-role", help="Postgres role of the API: gets what the API does, and no right to the schema.")
@click.option("--worker-role", help="Postgres role of workers and the scheduler: gets what those do, and nothing else.")
def migrate(home: Path | None, downgrade: str | None, service_role: str | None, worker_role: str | None) -> None:
    """Bring the database to the present schema; safe to run again, and from several places at once.

    With --downgrade it goes back, with this version's command and before an older version is started: what the
    migrations since then had added is dropped, with all that is in it. Back the database up first.

    Run it as the owner of the database. A role that is not there is made with the password in
    SEATRIAL_SERVICE_ROLE_PASSWORD or SEATRIAL_WORKER_ROLE_PASSWORD; what a role has beyond what it needs is taken back.
    """
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    with created_privately():
        database = connect(Settings())
        try:
            if downgrade is not None:
                _downgrade(database, downgrade)
                return
            upgrade(database)
            for kind, role in (("service", service_role), ("worker", worker_role)):
                if role is not None:
                    password = os.environ.get(f"SEATRIAL_{kind.upper()}_ROLE_PASSWORD") or None
                    grant(database, cast(RoleKind, kind), role, password)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        finally:
            database.dispose()
    echo_line("The database's schema is up to date.")
    for role in (service_role, worker_role):
        if role is not None:
            echo_line(f"The role {role} may do what it needs, and nothing else.")


def _downgrade(database: Database, revision: str) -> None:
    try:
        migrations.downgrade(database, revision)
    except CommandError as error:
        raise click.ClickException(f"the schema stays as it is: {error}") from error
    echo_line(f"The database's schema is back at {migrations.current_revision(database) or 'nothing'}.")
