"""``seatrial leaderboard``: models that were audited alike, in the order of one number."""

from typing import Any, Literal, cast

import click

from app.cli.choices import Choice
from app.cli.remote import with_client
from app.cli.showing import echo
from seatrial.client import Client


@click.command()
@click.option("--data", required=True, help="Dataset id.")
@click.option("--check", required=True, help="Kind of the check, as audits name it.")
@click.option("--metric", help="What to sort by.  [default: the first that shipped policies judge]")
@click.option("--against", help="Audit, one of those shown, to measure differences from.")
@click.option("--group", help="Group of audits, where some ran with other parameters.  [default: that of most models]")
@click.option("--across", help="Parameter in which audits may differ: a row for each value.")
@click.option("--beside", help="A second number: which models no other beats in both (the Pareto front).")
@click.option(
    "--format", type=Choice(["markdown", "csv", "json"]), default="markdown", show_default=True, help="Format."
)
@with_client
def leaderboard(client: Client, /, data: str, check: str, format: str, **options: Any) -> None:
    """Print the models audited alike on a dataset, in the order of one number, with intervals and ranks.

    Audits are alike if they are of the same bytes of data, with the same parameters, number of examples and seed.
    """
    if format == "json":
        echo(client.leaderboard(data, check, **options).model_dump_json(indent=2))
    else:
        table = client.leaderboard_table(data, check, cast(Literal["csv", "markdown"], format), **options)
        echo(table.rstrip("\n"))
