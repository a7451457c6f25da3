"""``seatrial policies`` and ``seatrial baselines``: what a gate asks for, and what it compares with."""

from pathlib import Path

import click

from app.cli.gate_files import read_gate_file
from app.cli.remote import with_client
from app.cli.showing import echo, echo_line
from seatrial.client import Client
from seatrial.terminals import json_text

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def policies() -> None:
    """Store, list and show policies."""


@click.group()
def baselines() -> None:
    """Promote audits to baselines, and list those."""


@policies.command("add")
@click.argument("file", type=_FILE)
@with_client
def add_policy(client: Client, file: Path) -> None:
    """Store the policy in FILE (YAML or JSON) and print its name and version; storing it again gives the same version.

    Its checks are part of the policy; what it says about samples, seed and stop is not.
    """
    read = read_gate_file(file)
    stored = client.add_policy(read.policy())
    echo_line(f"{stored.name}@{stored.version}")
    echo_line(stored.id, err=True)
    if left := [name for name in ("samples", "seed", "stop") if getattr(read, name) is not None]:
        echo_line(f"Not stored, as no part of a policy: {', '.join(left)}. Give them with the audit.", err=True)


@policies.command("list")
@click.option("--name", help="List only policies of this name.")
@click.option("--shipped", is_flag=True, help="List the policies that come with Seatrial.")
@with_client
def list_policies(client: Client, name: str | None, shipped: bool) -> None:
    """List the project's policies in all their versions, newest first."""
    for policy in client.policies(name=name, shipped=True if shipped else None):
        # A policy of another version of Seatrial may look different.
        said, description = policy.document.get("rules"), str(policy.document.get("description", ""))
        rules = len(said) if isinstance(said, list) else 0
        echo_line(f"{policy.name}@{policy.version}  {rules} rules  {description.partition(chr(10))[0]}".rstrip())


@policies.command("show")
@click.argument("reference")
@with_client
def show_policy(client: Client, reference: str) -> None:
    """Print a policy as JSON, by its id, name, name@version, or the name of a shipped one."""
    echo(json_text(client.policy(reference).document, indent=2))


@baselines.command()
@click.argument("audit_id")
@click.option("--name", default="champion", show_default=True, help="Name of the baseline.")
@click.option("--note", default="", help="Why, for people to read.")
@with_client
def promote(client: Client, audit_id: str, name: str, note: str) -> None:
    """Make a succeeded audit what later audits of models of the same name are compared with."""
    promoted = client.promote(audit_id, name, note=note)
    echo_line(f"{promoted.model}: {promoted.name} is {promoted.audit}")


@baselines.command("list")
@click.option("--model", help="List only baselines of models of this name.")
@click.option("--name", help="List only baselines of this name.")
@with_client
def list_baselines(client: Client, model: str | None, name: str | None) -> None:
    """List baselines and those they replaced, newest first."""
    for one in client.baselines(model=model, name=name):
        state = "in force" if one.is_current else "replaced"
        line = f"{one.model}  {one.name}  {one.audit}  {one.created_at:%Y-%m-%d %H:%M}  {state}  {one.note}"
        echo_line(line.rstrip())
