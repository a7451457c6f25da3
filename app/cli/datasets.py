"""``seatrial datasets``: upload, list and show datasets."""

from pathlib import Path

import click

from app.cli.deletions import deleting
from app.cli.remote import with_client
from app.cli.showing import echo, echo_line
from app.cli.uploads import pointing_to_manifest, prepare_data
from seatrial.client import Client
from seatrial.contracts.datasets import GRID

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def datasets() -> None:
    """Upload, list and show datasets."""


@datasets.command("add")
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--manifest",
    type=_FILE,
    help="JSON file that describes DATA.  [default: DATA.manifest.json, or inferred from DATA]",
)
@with_client
def add_dataset(client: Client, data: Path, manifest: Path | None) -> None:
    """Upload DATA and print the dataset's id.

    Images: .npz, .parquet, a folder with a folder for each class, or an archive of one. Texts: .csv, .jsonl, .parquet,
    or .conllu of tagged ones.
    """
    prepared = prepare_data(data, manifest, model=None)
    if prepared.source is None:
        raise AssertionError("unreachable: data are a file or a folder")
    with pointing_to_manifest(data, manifest, prepared.task, "--manifest"):
        dataset = client.add_dataset(prepared.source, prepared.manifest)
    echo_line(dataset.id)
    echo_line(f"{dataset.name} {dataset.version}: {dataset.facts.examples} examples", err=True)
    if dataset.facts.on_grid is False:
        echo_line(f"Pixels lie between those of 8 bits: certificates are of images rounded to 1/{GRID:,}.", err=True)


@datasets.command("list")
@with_client
def list_datasets(client: Client) -> None:
    """List the project's datasets, newest first."""
    for dataset in client.datasets():
        echo_line(f"{dataset.id}  {dataset.facts.examples:>8}  {dataset.name} {dataset.version}")


@datasets.command("show")
@click.argument("dataset_id")
@with_client
def show_dataset(client: Client, dataset_id: str) -> None:
    """Print all that is known of a dataset, as JSON."""
    echo(client.dataset(dataset_id).model_dump_json(indent=2))


datasets.add_command(
    deleting("a dataset", "Delete the audits that used it as well; those that are running are never deleted.")
)
