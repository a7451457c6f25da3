"""``seatrial compare``: training runs of models that were audited alike, mean and standard deviation."""

from typing import Literal, cast

import click

from app.cli.choices import Choice
from app.cli.remote import with_client
from app.cli.showing import echo
from seatrial.client import Client


@click.command()
@click.argument("audits", nargs=-1)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME=AUDIT,AUDIT,...",
    help="Audits put together by a name of your own; repeatable.",
)
@click.option("--metric", "metrics", multiple=True, help="Full metric name, * for any qualifier; repeatable.  [all]")
@click.option(
    "--format", type=Choice(["markdown", "csv", "json"]), default="markdown", show_default=True, help="Format."
)
@with_client
def compare(
    client: Client, /, audits: tuple[str, ...], groups: tuple[str, ...], metrics: tuple[str, ...], format: str
) -> None:
    """Print two audits' numbers and their differences; of more, mean and standard deviation over training runs.

    AUDITS are grouped by the name of their model: every version is a training run. Audits that did not run alike (the
    same bytes of data, number of examples and seed) are refused.
    """
    named = {}
    for group in groups:
        name, separator, members = group.partition("=")
        if not (separator and name and members):
            raise click.BadParameter(f"{group!r} is not NAME=AUDIT,AUDIT,...", param_hint="--group")
        if name in named:
            raise click.BadParameter(f"there are two groups named {name!r}", param_hint="--group")
        named[name] = members.split(",")
    if format == "json":
        echo(client.compare(audits, groups=named, metrics=metrics).model_dump_json(indent=2))
    else:
        table = cast(Literal["csv", "markdown"], format)
        echo(client.comparison_table(table, audits, groups=named, metrics=metrics).rstrip("\n"))
