"""Columns of a stage's table: as arrays that may be written to, and further ones beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from seatrial.statistics.arrays import Floats, Ints
from workers.families.contexts import Records

EXAMPLE = (("example_id", pa.int64()), ("label", pa.int64()), ("errored", pa.bool_()))
"""Columns that the tables of text attacks begin with: which example, its class, and whether it is in no number."""


def ints(records: Records, name: str) -> Ints:
    """Return a column of whole numbers (rows,); none of them may be null."""
    return np.array(records.column(name).to_numpy(), dtype=np.int64)


def floats(records: Records, name: str) -> Floats:
    """Return a column of numbers (rows,), NaN where it is null."""
    return np.array(records.column(name).to_numpy(), dtype=np.float64)


def beside(records: Records, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Records:
    """Return a table with further columns behind its own.

    Args:
        records: (rows,).
        rows: As many, null where they lack a column.
        schema: Of the further columns.

    >>> beside(pa.table({"a": [1, 2]}), [{"b": 3}, {}], pa.schema([("b", pa.int64())])).to_pylist()
    [{'a': 1, 'b': 3}, {'a': 2, 'b': None}]
    """
    more = pa.Table.from_pylist(rows, schema=schema)
    for name in more.column_names:
        records = records.append_column(name, more.column(name))
    return records
