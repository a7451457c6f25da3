"""Files that are the service's own: what it creates is closed to every other user of the machine.

Uploaded models and datasets, the digests of keys, the secrets webhooks are signed with: all of it lies below one
folder, and a machine may have other users.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UMASK = 0o077
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def created_privately() -> Iterator[None]:
    """Create files for this user only, 0600 and 0700, inside the block; a process started there inherits it."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(path: Path) -> Path:
    """Make a folder, and those above it that are missing, for this user only; one that is there stays as it is."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path) -> None:
    """Make an empty file for this user only, unless there is one."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """Return those of the paths that another user of the machine may read or change.

    What lies below a folder that is closed is closed too, whatever its own mode says.
    """
    return [path for path in paths if path.exists() and _is_open(path) and not any(map(_is_closed, path.parents))]


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & OTHERS)


def _is_closed(folder: Path) -> bool:
    """Return whether others may not pass through a folder; what cannot be looked at is not ours to judge."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IXGRP | stat.S_IXOTH)
