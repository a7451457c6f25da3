"""What the readers of all formats have in common."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row.

    Attributes:
        number: Its line, counted from 1; in a Parquet file its row, counted from 0.
        values: One value per column wanted, as the file has it.
    """

    number: int
    values: tuple[Any, ...]


Columns = Mapping[str, str]
"""The name of the column that holds each role (``text``, ``label``), in the order of :attr:`Row.values`."""
