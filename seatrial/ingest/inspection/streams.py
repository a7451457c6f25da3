"""What stands between the container libraries and bytes nobody vouches for."""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from seatrial.ingest.inspection.errors import MalformedFileError, UnsafeArchiveError, UploadTooLargeError

CHUNK_BYTES = 2**20
MAX_READ_BYTES = 64 * 2**20
"""Most bytes a container library may ask for at once: a zip directory, a piece of a tar entry."""
MAX_TAR_HEADER_BYTES = 2**20
"""Most bytes between two entries of a tar: long names and the extended attributes of one file.

A header of 64 MiB made of short records would parse into gigabytes of strings.
"""


@contextmanager
def readable_archive() -> Iterator[None]:
    """Turn what the container libraries raise over damaged bytes into one error."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        gzip.BadGzipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        struct.error,
        NotImplementedError,
        RecursionError,
        OverflowError,
        UnicodeError,
        ValueError,
        KeyError,
        IndexError,
    ) as error:
        reason = str(error) or type(error).__name__
        raise MalformedFileError(f"The archive is truncated or damaged: {reason:.300}") from error


class EntryStream(io.RawIOBase):
    """A stream that must give exactly the bytes declared for it."""

    def __init__(self, stream: io.BufferedIOBase | BinaryIO | object, size: int, name: str) -> None:
        self._stream = cast(BinaryIO, stream)
        self._left = size
        self._name = name

    def readable(self) -> bool:
        """Return whether it can be read: always."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; raises when they end early or do not end."""
        wanted = self._left if size < 0 else size
        with readable_archive():
            chunk = self._stream.read(wanted) if wanted else b""
        self._left -= len(chunk)
        if self._left < 0 or (not chunk and wanted and self._left):
            raise MalformedFileError(f"The archive entry {self._name!r} does not have the size it declares")
        if not self._left:
            # The checksum of a zip entry is compared when its end is reached.
            with readable_archive():
                self._stream.read(1)
        return chunk


class ZipSource(io.RawIOBase):
    """A zip file whose central directory is measured before ``zipfile`` turns it into objects."""

    def __init__(self, file: BinaryIO, size: int, max_entries: int) -> None:
        self._file = file
        self._size = size
        self._max_entries = max_entries

    def readable(self) -> bool:
        """Return whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Return whether it can be positioned."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._size}[whence]
        if not 0 <= start + offset < 2**63:
            raise MalformedFileError("The archive is truncated or damaged: its directory points outside of it")
        return self._file.seek(start + offset)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; raises before a directory beyond the limits is parsed."""
        wanted = size if size >= 0 else max(self._size - self._file.tell(), 0)
        if min(wanted, self._size) > MAX_READ_BYTES:
            raise UnsafeArchiveError(f"The archive's directory alone claims {wanted:,} bytes")
        data = self._file.read(wanted)
        if wanted > CHUNK_BYTES and data.count(b"PK\x01\x02") > self._max_entries:
            raise UploadTooLargeError(f"The archive has more than {self._max_entries:,} entries")
        return data


class TarSource(io.RawIOBase):
    """A tar stream read forwards only, in bounded pieces, up to a number of bytes."""

    def __init__(self, file: BinaryIO, most: int, most_by_ratio: int | None) -> None:
        self._file = file
        self._most = most
        self._most_by_ratio = most_by_ratio
        self._position = 0
        self._headers_begin = 0
        self.last_read = b""

    def readable(self) -> bool:
        """Return whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Return whether it can be positioned."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def pass_headers(self, position: int) -> None:
        """Take note that the bytes before ``position`` are an entry's, and what follows are headers again."""
        self._headers_begin = position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position and return it."""
        if whence != io.SEEK_SET or offset < self._position:
            raise MalformedFileError("The archive's entries point backwards")
        while self._position < offset and self.read(min(CHUNK_BYTES, offset - self._position)):
            pass
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; raises beyond the limits."""
        in_headers = self._position + size - self._headers_begin if self._position >= self._headers_begin else 0
        if not 0 <= size <= MAX_READ_BYTES or in_headers > MAX_TAR_HEADER_BYTES:
            raise UnsafeArchiveError(
                f"The archive has an extension header of {max(size, in_headers):,} bytes; at most "
                f"{MAX_TAR_HEADER_BYTES:,} are read before an entry: pack it without extended attributes"
            )
        data = self._file.read(size)
        self.last_read = data
        self._position += len(data)
        if self._position > self._most:
            raise UploadTooLargeError(f"The archive unpacks to more than {self._most:,} bytes")
        if self._most_by_ratio is not None and self._position > self._most_by_ratio:
            raise UnsafeArchiveError(
                "The archive unpacks to far more than its size: a compression bomb looks like this"
            )
        return data

    def skip_to_end(self) -> None:
        """Read what follows the last entry, so that a damaged gzip trailer is noticed."""
        self._headers_begin = 2**63
        while self.read(CHUNK_BYTES):
            pass
