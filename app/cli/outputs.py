"""The files a verdict is written to."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from app.cli.exits import BadRequestError
from app.cli.progress import say
from app.client import Client, ClientError

C = TypeVar("C", bound=Callable[..., Any])

FORMATS = {
    "junit": "JUnit XML, one test case per rule, here.",
    "sarif": "SARIF 2.1.0 here.",
    "markdown": "Markdown for a pull-request comment here.",
    "html": "the report, one HTML file, here.",
    "json": "the report as JSON here.",
}
BUNDLE = "bundle"
_PATH = click.Path(dir_okay=False, path_type=Path)


def output_options(command: C) -> C:
    """Give a command an option per file it can write."""
    command = click.option(f"--{BUNDLE}", type=_PATH, help="Write what `seatrial replay` runs again here.")(command)
    for name, help_text in reversed(FORMATS.items()):
        command = click.option(f"--{name}", type=_PATH, help=f"Write {help_text}")(command)
    return command


@dataclass(frozen=True)
class Outputs:
    """Files to write, by format."""

    paths: dict[str, Path]

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "Outputs":
        """Take the options of :func:`output_options` out of a command's, and return them checked.

        What an earlier run left there goes: a pipeline that ends without a verdict must not publish the last one's.

        Raises:
            BadRequestError: A file could not be written: better known before hours of work than after.
        """
        given = {name: options.pop(name) for name in (*FORMATS, BUNDLE)}
        paths = {name: path for name, path in given.items() if path is not None}
        for path in paths.values():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadRequestError(f"{path} cannot be written: {error.strerror}") from error
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise BadRequestError(f"{path} cannot be written: permission denied")
            _remove_earlier(path)
        return cls(paths)

    def write(self, client: Client, audit_id: str) -> bool:
        """Write all that can be had, and return whether that is all; what is missing is told."""
        is_whole = True
        for name, path in self.paths.items():
            try:
                if name == BUNDLE:
                    client.bundle(audit_id, path)
                else:
                    path.write_bytes(client.report(audit_id, name))
            except (ClientError, OSError) as error:
                say(f"{path} is not written: {error}")
                is_whole = False
        return is_whole


def _remove_earlier(path: Path) -> None:
    # /dev/stdout is a link, and nothing that an earlier run wrote.
    if path.is_symlink() or not path.is_file():
        return
    try:
        path.unlink()
    except OSError as error:
        raise BadRequestError(f"{path} cannot be replaced: {error.strerror}") from error
