"""Output that is whole or not there: a file written beside and renamed, or standard output."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from app.cli.exits import BadRequestError

# The latter may lead to a file that others write to as well: it must not be replaced.
_STDOUT = (Path("-"), Path("/dev/stdout"))


READER_GONE = 141
"""Exit status of a command whose output is no longer read: 128 + SIGPIPE, as shells say."""


class OutputError(Exception):
    """What was made could not be written; the message says why.

    Not an ``OSError``: code that reads a file takes those for damage to it.
    """


class ReaderGoneError(OutputError):
    """The reader of standard output has closed it."""


class Output:
    """Takes bytes.

    Args:
        file: Where they go.
        name: For messages.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.closed = False

    def write(self, data: bytes, /) -> int:
        """Write bytes.

        Raises:
            ReaderGoneError: The other end of a pipe is closed.
            OutputError: The disk is full, or the like.
        """
        try:
            return self._file.write(data)
        except OSError as error:
            raise self._error(error) from error

    def flush(self) -> None:
        """Let everything arrive, or raise as :meth:`write` does."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> OutputError:
        kind = ReaderGoneError if isinstance(error, BrokenPipeError) else OutputError
        return kind(f"{self._name} cannot be written: {error.strerror or error}")


@contextmanager
def whole_file(path: Path | None) -> Iterator[Output]:
    """Give what writes to a file that is there, renamed, once the block has ended well.

    None and ``-`` are standard output.
    A file that was there before stays as it is when the block fails. A pipe or a device is written to as it is.

    Raises:
        BadRequestError: It cannot be written.
        OutputError: It could not be written to its end.
    """
    if path is None or path in _STDOUT:
        output = Output(sys.stdout.buffer, "standard output")
        yield output
        output.flush()
        return
    # Through a link: the file it leads to is replaced, not the link.
    target = path.resolve()
    is_special = target.exists() and not target.is_file()
    part = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("wb" if is_special else "xb")
    except OSError as error:
        raise BadRequestError(f"{path} cannot be written: {error.strerror}") from error
    output = Output(file, str(path))
    try:
        yield output
        output.flush()
        file.close()
        if not is_special:
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
    finally:
        # What could not be flushed cannot be at closing either, and has been reported.
        with suppress(OSError):
            file.close()
        if not is_special:
            part.unlink(missing_ok=True)


def forget_stdout() -> None:
    """Keep Python from writing, at its end, to a pipe nobody reads."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
