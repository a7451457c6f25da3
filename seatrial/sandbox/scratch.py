"""Folders for what a process unpacks or writes for a while, found and deleted even where it was killed."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

PREFIX = "seatrial-scratch-"
_LOCK = "lock"


class Scratch:
    """A folder of this process in the system's folder of temporary files, for folders of its children.

    It holds a lock on a file inside for as long as the process lives: the kernel lets go of it however that ends, so
    whoever can take the lock may delete the folder.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent)
        self._parent = parent
        self.path, self._lock = _locked_folder(parent)

    def new_folder(self) -> Path:
        """Return a new empty folder."""
        if not self.path.is_dir():
            # Whatever tidies up that folder takes what looks old.
            self._lock.close()
            self.path, self._lock = _locked_folder(self._parent)
        return Path(tempfile.mkdtemp(dir=self.path))

    def close(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _locked_folder(parent: Path) -> tuple[Path, BinaryIO]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = (path / _LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process that starts now may have taken the lock first, and the folder for a dead one's.
        if (path / _LOCK).exists():
            return path, lock
        lock.close()


def sweep(parent: Path) -> int:
    """Delete the folders of processes that are gone; return how many."""
    swept = 0
    for folder in parent.glob(PREFIX + "*"):
        try:
            # Another user's is not ours to open, nor to delete.
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
        except OSError:
            pass
        finally:
            os.close(lock)
    return swept
