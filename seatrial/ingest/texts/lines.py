"""Lines of a text file nobody vouches for: UTF-8, bounded, counted."""

from typing import BinaryIO, Self

from seatrial.ingest.inspection.errors import ContentError
from seatrial.store.settings import Settings

_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_OTHER_COLUMNS_BYTES = 4 * 2**20
# JSON may write a character as \ud83d\ude00, and a pair has two texts.
_BYTES_PER_CHARACTER = 24


def most_row_bytes(limits: Settings) -> int:
    """Return the most bytes a row may take, whatever it turns out to hold."""
    return _OTHER_COLUMNS_BYTES + _BYTES_PER_CHARACTER * limits.max_text_chars


class Lines:
    """The lines of an open file, each with its line end; never more than one row of them in memory.

    Attributes:
        number: Number of the line given last, counted from 1.
        max_bytes: Most bytes of a line, and of all lines of a row.
    """

    def __init__(self, file: BinaryIO, limits: Settings) -> None:
        self._file = file
        self._row_bytes = 0
        self._row_start = 1
        self.number = 0
        self.max_bytes = most_row_bytes(limits)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            ContentError: It is not UTF-8 text, or the row it belongs to has no end.
        """
        raw = self._file.readline(self.max_bytes + 1)
        if not raw:
            raise StopIteration
        self.number += 1
        self._row_bytes += len(raw)
        if self._row_bytes > self.max_bytes:
            raise ContentError(
                f"The row that begins in line {self._row_start} does not end within {self.max_bytes:,} bytes: is a "
                "line break missing, a closing double quote, or the blank line after a sentence?"
            )
        if self.number == 1:
            if raw.startswith(_UTF_16):
                raise ContentError("The file is in UTF-16: save it as UTF-8 (in Excel: CSV UTF-8)")
            raw = raw.removeprefix(_BOM)
        if b"\0" in raw:
            raise ContentError(f"Line {self.number} holds a NUL byte: a table of texts has none; save it as UTF-8 text")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ContentError(
                f"Line {self.number} is not UTF-8 (byte 0x{raw[error.start]:02X} after "
                f"{raw[max(error.start - 20, 0) : error.start].decode('utf-8', 'replace')!r}): save the file as UTF-8"
            ) from error

    def begin_row(self) -> None:
        """Take note that the next line begins a new row."""
        self._row_bytes = 0
        self._row_start = self.number + 1
