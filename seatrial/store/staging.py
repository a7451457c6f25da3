"""Files on their way into the store: temporary, locked while they are wanted, swept when nobody wants them."""

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

LOCKED_WITHIN_S = 60.0
"""Seconds within which a new file is locked, however busy the machine."""

_LOCKED = "locked-"


class HasStaging(Protocol):
    """What of a store files on their way in are swept from."""

    @property
    def staging_folder(self) -> Path:
        """Where they are, on this machine; it need not be there."""
        ...


def sweep_staging(store: HasStaging, older_than_s: float) -> int:
    """Remove what processes that were killed left among the files on their way in; return how many files that were.

    A file of :func:`temporary_file` is locked for as long as its process lives. Others, and those on disks without
    locks, belong to nobody once nobody has written to them for ``older_than_s``: an upload in progress writes its file
    every few seconds. Only plain files go, and those of other people's folders stay. Safe in several processes at once.
    """
    folder = store.staging_folder
    now = time.time()
    removed = 0
    try:
        entries = list(os.scandir(folder))
    except OSError:
        # Nothing has been stored yet, or the disk is away.
        return 0
    for entry in entries:
        # Another process may have moved or removed it meanwhile.
        with suppress(OSError):
            if not entry.is_file(follow_symlinks=False):
                continue
            age_s = now - entry.stat(follow_symlinks=False).st_mtime
            if age_s > older_than_s or (age_s > LOCKED_WITHIN_S and _is_unlocked(Path(entry.path))):
                os.unlink(entry.path)
                removed += 1
    if removed:
        log.info("removed %d abandoned files from %s", removed, folder)
    return removed


def _is_unlocked(path: Path) -> bool:
    """Return whether a file is one of those that are locked while they are wanted, and nobody has locked it."""
    if not path.name.startswith(_LOCKED):
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # In use, or on a disk without locks.
            return False
    return True


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """Yield the path of a new empty file in ``folder``; whatever is left of it is removed at the end.

    It is locked until then: where the process is killed, :func:`sweep_staging` knows by that whose it is no longer.
    """
    handle, name = tempfile.mkstemp(dir=folder, prefix=_LOCKED)
    path = Path(name)
    try:
        # Not every disk has locks; files there are swept by age alone.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path
    finally:
        os.close(handle)
        path.unlink(missing_ok=True)
