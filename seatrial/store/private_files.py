"""Files that are the service's own: what it creates is closed to every other user of the machine.

Uploaded models and datasets, the digests of keys, the secrets webhooks are signed with: all of it lies below one
folder, and a machine may have other users.
"""

import fcntl
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

UMASK = 0o077
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass
class _Blocks:
    """The blocks of :func:`created_privately` that threads of this process are in.

    A process has one umask: the first to come closes it and the last to go opens it again. Were each to put back what
    it found, one would open what another still writes, or leave it closed for good.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    entered: int = 0
    before: int = 0


_blocks = _Blocks()


@contextmanager
def created_privately() -> Iterator[None]:
    """Create files for this user only, 0600 and 0700, inside the block; a process started there inherits it."""
    with _blocks.lock:
        if _blocks.entered == 0:
            _blocks.before = os.umask(UMASK)
        _blocks.entered += 1
    try:
        yield
    finally:
        with _blocks.lock:
            _blocks.entered -= 1
            if _blocks.entered == 0:
                os.umask(_blocks.before)


def private_folder(path: Path) -> Path:
    """Make a folder, and those above it that are missing, for this user only; one that is there stays as it is."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    return path


@contextmanager
def locked_folder(folder: Path, mode: int) -> Iterator[None]:
    """Hold a folder's lock, where its disk has locks: many store at once, and nobody while one deletes.

    Args:
        folder: Which.
        mode: ``fcntl.LOCK_SH`` or ``fcntl.LOCK_EX``.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


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
