"""Opening a Parquet file nobody vouches for, what its schema says, and its rows, as many at a time as fit.

A few kilobytes can unpack to gigabytes: thousands of rows may name one large value of a dictionary. So dictionaries
stay what they are, page headers are read before pages, and whoever makes values of them counts their bytes.
"""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seatrial.ingest.inspection.errors import MalformedFileError, UnsafeArchiveError, UploadTooLargeError, no_column
from seatrial.ingest.inspection.parquet_footer import MAX_FOOTER_BYTES, RowGroup, read_footer
from seatrial.ingest.inspection.parquet_pages import (
    BATCH_BYTES,
    MAX_BATCH_ROWS,
    ColumnPages,
    PageWalk,
    most_bytes,
    rows_at_once,
)
from seatrial.store.settings import Settings

RATIO_FLOOR_BYTES = 64 * 2**20
"""Up to here, what a file unpacks to is not compared with its size."""
MAX_NAMES_STRUCTURE = 1_000_000


@dataclass(frozen=True)
class ParquetTable:
    """An open Parquet file whose counts are within the limits.

    Attributes:
        path: Where it is.
        file: The ``pyarrow.parquet.ParquetFile``.
        groups: Its row groups.
    """

    path: Path
    file: Any
    groups: Sequence[RowGroup]

    @property
    def schema(self) -> Any:
        """Its Arrow schema."""
        return self.file.schema_arrow


@contextmanager
def open_parquet(path: Path, limits: Settings, *, keep_stored_schema: bool = False) -> Iterator[ParquetTable]:
    """Give an open Parquet file.

    Args:
        path: The file.
        limits: Most rows, and most bytes when unpacked.
        keep_stored_schema: Whether Arrow may restore its own types: only for files of a person's own.

    Raises:
        UploadTooLargeError: Too many rows, columns or row groups, or too many bytes when unpacked.
        MalformedFileError: The file does not parse, now or while it is read.
    """
    try:
        footer = read_footer(path, keep_stored_schema=keep_stored_schema)
        limited = {"thrift_string_size_limit": MAX_FOOTER_BYTES, "thrift_container_size_limit": 1_000_000}
        with pq.ParquetFile(io.BytesIO(footer.data), **limited) as described:
            metadata = described.metadata
        _check_sizes(metadata.num_rows, footer.groups, limits)
        with pq.ParquetFile(path, metadata=metadata, pre_buffer=False, buffer_size=2**20) as file:
            yield ParquetTable(path, file, footer.groups)
    except pa.ArrowMemoryError:
        # Not the file's fault, as far as is known here.
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise MalformedFileError(f"The Parquet file is truncated or damaged: {str(error)[:300]}") from error


def _check_sizes(stated_rows: int, groups: Sequence[RowGroup], limits: Settings) -> None:
    rows = max(stated_rows, sum(group.rows for group in groups))
    if rows > limits.max_examples:
        raise UploadTooLargeError(f"The file has {rows:,} rows; at most {limits.max_examples:,} are accepted")
    unpacked = sum(group.unpacked_bytes for group in groups)
    if unpacked > limits.max_archive_bytes:
        raise UploadTooLargeError(f"The file unpacks to {unpacked:,} bytes; the limit is {limits.max_archive_bytes:,}")


class UnpackedBytes:
    """Counts the bytes that values of a file take, against what a file of its size may unpack to.

    Args:
        path: The file.
        limits: Most bytes, and most bytes per byte of the file.

    Attributes:
        most: Bytes it may unpack to.
    """

    def __init__(self, path: Path, limits: Settings) -> None:
        by_ratio = max(RATIO_FLOOR_BYTES, int(limits.max_compression_ratio * path.stat().st_size))
        self.most = min(by_ratio, limits.max_archive_bytes)
        self._found = 0

    def add(self, count: int) -> None:
        """Take note of ``count`` more bytes.

        Raises:
            UnsafeArchiveError: They are more than the file may unpack to.
        """
        self._found += count
        if self._found > self.most:
            raise UnsafeArchiveError(
                f"The Parquet file's values take more than {self.most:,} bytes, which is far more than its size: the "
                "same values stand in it again and again, as in a compression bomb"
            )


def read_batches(table: ParquetTable, names: Sequence[str], limits: Settings) -> Iterator[Any]:
    """Yield the rows of some columns as record batches, in the order of the file, a bounded number of bytes at a time.

    Strings and bytes that are stored as a dictionary come as one: a value that many rows name is there once.

    Args:
        table: The open file.
        names: Of the columns; a field of a struct as ``column.field``.
        limits: Most bytes the pages may unpack to.

    Raises:
        InspectionError: The pages are damaged, or too large.
    """
    leaves, groups, kept = _measure(table, names, limits)
    schema = table.file.schema
    dictionaries = [schema.column(leaf).path for at, leaf in enumerate(leaves) if kept[at]]
    with pq.ParquetFile(
        table.path, metadata=table.file.metadata, read_dictionary=dictionaries, pre_buffer=False, buffer_size=2**20
    ) as reading:
        # Arrow cannot put two dictionaries into one list or struct.
        are_flat = not any("." in name for name in dictionaries)
        for together, rows in _plan(groups, kept, BATCH_BYTES if are_flat else 0):
            for batch in reading.iter_batches(rows, row_groups=together, columns=list(names), use_threads=False):
                for column in batch.columns:
                    check_indices(column)
                yield batch


def check_indices(column: Any) -> None:
    """Refuse indices that lie outside of their dictionary; Arrow looks at them only where it unpacks dictionaries.

    Args:
        column: An array of any type.

    Raises:
        MalformedFileError: With the first reason.
    """
    if pa.types.is_struct(column.type):
        for position in range(column.type.num_fields):
            check_indices(column.field(position))
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        check_indices(column.flatten())
    elif pa.types.is_dictionary(column.type):
        bounds = pc.min_max(column.indices).as_py()
        if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(column.dictionary):
            raise MalformedFileError("The Parquet file is damaged: a value lies outside of its dictionary")


def stays_dictionary(table: ParquetTable, name: str, limits: Settings) -> bool:
    """Return whether Arrow can read a column of strings or bytes as indices into a dictionary, in every row group.

    Raises:
        InspectionError: Its pages are damaged, or too large.
    """
    _, _, kept = _measure(table, [name], limits)
    return all(kept)


def check_row_groups(table: ParquetTable, name: str, limits: Settings) -> None:
    """Refuse a column that takes more memory in a row group than a worker has, which reads images a group at a time.

    Raises:
        UploadTooLargeError: With the row group and what would be right.
        InspectionError: Its pages are damaged, or too large.
    """
    _, groups, kept = _measure(table, [name], limits)
    for number, columns in enumerate(groups):
        needed = most_bytes(columns, kept, max(table.groups[number].rows, 1))
        if needed > limits.max_batch_bytes:
            raise UploadTooLargeError(
                f"The column {name!r:.200} may take {needed:,} bytes in row group {number}; at most "
                f"{limits.max_batch_bytes:,} are accepted: write the file with a smaller row_group_size, such as 100, "
                "and with a dictionary or PLAIN"
            )


def _measure(
    table: ParquetTable, names: Sequence[str], limits: Settings
) -> tuple[list[int], list[list[ColumnPages]], list[bool]]:
    """Return the leaves of some columns, their pages in each row group, and which can stay a dictionary."""
    walk = PageWalk(table.path, UnpackedBytes(table.path, limits).most)
    schema = table.file.schema
    leaves = [leaf for leaf in range(len(schema)) if _is_of(schema.column(leaf).path, names)]
    columns = [(leaf, schema.column(leaf).path, schema.column(leaf).max_repetition_level > 0) for leaf in leaves]
    with table.path.open("rb") as opened:
        groups = [
            [walk.column(opened, group, leaf, name, is_list=is_list) for leaf, name, is_list in columns]
            for group in table.groups
        ]
    kept = [
        schema.column(leaf).physical_type == "BYTE_ARRAY" and all(group[at].can_stay_dictionary for group in groups)
        for at, leaf in enumerate(leaves)
    ]
    return leaves, groups, kept


def _is_of(path: str, names: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _plan(
    groups: Sequence[Sequence[ColumnPages]], kept: Sequence[bool], most_together: int
) -> Iterator[tuple[list[int], int]]:
    """Yield which row groups to read together, and how many rows at once: small ones together, large ones in parts."""
    together: list[int] = []
    taken = 0
    for number, columns in enumerate(groups):
        rows = rows_at_once(columns, kept)
        needed = most_bytes(columns, kept, rows)
        if together and (rows < MAX_BATCH_ROWS or taken + needed > most_together):
            yield together, MAX_BATCH_ROWS
            together, taken = [], 0
        if rows < MAX_BATCH_ROWS:
            yield [number], rows
        else:
            together.append(number)
            taken += needed
    if together:
        yield together, MAX_BATCH_ROWS


def column_type(schema: Any, name: str, role: str) -> Any:
    """Return the Arrow type of the column that holds ``role``.

    Raises:
        ContentError: There is no such column; it says which there are.
    """
    if schema.names.count(name) != 1:
        raise no_column("The file", role, name, schema.names)
    return schema.field(name).type


def names_in_schema(schema: Any, column: str) -> list[str] | None:
    """Return the class names that the Hugging Face datasets library stores beside the schema.

    Those of a column of class numbers, or of lists of them (which it has written in three ways over the years).
    """
    stored = (schema.metadata or {}).get(b"huggingface", b"{}")
    # A megabyte made of nothing but brackets would parse into a hundred.
    if sum(stored.count(mark) for mark in (b"{", b"[", b":", b",")) > MAX_NAMES_STRUCTURE:
        return None
    try:
        feature = json.loads(stored)["info"]["features"][column]
        if isinstance(feature, list):
            feature = feature[0]
        elif "feature" in feature:
            feature = feature["feature"]
        names = feature["names"]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError):
        return None
    return (
        names if isinstance(names, list) and len(names) >= 2 and all(isinstance(name, str) for name in names) else None
    )
