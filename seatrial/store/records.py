"""Tables of records as bytes: the same rows give the same bytes, however they were cut."""

from collections.abc import Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

# A fixed group size: left to itself, the writer would follow the chunks the table happens to have.
_ROW_GROUP = 65_536
# Rows that hold images are grouped by fewer, so that who reads or writes them holds this many bytes of them.
_GROUP_BYTES = 16 * 2**20
_FIRST_ROWS = 1024
_READ_ROWS = 4096
# Tables, or bytes, that are joined as soon as they are read: of 170 columns each takes 0.3 MB however few its rows.
_TOGETHER, _TOGETHER_BYTES = 32, 4 * 2**20


def to_parquet(table: pa.Table) -> bytes:
    """Return a table as Parquet.

    >>> table = pa.table({"example_id": [3, 1]})
    >>> to_parquet(table) == to_parquet(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    True
    """
    return b"".join(parquet_pieces([table]))


def parquet_pieces(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Yield the Parquet file of tables that follow each other, a group of rows at a time.

    Args:
        tables: At least one, all of one schema. No more of them is held than a group and the table at hand.
    """
    given = iter(tables)
    first, given = _take(given, _FIRST_ROWS)
    rows, schema = _group_rows(first), first.replace_schema_metadata(None).schema
    given, sink = chain([first], given), _Sink()
    del first
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for number in count():
            group, given = _take(given, rows)
            if group.num_rows or not number:
                writer.write_table(group.replace_schema_metadata(None), row_group_size=_ROW_GROUP)
            is_last = group.num_rows < rows
            # Whoever sends the bytes may take long over it.
            del group
            yield from sink.pieces()
            if is_last:
                break
    yield from sink.pieces()


def _group_rows(first: pa.Table) -> int:
    # By the first rows, whatever tables they came in.
    bytes_a_row = first.nbytes / max(1, first.num_rows)
    return _ROW_GROUP if not bytes_a_row else max(_FIRST_ROWS, min(_ROW_GROUP, int(_GROUP_BYTES / bytes_a_row)))


def _take(tables: Iterator[pa.Table], rows: int) -> tuple[pa.Table, Iterator[pa.Table]]:
    """Return the first so many rows as one table, and tables with those that follow."""
    taken: list[pa.Table] = []
    rest: list[pa.Table] = []
    while rows > 0 and (table := next(tables, None)) is not None:
        taken.append(table.slice(0, rows))
        if table.num_rows > rows:
            rest.append(table.slice(rows))
        rows -= table.num_rows
    if not taken:
        return pa.table({}), tables
    return pa.concat_tables(taken).combine_chunks(), chain(rest, tables)


class _Sink:
    """A file that keeps nothing that was fetched from it."""

    closed = False

    def __init__(self) -> None:
        self.written = 0
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self.written += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def pieces(self) -> Iterator[bytes]:
        """Give what was written since the last time, as one."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        if data:
            yield data


class Reads(Protocol):
    """What of a store reads records."""

    def read_bytes(self, digest: str) -> bytes:
        """Return bytes, verified."""
        ...


def read_records(store: Reads, digests: Iterable[str]) -> Any:
    """Return stored tables as one, in that order, each verified as it is read; None when there are none.

    Raises:
        ArtifactMissingError: One of them is gone, or damaged.
    """
    tables = list(joined(store, digests))
    if not tables:
        return None
    whole = pa.concat_tables(tables).combine_chunks()
    del tables
    # Arrow keeps what it let go of: of 100,000 certificates in 400 files as much again as the table takes, 52 MB.
    pa.default_memory_pool().release_unused()
    return whole


def joined(store: Reads, digests: Iterable[str]) -> Iterator[pa.Table]:
    """Yield the rows of stored tables, those of small ones in one piece, each verified as it is read.

    Raises:
        ArtifactMissingError: One of them is gone, or damaged.
    """
    held, size = list[pa.Table](), 0
    for digest in digests:
        # A file's own reader: ``pq.read_table`` makes a dataset of it first, which took as long again (of 128 rows).
        held.append(pq.ParquetFile(pa.BufferReader(store.read_bytes(digest))).read(use_threads=False))
        size += held[-1].nbytes
        if len(held) == _TOGETHER or size >= _TOGETHER_BYTES:
            yield pa.concat_tables(drained(held)).combine_chunks()
            size = 0
    if held:
        yield pa.concat_tables(drained(held)).combine_chunks()


def drained(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables and let go of them."""
    while tables:
        yield tables.pop(0)


def iter_records(store: Reads, digests: Iterable[str], *, offset: int = 0) -> Iterator[Any]:
    """Yield the rows of stored tables from ``offset`` on, in that order, some thousand at a time.

    One file is held at a time, verified as it is read; where no row is left, one table without rows comes.

    Raises:
        ArtifactMissingError: One of them is gone, or damaged.
    """
    schema, has_yielded = None, False
    for digest in digests:
        with pq.ParquetFile(pa.BufferReader(store.read_bytes(digest))) as file:
            schema = file.schema_arrow
            if offset >= file.metadata.num_rows:
                offset -= file.metadata.num_rows
                continue
            for batch in file.iter_batches(batch_size=_READ_ROWS):
                if batch.num_rows > offset:
                    yield pa.Table.from_batches([batch.slice(offset)])
                    has_yielded = True
                offset = max(0, offset - batch.num_rows)
    if schema is not None and not has_yielded:
        yield schema.empty_table()


def read_parquet(paths: Iterable[Path]) -> Any:
    """Return the tables at ``paths`` as one, in that order; None when there are none."""
    tables = [pq.read_table(path, partitioning=None) for path in paths]
    return pa.concat_tables(tables).combine_chunks() if tables else None
