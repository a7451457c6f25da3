"""``seatrial search`` and ``seatrial tag``."""

from typing import Any, get_args

import click

from app.cli.choices import Choice
from app.cli.exits import OF_VERDICT
from app.cli.remote import with_client
from app.cli.showing import echo_line
from seatrial.client import Client
from seatrial.contracts.tags import SearchHit, SearchKind
from seatrial.reporting.numbers import format_interval, format_value
from seatrial.terminals import escaped_line


@click.command()
@click.option("--of", type=Choice(get_args(SearchKind)), default="audits", show_default=True, help="What to list.")
@click.option("--name", help="Part of the name; of an audit that of its model or its dataset.")
@click.option("--tag", multiple=True, help="A tag it has; may be repeated: it has all of them.")
@click.option("--digest", help="Beginning of its SHA-256, 8 digits at least.")
@click.option("--verdict", type=Choice(list(OF_VERDICT)), help="Verdict, of audits.")
@click.option("--metric", help="A number of audits, by its full name.")
@click.option("--at-least", type=float, help="Least value of the metric that counts.")
@click.option("--at-most", type=float, help="Largest value of the metric that counts.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def search(client: Client, /, limit: int, **asked: Any) -> None:
    """List models, datasets or audits by name, tag, digest, verdict and the value of a number, newest first."""
    for _, hit in zip(range(limit), client.search(**asked), strict=False):
        echo_line(escaped_line(_line(hit)))


@click.command()
@click.argument("subject")
@click.argument("tags", nargs=-1)
@click.option("--remove", multiple=True, help="A tag to take off; may be repeated.")
@with_client
def tag(client: Client, /, subject: str, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Put TAGS on SUBJECT, the id of a model, a dataset or an audit, and print those it has then."""
    changed = client.tag(subject, tags, remove=remove) if tags or remove else client.tags(subject)
    for one in changed:
        echo_line(one)


def _line(hit: SearchHit) -> str:
    told = [hit.id, f"{hit.created_at:%Y-%m-%d %H:%M}", hit.verdict or hit.state or "-", hit.name]
    if hit.estimate is not None:
        told.append(" ".join(one for one in (format_value(hit.estimate), format_interval(hit.estimate)) if one))
    return "  ".join([*told, *(f"#{one}" for one in hit.tags)])
