"""A folder as the .tar the API takes, made while it is sent: nothing is written, and its size costs no memory.

Names in order, no times, no owners: the same files are the same bytes, and so the same upload again.
"""

import io
import tarfile
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import IO, Literal, cast


class FolderArchive:
    """An uncompressed tar of files, readable as often as it must be sent.

    Args:
        name: What the service calls it in messages.
        files: By their name in the archive.

    Raises:
        OSError: A file cannot be looked at.
    """

    def __init__(self, name: str, files: Mapping[str, Path]) -> None:
        self.name = name
        self._parts: list[tuple[bytes | Path, int]] = []
        for inside, path in sorted(files.items()):
            size = path.stat().st_size
            header = _header(inside, size)
            padding = -size % tarfile.BLOCKSIZE
            self._parts += [(header, len(header)), (path, size), (bytes(padding), padding)]
        self._parts.append((bytes(2 * tarfile.BLOCKSIZE), 2 * tarfile.BLOCKSIZE))

    def open(self, mode: Literal["rb"] = "rb", /) -> IO[bytes]:
        """Return the archive's bytes from the beginning."""
        return cast(IO[bytes], io.BufferedReader(_Parts(self._parts)))


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry.tobuf(tarfile.PAX_FORMAT)


class _Parts(io.RawIOBase):
    """Bytes and files one after the other."""

    def __init__(self, parts: list[tuple[bytes | Path, int]]) -> None:
        self._parts = [part for part in parts if part[1]]
        self._ends = list(accumulate(size for _, size in self._parts))
        self._position = 0
        self._opened: tuple[Path, IO[bytes]] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._ends[-1]}[whence]
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        number = bisect_right(self._ends, self._position)
        if number == len(self._parts):
            return 0
        content, size = self._parts[number]
        inside = self._position - (self._ends[number] - size)
        wanted = min(len(buffer), size - inside)
        data = content[inside : inside + wanted] if isinstance(content, bytes) else self._read(content, inside, wanted)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _read(self, path: Path, position: int, size: int) -> bytes:
        if self._opened is None or self._opened[0] != path:
            self._leave()
            self._opened = (path, path.open("rb"))
        file = self._opened[1]
        file.seek(position)
        data = file.read(size)
        if not data:
            raise OSError(f"{path} became shorter while it was sent")
        return data

    def _leave(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def close(self) -> None:
        self._leave()
        super().close()
