"""Tables of records as bytes: the same rows give the same bytes, however they were cut."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

# A fixed group size: left to itself, the writer would follow the chunks the table happens to have.
_ROW_GROUP = 65_536


def to_parquet(table: pa.Table) -> bytes:
    """Return a table as Parquet.

    >>> table = pa.table({"example_id": [3, 1]})
    >>> to_parquet(table) == to_parquet(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    True
    """
    buffer = BytesIO()
    pq.write_table(
        table.combine_chunks().replace_schema_metadata(None), buffer, compression="zstd", row_group_size=_ROW_GROUP
    )
    return buffer.getvalue()


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
    tables = [pq.read_table(pa.BufferReader(store.read_bytes(digest)), partitioning=None) for digest in digests]
    return pa.concat_tables(tables).combine_chunks() if tables else None


def read_parquet(paths: Iterable[Path]) -> Any:
    """Return the tables at ``paths`` as one, in that order; None when there are none."""
    tables = [pq.read_table(path, partitioning=None) for path in paths]
    return pa.concat_tables(tables).combine_chunks() if tables else None
