"""Rows of a Parquet file of texts."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from seatrial.ingest.inspection.errors import ContentError, UploadTooLargeError
from seatrial.ingest.inspection.parquet_file import (
    UnpackedBytes,
    column_type,
    names_in_schema,
    open_parquet,
    read_batches,
)
from seatrial.ingest.texts.rows import Columns, Row
from seatrial.store.settings import Settings

PIECE_BYTES = 2**20
"""Bytes of rows that are Python objects at once; a row is never parted."""

_UTF8_BYTES = 4
# A cell costs time, even an empty one.
_CELL_BYTES = 8


def read_parquet(path: Path, columns: Columns, limits: Settings) -> Iterator[Row]:
    """Yield the rows of a Parquet file, counted from 0; values are Python's.

    Raises:
        InspectionError: With the column of a wrong type, or the row that cannot be read.
    """
    unpacked = UnpackedBytes(path, limits)
    with open_parquet(path, limits) as table:
        for role, name in columns.items():
            _check_type(column_type(table.schema, name, role), name, role)
        row = 0
        for batch in read_batches(table, list(columns.values()), limits):
            sizes = np.sum([_sizes(batch.column(name), name, row, limits) for name in columns.values()], axis=0)
            unpacked.add(int(sizes.sum()))
            for start, stop in _pieces(sizes):
                piece = batch.slice(start, stop - start)
                values = [_values(piece.column(name), name, row + start) for name in columns.values()]
                for offset, cells in enumerate(zip(*values, strict=True)):
                    yield Row(row + start + offset, cells)
            row += len(batch)


def _pieces(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of consecutive rows that take about ``PIECE_BYTES`` together.

    >>> list(_pieces(np.array([1, PIECE_BYTES, 1, 1])))
    [(0, 1), (1, 2), (2, 4)]
    """
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + PIECE_BYTES, side="right")), start + 1)
        yield start, stop
        start = stop


def names_in_parquet(path: Path, column: str, limits: Settings) -> list[str] | None:
    """Return the class names of a column that the Hugging Face datasets library stored, if it did.

    Raises:
        InspectionError: The file does not open.
    """
    with open_parquet(path, limits) as table:
        return names_in_schema(table.schema, column)


def _check_type(kind: Any, name: str, role: str) -> None:
    # A column of probabilities is told by its place among them as well: one may hold all of them.
    scores, _, _ = role.partition(" ")
    is_list = role in ("labels", "tokens", "tags") or (scores in SCORES and _is_list(kind))
    inner = kind
    if is_list and _is_list(kind):
        inner = kind.value_type
    if pa.types.is_dictionary(inner):
        inner = inner.value_type
    is_text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)
    is_number = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    is_right = is_text or (is_number and (role in NUMBERED or scores in SCORES)) or pa.types.is_null(inner)
    if not is_right or (is_list and not _is_list(kind)):
        raise ContentError(
            f"The column {name!r} has type {str(kind)[:200]}: {_WANTED[scores]}", field=f"/manifest/columns/{role}"
        )


SCORES = ("probabilities", "logits")
"""Roles of the columns of predictions, each followed by its place."""

NUMBERED = ("label", "labels", "tags", "example_id", "group", "model")
"""Roles whose values may be whole numbers."""

_WANTED = {
    "text": "texts are strings",
    "premise": "texts are strings",
    "hypothesis": "texts are strings",
    "label": "labels are class numbers from 0 or class names; of several labels per text, the task is "
    "multi-label-classification",
    "labels": "labels are lists of class numbers from 0 or of class names; of one label per text, the task is "
    "text-classification",
    "tokens": "tokens are lists of strings",
    "tags": "tags are lists of class numbers from 0 or of class names",
    "example_id": "ids are strings or whole numbers",
    "group": "groups are strings or whole numbers",
    "model": "names of models are strings",
    "arm": "arms are strings: clean, attacked or ood",
    "probabilities": "probabilities are numbers, a column for each class or one of lists",
    "logits": "logits are numbers, a column for each class or one of lists",
}


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _sizes(column: Any, name: str, row: int, limits: Settings) -> NDArray[np.int64]:
    """Return the bytes (rows,) of each value; what is too long is refused before it becomes Python objects."""
    if _is_list(column.type):
        lengths = _whole(pc.list_value_length(column))
        _refuse_above(lengths, limits.max_text_chars, name, row, "items")
        inner = _sizes(pc.list_flatten(column), name, -1, limits)
        ends = np.concatenate([[0], np.cumsum(inner)])[np.cumsum(lengths)]
        return np.diff(ends, prepend=0) + _CELL_BYTES
    if pa.types.is_dictionary(column.type):
        of_values = _text_sizes(column.dictionary)
        sizes = np.zeros(len(column), np.int64)
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        sizes[is_there] = of_values[column.indices.drop_null().to_numpy(zero_copy_only=False)]
    else:
        sizes = _text_sizes(column)
    _refuse_above(sizes, _UTF8_BYTES * limits.max_text_chars, name, row, "bytes")
    return sizes + _CELL_BYTES


def _text_sizes(column: Any) -> NDArray[np.int64]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _whole(pc.binary_length(column))
    return np.zeros(len(column), np.int64)


def _whole(lengths: Any) -> NDArray[np.int64]:
    """Return numbers, 0 for what is missing."""
    return np.asarray(lengths.fill_null(0), np.int64)


def _refuse_above(sizes: NDArray[np.int64], most: int, name: str, row: int, unit: str) -> None:
    longest = int(sizes.max(initial=0))
    if longest <= most:
        return
    where = f"Row {row + int(sizes.argmax())} (counted from 0)" if row >= 0 else "A row"
    raise UploadTooLargeError(f"{where} has {longest:,} {unit} in column {name!r}: at most {most:,} are accepted")


def _values(column: Any, name: str, row: int) -> list[Any]:
    try:
        return _objects(column)
    except UnicodeDecodeError:
        pass
    for offset in range(len(column)):
        try:
            _objects(column.slice(offset, 1))
        except UnicodeDecodeError as error:
            raise ContentError(
                f"Row {row + offset} (counted from 0) is not UTF-8 in column {name!r}: Parquet strings must be"
            ) from error
    raise ContentError(f"A row is not UTF-8 in column {name!r}: Parquet strings must be")


def _objects(column: Any) -> list[Any]:
    """Return the values of a column; rows that name one value of a dictionary share it."""
    if _is_list(column.type):
        items = iter(_objects(pc.list_flatten(column)))
        return [
            None if length is None else list(islice(items, length))
            for length in pc.list_value_length(column).to_pylist()
        ]
    if not pa.types.is_dictionary(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    used = pc.unique(column.indices.drop_null())
    words = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [None if index is None else words[index] for index in column.indices.to_pylist()]
