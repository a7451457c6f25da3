"""What the readers of all formats have in common."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from app.core.inspection.errors import ContentError


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


def no_column(where: str, role: str, name: str, found: Iterable[str], hint: str = "") -> ContentError:
    """Return the refusal of a table without a column it needs."""
    # A JSON key may hold half of a surrogate pair, which no answer can carry.
    has = ", ".join(found)[:300].encode(errors="replace").decode() or "nothing"
    return ContentError(
        f"{where} has no column {name!r}; it has: {has}. Set columns.{role} to the right one{hint}",
        field=f"/manifest/columns/{role}",
    )
