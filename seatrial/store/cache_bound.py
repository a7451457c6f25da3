"""How much of a bucket a machine keeps copies of: those that were used last.

A copy is one of many: whatever is deleted here is fetched again. When a copy was used is its time of access, which is
written whatever the disk's own habits; its time of change says whether it has been verified and stays.
"""

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from seatrial.store.private_files import locked_folder

CACHE_BYTES = 20 * 2**30

KEPT_S = 600.0
"""Seconds a copy stays after it was asked for, however little room there is: whoever was given its path opens it, or
links it for a child process, within them."""

_SHARE = 16
"""The copies are looked through whenever one part in so many of the bound has been added, and by this process: among
``n`` processes they take up to ``n`` parts more than the bound."""


class CacheBound:
    """A bound on a folder of copies, which several processes may hold at once.

    Args:
        root: Folder of copies, in folders of their own by the first two digits of their names.
        most_bytes: About how many bytes are kept.
    """

    def __init__(self, root: Path, most_bytes: int) -> None:
        self._root = root
        self._most = most_bytes
        # The first copy is looked at whatever it takes: who knows what is there.
        self._added = most_bytes
        self._guard = threading.Lock()

    def use(self, path: Path) -> bool:
        """Note that a copy is used now, which keeps it for a while; False where there is none."""
        try:
            with locked_folder(path.parent, fcntl.LOCK_SH):
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def grow(self, size_bytes: int) -> None:
        """Note that a copy has come, and make room where there are too many."""
        with self._guard:
            self._added += size_bytes
            if self._added < self._most // _SHARE:
                return
            self._added = 0
        self.shrink()

    def shrink(self) -> int:
        """Delete the copies used longest ago until all of them are within the bound; return how many bytes went."""
        kept: list[tuple[int, int, Path]] = []
        for path in self._root.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 64):
            with suppress(FileNotFoundError):
                status = path.stat()
                kept.append((status.st_atime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in kept) - self._most
        latest = time.time_ns() - int(KEPT_S * 1e9)
        gone = 0
        for used, size, path in sorted(kept):
            if gone >= excess or used > latest:
                break
            gone += size if _delete_unused(path, used) else 0
        return gone


def _delete_unused(path: Path, used: int) -> bool:
    """Delete a copy that nobody has used since ``used``; False where somebody has, or it is gone."""
    with suppress(FileNotFoundError), locked_folder(path.parent, fcntl.LOCK_EX):
        if path.stat().st_atime_ns == used:
            path.unlink()
            return True
    return False
