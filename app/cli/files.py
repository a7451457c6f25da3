"""Untrusted files given to a command: a limit on what is read."""

from pathlib import Path

MAX_FILE_BYTES = 64 * 2**20
"""Largest file of settings, a manifest or a policy: 100,000 class names of 200 characters are 20 MB."""


class FileTooLargeError(ValueError):
    """A file holds more than any of its kind."""


def read_limited(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes of a file, ``most`` at most; a device that never ends is refused like a large file.

    Raises:
        OSError: It cannot be read.
        FileTooLargeError: It holds more.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FileTooLargeError(f"it has more than {most:,} bytes")
    return data


def shorten(text: str, most: int = 500) -> str:
    """Return a text that a message may quote.

    >>> shorten("spam" * 2, 5)
    'spams...'
    """
    return text if len(text) <= most else f"{text[:most]}..."
