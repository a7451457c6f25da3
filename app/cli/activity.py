"""``seatrial activity``: who did what in a project."""

import json

import click

from app.cli.remote import with_client
from app.cli.showing import echo_line
from seatrial.client import Client
from seatrial.terminals import escaped_line


@click.command()
@click.option("--project", help="Name of the project; the operator may name others than the key's.")
@click.option("--action", help="List only this action, such as audit.deleted.")
@click.option("--subject", help="List only what was done to this: an id, or a name.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def activity(client: Client, /, project: str | None, action: str | None, subject: str | None, limit: int) -> None:
    """List who did what in the project, newest first. Needs a key of scope admin."""
    done = client.activity(action=action, subject=subject, project=project)
    for _, one in zip(range(limit), done, strict=False):
        details = f"  {json.dumps(one.details, ensure_ascii=False)}" if one.details else ""
        told = f"{one.created_at:%Y-%m-%d %H:%M:%S}  {one.actor}  {one.action}  {one.subject}{details}"
        echo_line(escaped_line(told))
