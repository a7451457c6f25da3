"""What every command that talks to a service shares: its address, its key, and how an error is told."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from app.cli.exits import as_click
from app.client import Client, ClientError

P = ParamSpec("P")
T = TypeVar("T")

KEY = click.option("--key", envvar="SEATRIAL_KEY", help="API key.  [env: SEATRIAL_KEY]")


def with_client(command: Callable[Concatenate[Client, P], T]) -> Callable[..., T]:
    """Give a command ``--url`` and ``--key`` and call it with a client."""

    @click.option(
        "--url",
        "--server",
        "url",
        envvar="SEATRIAL_URL",
        default="http://127.0.0.1:8000",
        show_default=True,
        help="Service to talk to.  [env: SEATRIAL_URL]",
    )
    @KEY
    @functools.wraps(command)
    def called(*args: Any, url: str, key: str | None, **options: Any) -> T:
        try:
            with Client(url, key) as client:
                return command(client, *args, **options)
        except ClientError as error:
            raise as_click(error) from error

    return called
