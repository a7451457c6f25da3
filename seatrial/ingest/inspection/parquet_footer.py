"""The footer of a Parquet file, measured before Arrow turns it into objects.

Format: https://github.com/apache/parquet-format (``FileMetaData``)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seatrial.ingest.inspection.errors import MalformedFileError, UploadTooLargeError
from seatrial.ingest.inspection.thrift import BINARY, LIST, STRUCT, ThriftError, ThriftReader

MAX_FOOTER_BYTES = 16 * 2**20
"""Largest footer read; that of 5,000 row groups of 10 columns has about 8 MiB."""
MAX_SCHEMA_ELEMENTS = 10_000
MAX_SCHEMA_DEPTH = 64
MAX_CHUNKS = 2**17
"""Most column chunks, row groups times columns: Arrow makes about a kilobyte of each."""
_MAX_VALUES = 4_000_000
_MAGIC = b"PAR1"
_SCHEMA, _ROW_GROUPS, _KEY_VALUES = 2, 4, 5
_CHILDREN, _KEY = 5, 1
_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _CHUNK_METADATA = 1, 2, 3, 3
_INTEGERS = (5, 6)
# Fields of a chunk's metadata, in the order of `ColumnChunk`; the last need not be there.
_CHUNK_FIELDS = (5, 7, 9, 11)
# What Arrow would restore its own types from. A few kilobytes of such a flatbuffer, whose parts may be shared, can
# describe gigabytes of schema; without it a column has the type Parquet gives it.
_STORED_SCHEMA, _IGNORED = b"ARROW:schema", b"arrow_schema"


class ColumnChunk(NamedTuple):
    """Where the pages of a column are in one row group.

    Attributes:
        values: Values it promises, nulls included.
        packed_bytes: Bytes of all its pages.
        data_offset: Of its first data page.
        dictionary_offset: Of its dictionary; 0 where it has none.
    """

    values: int
    packed_bytes: int
    data_offset: int
    dictionary_offset: int


@dataclass
class RowGroup:
    """One row group as the footer describes it."""

    rows: int = 0
    unpacked_bytes: int = 0
    chunks: list[ColumnChunk] = field(default_factory=list)


@dataclass(frozen=True)
class Footer:
    """The end of a file.

    Attributes:
        data: The footer, as a Parquet file without pages.
        groups: Its row groups. Arrow's own view of them ends the process over a histogram of a wrong length.
    """

    data: bytes
    groups: list[RowGroup]


def read_footer(path: Path, *, keep_stored_schema: bool = False) -> Footer:
    """Return the end of a Parquet file after measuring it.

    Args:
        path: The file.
        keep_stored_schema: Whether Arrow may restore its own types: only for files of a person's own.

    Raises:
        MalformedFileError: It is none, or damaged.
        UploadTooLargeError: It describes too many columns or row groups.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if len(end) < 8 or end[4:] != _MAGIC:
            raise MalformedFileError("The Parquet file is truncated or damaged: it does not end as one")
        if length > size - 12:
            raise MalformedFileError(f"The Parquet file is truncated or damaged: its footer claims {length:,} bytes")
        if length > MAX_FOOTER_BYTES:
            raise UploadTooLargeError(
                f"The Parquet file's footer has {length:,} bytes; at most {MAX_FOOTER_BYTES:,} are read: write it with "
                "fewer row groups"
            )
        file.seek(size - 8 - length)
        footer = bytearray(file.read(length))
    try:
        keys, groups = _check(ThriftReader(bytes(footer), _MAX_VALUES))
    except ThriftError as error:
        raise MalformedFileError(f"The Parquet file is truncated or damaged: in its footer, {error}") from error
    for key in keys if not keep_stored_schema else ():
        footer[key - len(_STORED_SCHEMA) : key] = _IGNORED
    return Footer(_MAGIC + bytes(footer) + end, groups)


def _check(reader: ThriftReader) -> tuple[list[int], list[RowGroup]]:
    """Return where the keys of stored schemas end, and the row groups."""
    keys: list[int] = []
    groups: list[RowGroup] = []
    for number, kind in reader.fields():
        if number == _SCHEMA and kind == LIST:
            _check_schema(reader)
        elif number == _ROW_GROUPS and kind == LIST:
            groups = _read_row_groups(reader)
        elif number == _KEY_VALUES and kind == LIST:
            for _ in range(_structs(reader)):
                for inner, inner_kind in reader.fields():
                    if inner != _KEY or inner_kind != BINARY:
                        reader.skip(inner_kind)
                    elif reader.binary() == _STORED_SCHEMA:
                        keys.append(reader.position)
        else:
            reader.skip(kind)
    return keys, groups


def _structs(reader: ThriftReader) -> int:
    count, kind = reader.elements()
    if count and kind != STRUCT:
        raise ThriftError("a list has elements of a wrong type")
    return count


def _check_schema(reader: ThriftReader) -> None:
    count = _structs(reader)
    if count > MAX_SCHEMA_ELEMENTS:
        raise UploadTooLargeError(
            f"The Parquet file has {count:,} columns and fields; at most {MAX_SCHEMA_ELEMENTS:,} are accepted: write "
            "only the columns needed"
        )
    children = []
    for _ in range(count):
        own = 0
        for number, kind in reader.fields():
            if number == _CHILDREN and kind == 5:
                own = reader.integer()
            else:
                reader.skip(kind)
        children.append(own)
    if _depth(children) > MAX_SCHEMA_DEPTH:
        raise UploadTooLargeError(
            f"The Parquet file's columns are nested more than {MAX_SCHEMA_DEPTH} deep: write flat columns"
        )


def _depth(children: Sequence[int]) -> int:
    """Return how deep a tree is, given how many children each element has, parents first.

    >>> _depth([2, 1, 0, 0])
    3
    """
    open_, deepest = [1], 0
    for own in children:
        while open_ and open_[-1] <= 0:
            open_.pop()
        if not open_:
            raise ThriftError("the schema has elements that no other holds")
        open_[-1] -= 1
        open_.append(own)
        deepest = max(deepest, len(open_) - 1)
    return deepest


def _read_row_groups(reader: ThriftReader) -> list[RowGroup]:
    groups = []
    chunks = 0
    for _ in range(_structs(reader)):
        group = RowGroup()
        for number, kind in reader.fields():
            if number == _CHUNKS and kind == LIST:
                count = _structs(reader)
                chunks += count
                if chunks > MAX_CHUNKS:
                    raise UploadTooLargeError(
                        f"The Parquet file has more than {MAX_CHUNKS:,} pieces, row groups times columns: write it "
                        "with a larger row_group_size, or fewer columns"
                    )
                group.chunks = [_read_chunk(reader) for _ in range(count)]
            elif number == _GROUP_ROWS and kind in _INTEGERS:
                group.rows = reader.integer()
            elif number == _GROUP_BYTES and kind in _INTEGERS:
                group.unpacked_bytes = reader.integer()
            else:
                reader.skip(kind)
        if group.rows < 0 or group.unpacked_bytes < 0:
            raise ThriftError("a row group has a negative size")
        groups.append(group)
    return groups


def _read_chunk(reader: ThriftReader) -> ColumnChunk:
    fields: dict[int, int] = {}
    for number, kind in reader.fields():
        if number != _CHUNK_METADATA or kind != STRUCT:
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner in _CHUNK_FIELDS and inner_kind in _INTEGERS:
                fields[inner] = reader.integer()
            else:
                reader.skip(inner_kind)
    values, packed_bytes, data_offset, dictionary_offset = (fields.get(number, 0) for number in _CHUNK_FIELDS)
    if min(values, packed_bytes, data_offset, dictionary_offset) < 0:
        raise ThriftError("a column has a negative size")
    return ColumnChunk(values, packed_bytes, data_offset, dictionary_offset)
