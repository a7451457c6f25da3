"""Rows of a Parquet file of texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.core.inspection.errors import ContentError, UploadTooLargeError
from app.core.inspection.parquet_file import column_type, names_in_schema, open_parquet
from app.core.settings import Settings
from app.core.texts.rows import Columns, Row

BATCH_ROWS = 64
_UTF8_BYTES = 4


def read_parquet(path: Path, columns: Columns, limits: Settings) -> Iterator[Row]:
    """Yield the rows of a Parquet file, counted from 0; values are Python's.

    Raises:
        InspectionError: With the column of a wrong type, or the row that cannot be read.
    """
    with open_parquet(path, limits) as file:
        for role, name in columns.items():
            _check_type(column_type(file.schema_arrow, name, role), name, role)
        row = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns.values()), use_threads=False):
            values = []
            for name in columns.values():
                column = batch.column(name)
                _check_lengths(column, name, row, limits)
                values.append(_values(column, name, row))
            for offset, cells in enumerate(zip(*values, strict=True)):
                yield Row(row + offset, cells)
            row += len(batch)


def names_in_parquet(path: Path, column: str, limits: Settings) -> list[str] | None:
    """Return the class names of a column that the Hugging Face datasets library stored, if it did.

    Raises:
        InspectionError: The file does not open.
    """
    with open_parquet(path, limits) as file:
        return names_in_schema(file.schema_arrow, column)


def _check_type(kind: Any, name: str, role: str) -> None:
    is_list = role in ("labels", "tokens", "tags")
    inner = kind
    if is_list and _is_list(kind):
        inner = kind.value_type
    if pa.types.is_dictionary(inner):
        inner = inner.value_type
    is_text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)
    is_number = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    is_right = is_text or (is_number and role in ("label", "labels", "tags")) or pa.types.is_null(inner)
    if not is_right or (is_list and not _is_list(kind)):
        raise ContentError(
            f"The column {name!r} has type {str(kind)[:200]}: {_WANTED[role]}", field=f"/manifest/columns/{role}"
        )


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
}


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _check_lengths(column: Any, name: str, row: int, limits: Settings) -> None:
    """Refuse what is too long before it becomes Python objects."""
    if _is_list(column.type):
        _refuse_above(pc.list_value_length(column), limits.max_text_chars, name, row, "items")
        column = pc.list_flatten(column)
        row = -1
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        _refuse_above(pc.binary_length(column), _UTF8_BYTES * limits.max_text_chars, name, row, "bytes")


def _refuse_above(lengths: Any, most: int, name: str, row: int, unit: str) -> None:
    longest = pc.max(lengths).as_py()
    if longest is None or longest <= most:
        return
    where = f"Row {row + lengths.index(pc.max(lengths)).as_py()} (counted from 0)" if row >= 0 else "A row"
    raise UploadTooLargeError(f"{where} has {longest:,} {unit} in column {name!r}: at most {most:,} are accepted")


def _values(column: Any, name: str, row: int) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        pass
    values = []
    for offset, scalar in enumerate(column):
        try:
            values.append(scalar.as_py())
        except UnicodeDecodeError as error:
            raise ContentError(
                f"Row {row + offset} (counted from 0) is not UTF-8 in column {name!r}: Parquet strings must be"
            ) from error
    return values
