"""Stored records of which columns are read one at a time: what is large lies in a file meanwhile, not in memory."""

import os
import tempfile
import weakref
from collections.abc import Iterable
from itertools import chain
from typing import Any

import pyarrow as pa

from seatrial.store.records import Reads, drained, joined

HELD_BYTES = 32 * 2**20
"""Bytes of records that stay in memory: those of 10,000 certificates, or of 100,000 with few columns."""


class ColumnFile:
    """Records in a file of its own that ends with it; :class:`~seatrial.statistics.samples.ByColumn`.

    Args:
        tables: At least one, all of one schema, in order.
    """

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        # Where a worker's child unpacks as well; it has no name that could be left behind.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        given = iter(tables)
        table = next(given)
        self.num_rows, self.column_names = 0, list(table.column_names)
        self._fields = {name: pa.schema([table.schema.field(name)]) for name in self.column_names}
        self._pieces: dict[str, list[tuple[int, int]]] = {name: [] for name in self.column_names}
        while table is not None:
            self._write(table)
            # Let go of before the next is made.
            table = None
            table = next(given, None)
        self._file.flush()

    def _write(self, table: pa.Table) -> None:
        self.num_rows += table.num_rows
        for name in self.column_names:
            for batch in table.select([name]).to_batches():
                # Each column a message of its own: of one with more, memory for all of them is taken to read one.
                piece = batch.serialize()
                self._pieces[name].append((self._file.tell(), piece.size))
                self._file.write(piece)

    def column(self, name: str) -> Any:
        """Read a column.

        Raises:
            KeyError: There is none of that name.
        """
        schema = self._fields[name]
        read = (os.pread(self._file.fileno(), size, at) for at, size in self._pieces[name])
        batches = [pa.ipc.read_record_batch(pa.py_buffer(piece), schema) for piece in read]
        return pa.Table.from_batches(batches, schema).combine_chunks().column(0)

    def table(self) -> pa.Table:
        """Read all of it."""
        return pa.table({name: self.column(name) for name in self.column_names})


def read_by_column(store: Reads, digests: Iterable[str]) -> Any:
    """Return stored tables as one, as :func:`~seatrial.store.records.read_records` does; in a file if they are large.

    Returns:
        A ``pyarrow.Table`` or a :class:`ColumnFile`; None when there are no tables.

    Raises:
        ArtifactMissingError: One of them is gone, or damaged.
    """
    pieces = joined(store, digests)
    held, size = list[pa.Table](), 0
    while size <= HELD_BYTES and (piece := next(pieces, None)) is not None:
        held.append(piece)
        size += piece.nbytes
    if not held:
        return None
    piece = next(pieces, None)
    if piece is None:
        found = pa.concat_tables(held).combine_chunks()
    else:
        found = ColumnFile(chain(drained(held), drained([piece]), pieces))
    held.clear()
    # Arrow keeps what it let go of.
    pa.default_memory_pool().release_unused()
    return found
