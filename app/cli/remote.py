"""What every command that talks to a service shares: its address, its key, and how an error is told."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from app.client import Client, ClientError, ProblemResponseError

P = ParamSpec("P")
T = TypeVar("T")

EXIT_BAD_REQUEST = 2
EXIT_COULD_NOT_RUN = 4
EXIT_TIMED_OUT = 5


class BadRequestError(click.ClickException):
    """The request is wrong: an answer of the service, or a file that cannot be one."""

    exit_code = EXIT_BAD_REQUEST


class CouldNotRunError(click.ClickException):
    """The service could not be asked, or could not answer."""

    exit_code = EXIT_COULD_NOT_RUN


def with_client(command: Callable[Concatenate[Client, P], T]) -> Callable[..., T]:
    """Give a command ``--url`` and ``--key`` and call it with a client."""

    @click.option(
        "--url", envvar="SEATRIAL_URL", default="http://127.0.0.1:8000", show_default=True, help="Service to talk to."
    )
    @click.option("--key", envvar="SEATRIAL_KEY", help="API key.  [env: SEATRIAL_KEY]")
    @functools.wraps(command)
    def called(*args: Any, url: str, key: str | None, **options: Any) -> T:
        try:
            with Client(url, key) as client:
                return command(client, *args, **options)
        except ClientError as error:
            is_request_wrong = isinstance(error, ProblemResponseError) and 400 <= error.status < 500
            raise (BadRequestError if is_request_wrong else CouldNotRunError)(str(error)) from error

    return called
