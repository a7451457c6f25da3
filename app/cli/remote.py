"""What every command that talks to a service shares: its address, its key, and how an error is shown."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from app.cli.exits import BadRequestError, as_click
from seatrial.client import Client, ClientError
from seatrial.client.connection import DEFAULT_ADDRESS

P = ParamSpec("P")
T = TypeVar("T")

KEY = click.option("--key", envvar="SEATRIAL_KEY", help="API key.  [env: SEATRIAL_KEY]")


@contextmanager
def connected(url: str, key: str | None) -> Iterator[Client]:
    """Give a client of a service.

    Raises:
        BadRequestError: That is not an address.
    """
    try:
        client = Client(url, key)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    with client:
        yield client


def with_client(command: Callable[Concatenate[Client, P], T]) -> Callable[..., T]:
    """Give a command ``--url`` and ``--key`` and call it with a client."""

    @click.option(
        "--url",
        "--server",
        "url",
        envvar="SEATRIAL_URL",
        default=DEFAULT_ADDRESS,
        show_default=True,
        help="Service to talk to.  [env: SEATRIAL_URL]",
    )
    @KEY
    @functools.wraps(command)
    def called(*args: Any, url: str, key: str | None, **options: Any) -> T:
        try:
            with connected(url, key) as client:
                return command(client, *args, **options)
        except ClientError as error:
            raise as_click(error) from error

    return called
