"""``seatrial keys``: API keys, created on the machine that holds the database."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from app.access import repository
from app.access.schemas import DEFAULT_PROJECT, MAX_EXPIRY_DAYS, SCOPES, ScopeName
from app.access.service import create_key
from app.cli.choices import Choice
from app.cli.showing import echo_line
from seatrial.store.activity import COMMAND_LINE, Author
from seatrial.store.database import Database, connect
from seatrial.store.migrations import upgrade
from seatrial.store.private_files import created_privately
from seatrial.store.settings import Settings
from seatrial.store.tables import KeyRow
from seatrial.store.tables.base import utc_now

_PAGE = 1000
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


if TYPE_CHECKING:
    _TimeParam = click.ParamType[timedelta]
else:
    # Not generic before click 8.4.
    _TimeParam = click.ParamType


class Lifetime(_TimeParam):
    """A time such as ``90d``, ``12h`` or ``30m``.

    >>> Lifetime().convert("90d", None, None)
    datetime.timedelta(days=90)
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the time, or end the command with what would be right."""
        match = re.fullmatch(r"([1-9][0-9]{0,7})([dhm])", str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration: write 90d, 12h or 30m", param, ctx)
        lifetime = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if lifetime > timedelta(days=MAX_EXPIRY_DAYS):
            self.fail(f"{value} is more than {MAX_EXPIRY_DAYS:,} days: without it a key never expires", param, ctx)
        return lifetime


def _use(_context: click.Context, _param: click.Parameter, home: Path | None) -> None:
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())


_HOME = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_use,
    expose_value=False,
    help="Folder of the SQLite database.  [default: SEATRIAL_HOME or .seatrial]",
)


@click.group()
@_HOME
def keys() -> None:
    """Create, list and revoke API keys in the configured database."""


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
@click.option("--scope", type=Choice(SCOPES), default="run", show_default=True, help="Each includes those before it.")
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project of the key; created if new.")
@click.option(
    "--expires-in",
    type=Lifetime(),
    help="How long it is valid: 90d, 12h, 30m (days, hours, minutes).  [default: until it is revoked]",
)
@_HOME
def create(name: str, scope: str, project: str, expires_in: timedelta | None) -> None:
    """Create a key called NAME and print its secret, which is not stored."""
    with _database() as database:
        try:
            expires_at = None if expires_in is None else utc_now() + expires_in
            secret, row = create_key(database, project, name, cast(ScopeName, scope), expires_at=expires_at)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
    echo_line(secret)
    until = "" if row.expires_at is None else f", until {row.expires_at:%Y-%m-%d %H:%M} UTC"
    echo_line(f"{row.id}: scope {scope}, project {project}{until}. Send it as `Authorization: Bearer <key>`.", err=True)


@keys.command("list")
@_HOME
def list_keys() -> None:
    """List the keys of every project, newest first."""
    with _database() as database:
        before: str | None = None
        while True:
            with database.read() as session:
                rows = repository.list_keys(session, None, before=before, limit=_PAGE)
            for row, project in rows:
                echo_line(f"{row.id}  {row.prefix}...  {row.scope:<5}  {project}  {row.name}  {_state(row)}")
            if len(rows) < _PAGE:
                return
            before = rows[-1][0].id


def _state(row: KeyRow) -> str:
    if row.revoked_at is not None:
        return f"revoked {row.revoked_at:%Y-%m-%d}"
    if row.expires_at is None:
        return "valid"
    return f"{'expired' if row.expires_at <= utc_now() else 'valid until'} {row.expires_at:%Y-%m-%d %H:%M} UTC"


@keys.command()
@click.argument("key_id")
@_HOME
def revoke(key_id: str) -> None:
    """Revoke a key: it stops working within two seconds on every API process."""
    with _database() as database, database.write() as session:
        if repository.find(session, key_id, None) is None:
            raise click.ClickException(f"there is no key {key_id}")
        repository.revoke(session, key_id, Author(COMMAND_LINE))
    echo_line(f"{key_id} is revoked.")
