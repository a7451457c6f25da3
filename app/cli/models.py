"""``seatrial models``: upload, list and show models."""

from pathlib import Path

import click

from app.cli.choices import Choice
from app.cli.deletions import deleting
from app.cli.exits import BadRequestError
from app.cli.progress import say
from app.cli.remote import with_client
from app.cli.showing import echo, echo_line
from app.cli.uploads import prepare_model, read_object
from app.models.folders import HEADS
from seatrial.client import Client
from seatrial.contracts.models import ModelRead, ModelSummary
from seatrial.contracts.states import ModelState

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def models() -> None:
    """Upload, list and show models."""


@models.command("add")
@click.argument("model", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--manifest", type=_FILE, help="JSON file saying what MODEL is.  [default: found in it or beside it]")
@click.option("--version", help="Version.  [default: its manifest's, or a digest of its content]")
@click.option(
    "--task", type=Choice(list(HEADS)), help="Task of a Hugging Face folder that may be for texts or for pairs."
)
@click.option("--endpoint", type=_FILE, help="JSON file describing a model behind an HTTP endpoint; in place of MODEL.")
@click.option(
    "--wait", default=30, show_default=True, type=click.IntRange(0, 60), help="Seconds to wait for the checks."
)
@with_client
def add_model(
    client: Client,
    model: Path | None,
    manifest: Path | None,
    version: str | None,
    task: str | None,
    endpoint: Path | None,
    wait: int,
) -> None:
    """Upload MODEL, or name an endpoint, and print its id.

    MODEL is what `seatrial gate` takes: a folder with manifest.json beside one .safetensors, .pt2 or .onnx, a Hugging
    Face folder with safetensors, one such file or an archive with its manifest beside it, or the manifest of an
    endpoint.
    """
    if (model is None) == (endpoint is None) or (endpoint is not None and (manifest or version or task)):
        raise click.UsageError("give MODEL, or --endpoint alone")
    if endpoint is not None:
        added = client.add_endpoint(read_object(endpoint), wait_s=wait)
    else:
        prepared = prepare_model(model, manifest_path=manifest, version=version, for_task=task, say=say)  # type: ignore[arg-type]
        if prepared.source is None:
            added = client.add_endpoint(prepared.manifest, wait_s=wait)
        else:
            added = client.add_model(prepared.source, prepared.manifest, wait_s=wait)
    echo_line(added.id)
    echo_line(f"{added.name} {added.version}: {added.state}{_why(added)}", err=True)
    if added.state == ModelState.REJECTED:
        raise BadRequestError(f"the model was rejected: seatrial models show {added.id}")


@models.command("list")
@with_client
def list_models(client: Client) -> None:
    """List the project's models, newest first."""
    for model in client.models():
        echo_line(f"{model.id}  {model.state:<8}  {model.name} {model.version}{_why(model)}")


@models.command("show")
@click.argument("model_id")
@with_client
def show_model(client: Client, model_id: str) -> None:
    """Print all that is known of a model, as JSON: its state, why it was rejected, what a worker measured."""
    echo(client.model(model_id).model_dump_json(indent=2))


models.add_command(
    deleting("a model", "Delete the audits that used it as well; those that are running are never deleted.")
)


def _why(model: ModelRead | ModelSummary) -> str:
    """Return why a model was rejected, as the end of a line."""
    return "" if model.problem is None else f": {model.problem.title}. {model.problem.detail}"
