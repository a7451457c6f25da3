"""``seatrial audit delete``, ``models delete``, ``datasets delete``, ``harden delete``, ``tombstones``, ``sweep``."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from app.cli.remote import with_client
from app.cli.showing import echo, echo_line
from seatrial.client import Client
from seatrial.contracts.deletions import TombstoneRead
from seatrial.store.artifacts import open_store
from seatrial.store.database import connect
from seatrial.store.releasing import KEPT_S, sweep_released, sweep_unnamed
from seatrial.store.settings import Settings
from seatrial.store.staging import sweep_staging


def deleting(kind: str, what_goes_along: str) -> click.Command:
    """Return the command that deletes something of a kind."""

    @click.command("delete", help=f"Delete {kind}, for ever; a tombstone stays. Needs a key of scope admin.")
    @click.argument("subject_id", metavar="ID")
    @click.option("--cascade", is_flag=True, help=what_goes_along)
    @with_client
    def delete(client: Client, subject_id: str, cascade: bool) -> None:
        calls: dict[str, Callable[..., TombstoneRead]] = {
            "an audit": client.delete_audit,
            "a model": client.delete_model,
            "a dataset": client.delete_dataset,
        }
        gone = calls[kind](subject_id, cascade=cascade)
        echo_line(f"{gone.subject} ({gone.name}) is deleted{and_along(gone)}: seatrial tombstones show {gone.subject}")

    return delete


@click.command("delete")
@click.argument("hardening_id")
@with_client
def delete_hardening(client: Client, /, hardening_id: str) -> None:
    """Delete a hardening that has ended, for ever; the version it made, its audits and a tombstone stay.

    Needs a key of scope admin.
    """
    gone = client.delete_hardening(hardening_id)
    echo_line(f"{gone.subject} ({gone.name}) is deleted: seatrial tombstones show {gone.subject}")


def and_along(gone: TombstoneRead) -> str:
    """Return how many audits and hardenings were deleted along with something, as the end of a clause."""
    kinds = Counter("hardening" if one.startswith("hrd_") else "audit" for one in gone.along)
    told = [f"{number:,} {kind}{'' if number == 1 else 's'}" for kind, number in sorted(kinds.items())]
    return f", and {' and '.join(told)} along with it" if told else ""


@click.group()
def tombstones() -> None:
    """See what was deleted, by whom and when."""


@tombstones.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def list_tombstones(client: Client, /, limit: int) -> None:
    """List what was deleted, newest first."""
    for _, one in zip(range(limit), client.tombstones(), strict=False):
        along = f"  with {one.cascade_of}" if one.cascade_of else ""
        echo_line(f"{one.subject}  {one.deleted_at:%Y-%m-%d %H:%M}  by {one.actor}  {one.name}{along}")


@tombstones.command("show")
@click.argument("subject_id", metavar="ID")
@with_client
def show_tombstone(client: Client, subject_id: str) -> None:
    """Print all that stays of something deleted, as JSON: how it ended, and what was signed of it."""
    echo(client.tombstone(subject_id).model_dump_json(indent=2))


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be deleted.")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder everything is written under.  [default: SEATRIAL_HOME or .seatrial]",
)
def sweep(dry_run: bool, home: Path | None) -> None:
    """Delete the files of the store that nothing names, on a machine that reaches database and store.

    API processes do it daily. Files stored within the hour stay: their rows may be on their way.
    """
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    settings = Settings()
    database, store = connect(settings, pool_size=1), open_store(settings)
    files = size = 0
    try:
        if not dry_run:
            sweep_staging(store, settings.staging_kept_s)
            freed = sweep_released(database, store)
            files, size = freed.files, freed.size_bytes
        for digest, size_bytes in sweep_unnamed(database, store, kept_s=KEPT_S, dry_run=dry_run):
            echo_line(f"{digest}  {size_bytes:,} bytes")
            files, size = files + 1, size + size_bytes
    finally:
        database.dispose()
    echo_line(f"{'Would delete' if dry_run else 'Deleted'} {files:,} files, {size:,} bytes.")
