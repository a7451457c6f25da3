"""``seatrial datasets``: upload and list datasets."""

from pathlib import Path

import click

from app.cli.remote import with_client
from app.cli.showing import echo_line
from app.cli.uploads import read_object
from seatrial.client import Client
from seatrial.contracts.datasets import GRID

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def datasets() -> None:
    """Upload and list datasets."""


@datasets.command("add")
@click.argument("file", type=_FILE)
@click.option("--manifest", required=True, type=_FILE, help="JSON file saying what the examples are.")
@with_client
def add_dataset(client: Client, file: Path, manifest: Path) -> None:
    """Upload FILE and print the dataset's id.

    Images: .npz, .parquet or an archive of image folders. Texts: .csv, .jsonl, .parquet, or .conllu of tagged ones.
    """
    dataset = client.add_dataset(file, read_object(manifest))
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
