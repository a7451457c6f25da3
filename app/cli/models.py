"""``seatrial models``: upload and list models."""

from pathlib import Path

import click

from app.cli.remote import with_client
from app.cli.showing import echo_line
from app.cli.uploads import read_object
from seatrial.client import Client

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def models() -> None:
    """Upload and list models."""


@models.command("add")
@click.argument("file", type=_FILE, required=False)
@click.option("--manifest", type=_FILE, help="JSON file saying what the weights in FILE are.")
@click.option("--endpoint", type=_FILE, help="JSON file describing a model behind an HTTP endpoint; in place of FILE.")
@click.option(
    "--wait", default=30, show_default=True, type=click.IntRange(0, 60), help="Seconds to wait for the checks."
)
@with_client
def add_model(client: Client, file: Path | None, manifest: Path | None, endpoint: Path | None, wait: int) -> None:
    """Upload FILE (.safetensors, .pt2 or an archive of a folder), or name an endpoint, and print the model's id."""
    if endpoint is not None and file is None and manifest is None:
        model = client.add_endpoint(read_object(endpoint), wait_s=wait)
    elif endpoint is None and file is not None and manifest is not None:
        model = client.add_model(file, read_object(manifest), wait_s=wait)
    else:
        raise click.UsageError("give FILE and --manifest, or --endpoint alone")
    echo_line(model.id)
    echo_line(f"{model.name} {model.version}: {model.state}", err=True)


@models.command("list")
@with_client
def list_models(client: Client) -> None:
    """List the project's models, newest first."""
    for model in client.models():
        echo_line(f"{model.id}  {model.state:<8}  {model.name} {model.version}")
