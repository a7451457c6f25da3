"""Everything a command prints goes through here: values come from uploads, services and files of unknown origin."""

import sys
from pathlib import Path

import click

from seatrial.terminals import escaped, escaped_line


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a text of one or several lines."""
    click.echo(escaped(text), err=err)


def echo_line(text: str = "", *, err: bool = False) -> None:
    """Print a text that is one line, whatever the values in it hold."""
    click.echo(escaped_line(text), err=err)


def echo_styled(text: str) -> None:
    """Print a line with colours; whoever styled it has escaped what it is made of."""
    click.echo(text)


def put_report(content: bytes, output: Path | None) -> None:
    """Write a report to a file, or to standard output: as it is into a pipe, escaped onto a terminal."""
    if output is not None:
        output.write_bytes(content)
    elif sys.stdout.isatty():
        echo(content.decode("utf-8", "replace").replace("\r\n", "\n"))
    else:
        sys.stdout.buffer.write(content)


def show_error(error: click.ClickException) -> None:
    """Print what a command ends with."""
    escape_error(error)
    error.show()


def escape_error(error: click.ClickException) -> None:
    """Make an error printable wherever it is shown."""
    # Click declares it final.
    error.__dict__["message"] = escaped(error.message)
