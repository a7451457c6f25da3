"""The pages of a Parquet file's columns, measured before Arrow unpacks them, and how many rows to read at once.

Format: https://github.com/apache/parquet-format (``PageHeader``, ``Encoding``)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from seatrial.ingest.inspection.errors import (
    MalformedFileError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.inspection.parquet_footer import ColumnChunk, RowGroup
from seatrial.ingest.inspection.thrift import STRUCT, ThriftError, ThriftReader

MAX_PAGE_BYTES = 256 * 2**20
"""Largest page unpacked. Writers aim at 1 MiB, and make one page of up to 1,024 images."""
MAX_LIST_BYTES = 256 * 2**20
"""Most bytes of a column of lists in one row group: any of its rows may hold all of them."""
MAX_PAGES = 2**19
BATCH_BYTES = 64 * 2**20
"""Bytes read at once, where a page is not larger."""
MAX_BATCH_ROWS = 2**14

_HEADER_BYTES = 4096
_MAX_HEADER_BYTES = 16 * 2**20
_MAX_HEADER_VALUES = 1000
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
# Which field of a page header describes a page of that kind, and which field of that its encoding.
_HEADER = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
_DICTIONARY_ENCODINGS = frozenset({2, 8})
_PLAIN, _DELTA_LENGTH_BYTE_ARRAY, _DELTA_BYTE_ARRAY = 0, 6, 7
# Levels, an offset and an index: what Arrow needs of a list item besides its bytes. It unpacks lengths first.
_ITEM_BYTES, _DELTA_ITEM_BYTES = 12, 36
_CELL_BYTES = 8


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        kind: Data or dictionary.
        encoding: Of its values, as Parquet numbers them.
        values: Values it holds, nulls included.
        unpacked_bytes: Bytes it unpacks to.
    """

    kind: int
    encoding: int
    values: int
    unpacked_bytes: int

    @property
    def is_delta(self) -> bool:
        """Whether lengths of values are written as differences."""
        return self.encoding in (_DELTA_LENGTH_BYTE_ARRAY, _DELTA_BYTE_ARRAY)


@dataclass
class ColumnPages:
    """The pages of a column in one row group.

    Attributes:
        is_list: Whether a row may have any number of values.
        data: Its data pages.
        dictionary_bytes: Bytes of its dictionary.
    """

    is_list: bool
    data: list[Page] = field(default_factory=list)
    dictionary_bytes: int = 0

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of all its pages."""
        return self.dictionary_bytes + sum(page.unpacked_bytes for page in self.data)

    @property
    def can_stay_dictionary(self) -> bool:
        """Whether Arrow can read it as indices into a dictionary."""
        return all(page.encoding in _DICTIONARY_ENCODINGS or page.encoding == _PLAIN for page in self.data)

    def most_bytes(self, rows: int, *, as_dictionary: bool) -> int:
        """Return the most bytes that any ``rows`` consecutive rows can unpack to.

        Args:
            rows: At least 1.
            as_dictionary: Whether dictionaries are kept; else each value may be the largest there is.
        """
        if self.is_list:
            items = sum(page.values * (_DELTA_ITEM_BYTES if page.is_delta else _ITEM_BYTES) for page in self.data)
            return self.unpacked_bytes + items
        repeated = 0 if as_dictionary or not self.dictionary_bytes else rows * self.dictionary_bytes
        # A value of DELTA_BYTE_ARRAY repeats the beginning of the one before: each may have as many bytes as its page.
        longest = max((p.unpacked_bytes for p in self.data if p.encoding == _DELTA_BYTE_ARRAY), default=0)
        return self.dictionary_bytes + repeated + rows * (longest + _CELL_BYTES) + _window(self.data, rows)


def _window(pages: Sequence[Page], rows: int) -> int:
    """Return the most bytes of pages that ``rows`` consecutive values can lie in."""
    most = inside = values = first = 0
    for last, page in enumerate(pages):
        inside += page.unpacked_bytes
        values += page.values
        # Of the first and the last page, one value each is enough.
        while first < last and values - pages[first].values - page.values > rows - 2:
            inside -= pages[first].unpacked_bytes
            values -= pages[first].values
            first += 1
        most = max(most, inside)
    return most


class PageWalk:
    """Walks the page headers of a file's columns, in any order.

    Args:
        path: The file.
        most_bytes: Most bytes all pages together may unpack to.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._unpacked = 0
        self._pages = 0

    def column(self, file: BinaryIO, group: RowGroup, leaf: int, name: str, *, is_list: bool) -> ColumnPages:
        """Return the pages of a column in a row group.

        Args:
            file: The open file.
            group: The row group.
            leaf: Position of the column, a nested one by its leaf.
            name: Of the column, for messages.
            is_list: Whether a row may have any number of values.

        Raises:
            MalformedFileError: The headers do not parse, or lead out of the file.
            UnsafeArchiveError: They unpack to far more than the file's size.
            UploadTooLargeError: A page is larger than is read at once.
        """
        chunk = group.chunks[leaf] if leaf < len(group.chunks) else None
        if chunk is None or group.rows > chunk.values or (group.rows != chunk.values and not is_list):
            raise MalformedFileError("The Parquet file is damaged: a column has other rows than its row group")
        column = ColumnPages(is_list)
        for page in self._walk(file, chunk):
            if is_list and page.encoding == _DELTA_BYTE_ARRAY:
                raise UnsupportedFormatError(
                    f"The lists in column {name!r:.200} are DELTA_BYTE_ARRAY, in which few bytes may become any "
                    "number: write them with a dictionary, or PLAIN"
                )
            if page.kind == _DICTIONARY:
                column.dictionary_bytes += page.unpacked_bytes
            else:
                column.data.append(page)
        if is_list and column.most_bytes(1, as_dictionary=True) > MAX_LIST_BYTES:
            raise UploadTooLargeError(
                f"The lists in column {name!r:.200} may take more than {MAX_LIST_BYTES:,} bytes in one row group: "
                "write the file with a smaller row_group_size, such as 100000"
            )
        return column

    def _walk(self, file: BinaryIO, chunk: ColumnChunk) -> Iterator[Page]:
        position = chunk.data_offset
        if 0 < chunk.dictionary_offset < position:
            position = chunk.dictionary_offset
        end = position + chunk.packed_bytes
        size = self._path.stat().st_size
        if not 4 <= position <= end <= size:
            raise MalformedFileError("The Parquet file is truncated or damaged: a column lies outside of it")
        values = 0
        # Arrow reads no further than the values it was promised.
        while position < end and values < chunk.values:
            page, header_bytes, packed_bytes = _read_header(file, position, end)
            position += header_bytes + packed_bytes
            if position > end:
                raise MalformedFileError("The Parquet file is truncated or damaged: a page ends outside of its column")
            if page.kind in (_DATA, _DATA_V2):
                values += page.values
            if values > chunk.values or (page.kind == _DICTIONARY and page.values > page.unpacked_bytes):
                raise MalformedFileError("The Parquet file is damaged: a page claims more values than it can have")
            self._add(page)
            if page.kind in (_DATA, _DATA_V2, _DICTIONARY):
                yield page

    def _add(self, page: Page) -> None:
        self._pages += 1
        self._unpacked += page.unpacked_bytes
        if self._pages > MAX_PAGES:
            raise UploadTooLargeError(f"The Parquet file has more than {MAX_PAGES:,} pages: write it with larger ones")
        if page.unpacked_bytes > MAX_PAGE_BYTES:
            raise UploadTooLargeError(
                f"The Parquet file has a page of {page.unpacked_bytes:,} bytes; at most {MAX_PAGE_BYTES:,} are "
                "unpacked at once: write it with a smaller row_group_size, such as 100 for images"
            )
        if self._unpacked > self._most_bytes:
            raise UnsafeArchiveError(
                f"The Parquet file's pages unpack to more than {self._most_bytes:,} bytes, which is far more than its "
                "size: a compression bomb looks like this"
            )


def _read_header(file: BinaryIO, position: int, end: int) -> tuple[Page, int, int]:
    """Return the page at a position, the bytes of its header, and the bytes that follow."""
    want = _HEADER_BYTES
    while True:
        file.seek(position)
        data = file.read(min(want, end - position))
        reader = ThriftReader(data, _MAX_HEADER_VALUES)
        try:
            page, packed_bytes = _parse(reader)
        except ThriftError as error:
            # Statistics may make a header longer than most.
            if len(data) < want or want >= _MAX_HEADER_BYTES:
                raise MalformedFileError(
                    f"The Parquet file is truncated or damaged: in the page at byte {position}, {error}"
                ) from error
            want *= 16
        else:
            return page, reader.position, packed_bytes


def _parse(reader: ThriftReader) -> tuple[Page, int]:
    kind = unpacked = packed = -1
    headers: dict[int, dict[int, int]] = {}
    for number, type_ in reader.fields():
        if number in (1, 2, 3) and type_ == 5:
            value = reader.integer()
            if number == 1:
                kind = value
            elif number == 2:
                unpacked = value
            else:
                packed = value
        elif type_ == STRUCT:
            header = headers.setdefault(number, {})
            for inner, inner_type in reader.fields():
                if inner_type == 5:
                    header[inner] = reader.integer()
                else:
                    reader.skip(inner_type)
        else:
            reader.skip(type_)
    values = encoding = 0
    if kind in _HEADER:
        number, at = _HEADER[kind]
        values, encoding = headers.get(number, {}).get(1, -1), headers.get(number, {}).get(at, -1)
    if min(unpacked, packed, values, encoding) < 0:
        raise ThriftError("the header lacks a size")
    return Page(kind, encoding, values, unpacked), packed


def rows_at_once(columns: Sequence[ColumnPages], as_dictionary: Sequence[bool]) -> int:
    """Return how many rows of a row group to read at once, so that they unpack to about ``BATCH_BYTES`` at most."""
    rows = MAX_BATCH_ROWS
    while rows > 1 and most_bytes(columns, as_dictionary, rows) > BATCH_BYTES:
        rows //= 2
    return rows


def most_bytes(columns: Sequence[ColumnPages], as_dictionary: Sequence[bool], rows: int) -> int:
    """Return the most bytes that any ``rows`` consecutive rows of some columns can unpack to."""
    return sum(column.most_bytes(rows, as_dictionary=kept) for column, kept in zip(columns, as_dictionary, strict=True))
