"""``seatrial keys``: API keys, made on the machine that holds the database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click

from app.access import repository
from app.access.schemas import DEFAULT_PROJECT, SCOPES, ScopeName
from app.access.service import create_key
from app.core.database import Database, connect
from app.core.migrations import upgrade
from app.core.private_files import created_privately
from app.core.settings import Settings

_PAGE = 1000


@click.group()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the SQLite database.  [default: SEATRIAL_HOME or .seatrial]",
)
def keys(home: Path | None) -> None:
    """Make, list and revoke API keys, in the database of the settings."""
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())


@contextmanager
def _database() -> Iterator[Database]:
    with created_privately():
        database = connect(Settings())
        try:
            upgrade(database)
            yield database
        finally:
            database.dispose()


@keys.command()
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(SCOPES), default="run", show_default=True, help="Each contains those before."
)
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project of the key, made when new.")
def create(name: str, scope: str, project: str) -> None:
    """Make a key called NAME and print its secret, which is stored nowhere."""
    with _database() as database:
        try:
            secret, row = create_key(database, project, name, cast(ScopeName, scope))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
    click.echo(secret)
    click.echo(f"{row.id}: scope {scope}, project {project}. Send it as `Authorization: Bearer <key>`.", err=True)


@keys.command("list")
def list_keys() -> None:
    """List the keys of every project, newest first."""
    with _database() as database:
        before: str | None = None
        while True:
            with database.read() as session:
                rows = repository.list_keys(session, None, before=before, limit=_PAGE)
            for row, project in rows:
                state = f"revoked {row.revoked_at:%Y-%m-%d}" if row.revoked_at else "valid"
                click.echo(f"{row.id}  {row.prefix}...  {row.scope:<5}  {project}  {row.name}  {state}")
            if len(rows) < _PAGE:
                return
            before = rows[-1][0].id


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Stop a key from working, within two seconds on every API process."""
    with _database() as database, database.write() as session:
        if repository.find(session, key_id, None) is None:
            raise click.ClickException(f"there is no key {key_id}")
        repository.revoke(session, key_id)
    click.echo(f"{key_id} is revoked.")
