"""Tables of numbers: rows of features and a label, as CSV, Parquet or arrays; read a block at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.features import MAX_FEATURES
from seatrial.ingest.archives import drain, walk_archive
from seatrial.ingest.inspection.errors import ContentError, UploadTooLargeError, no_column
from seatrial.ingest.inspection.npy import ArrayHeader, read_array, read_array_header
from seatrial.ingest.inspection.parquet_file import column_type, names_in_schema, open_parquet, read_batches
from seatrial.ingest.texts.csv_rows import open_table
from seatrial.ingest.texts.labels import LabelColumn
from seatrial.store.settings import Settings

TableFormat = Literal["csv", "parquet", "npz"]

FEATURES, LABELS, FEATURE_NAMES, CLASS_NAMES = "features", "labels", "feature_names", "class_names"
"""Arrays of an ``.npz`` of rows; the last two need not be there."""

LABEL = "/manifest/columns/label"
COLUMNS = "/manifest/features"
BLOCK_ROWS = 4096
MAX_NAMES_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Block:
    """Rows that follow each other.

    Attributes:
        values: (rows, columns) float64, finite.
        labels: Class numbers or class names, one per row.
    """

    values: NDArray[np.float64]
    labels: list[int | str]


@dataclass(frozen=True)
class Table:
    """An open table.

    Attributes:
        columns: Names of the columns of numbers, in the order of the values; None where an ``.npz`` has none.
        names: Class names the file brings.
        blocks: All rows, in order.
    """

    columns: list[str] | None
    names: list[str] | None
    blocks: Iterator[Block]


def read_table(path: Path, layout: TableFormat, manifest: DatasetManifest, limits: Settings) -> Iterator[Table]:
    """Yield one table, which is read while it is held; damage anywhere is found by reading to its end.

    Raises:
        InspectionError: With the row, the column and what would be right.
    """
    read = {"csv": _from_csv, "parquet": _from_parquet, "npz": _from_arrays}[layout]
    yield from read(path, manifest, limits)


def _from_csv(path: Path, manifest: DatasetManifest, limits: Settings) -> Iterator[Table]:
    label = _label_of(manifest)
    with path.open("rb") as file:
        table = open_table(file, [label, *(manifest.features or [])], limits)
        present = [name.strip() for name in table.names]
        columns = _chosen(present, manifest, f"The header (line {table.line})")
        (at,) = table.places({"label": label})
        places = [present.index(name) for name in columns]
        labels = _labels(manifest, None)

        def blocks() -> Iterator[Block]:
            values: list[list[float]] = []
            answers: list[int | str] = []
            for seen, (line, cells) in enumerate(table.rows, start=1):
                _check_size(seen, len(columns), limits)
                where = f"Line {line}"
                values.append([_number(cells[place], where, name) for place, name in zip(places, columns, strict=True)])
                answers.append(labels.read(cells[at], where))
                if len(values) == BLOCK_ROWS:
                    yield Block(np.array(values), answers)
                    values, answers = [], []
            if values:
                yield Block(np.array(values), answers)

        yield Table(columns, None, blocks())


def _number(cell: str, where: str, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        what = f"{cell.strip()[:50]!r}, no number" if cell.strip() else "empty"
        raise ContentError(
            f"{where}, column {column!r}: the value is {what}: columns of features hold numbers; encode categories as "
            "numbers, fill in what is missing as the model's pipeline does, or name the columns wanted in `features`",
            field=COLUMNS,
        ) from None
    if not np.isfinite(value):
        raise _not_finite(value, where, column)
    return value


def _not_finite(value: float, where: str, column: str) -> ContentError:
    return ContentError(
        f"{where}, column {column!r}: the value is {value}: every value must be a finite number; fill in what is "
        "missing as the model's pipeline does, or leave the row out",
        field=COLUMNS,
    )


def _from_parquet(path: Path, manifest: DatasetManifest, limits: Settings) -> Iterator[Table]:
    label = _label_of(manifest)
    with open_parquet(path, limits) as table:
        schema = table.schema
        column_type(schema, label, "label")
        columns = _chosen(list(schema.names), manifest, "The file")
        for name in columns:
            kind = schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise ContentError(
                    f"The column {name!r} has type {str(kind)[:200]}: columns of features hold numbers; encode "
                    "categories as numbers, or name the columns wanted in `features`",
                    field=COLUMNS,
                )
        names = names_in_schema(schema, label)
        labels = _labels(manifest, names)

        def blocks() -> Iterator[Block]:
            row = 0
            for batch in read_batches(table, [*columns, label], limits):
                _check_size(row + len(batch), len(columns), limits)
                values = np.stack([_of_column(batch.column(name), name, row) for name in columns], axis=1)
                _check_finite(values, row, columns)
                answers = batch.column(label).to_pylist()
                yield Block(values, [labels.read(one, _row(row + at)) for at, one in enumerate(answers)])
                row += len(batch)

        yield Table(columns, names, blocks())


def _of_column(column: Any, name: str, first: int) -> NDArray[np.float64]:
    if column.null_count:
        at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ContentError(
            f"{_row(first + at)}, column {name!r}: the value is missing: fill it in as the model's pipeline does, or "
            "leave the row out",
            field=COLUMNS,
        )
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _from_arrays(path: Path, manifest: DatasetManifest, limits: Settings) -> Iterator[Table]:
    label = (manifest.columns or {}).get("label", LABELS)
    wanted = {FEATURES, label, FEATURE_NAMES, CLASS_NAMES}
    arrays: dict[str, NDArray[Any]] = {}
    headers: dict[str, ArrayHeader] = {}
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            name = entry.name.removesuffix(".npy")
            if name in wanted:
                headers[name] = read_array_header(stream, f"The array {name!r:.200}")
                arrays[name] = _read(stream, headers[name], name, limits)
            else:
                headers[name] = read_array_header(stream, f"The array {name!r:.200}")
            drain(stream)
    for name, field in ((FEATURES, "/file"), (label, LABEL)):
        if name not in arrays:
            raise ContentError(
                f"The .npz has no array {name!r}; it has: {', '.join(sorted(headers))[:300]}. Rows of a table are an "
                f"array {FEATURES!r} (rows, columns) and an array {LABELS!r} (rows,)",
                field=field,
            )
    values, answers = arrays[FEATURES], arrays[label].reshape(-1)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or not 1 <= values.shape[1] <= MAX_FEATURES:
        raise ContentError(
            f"The array {FEATURES!r} has the shape {values.shape} and type {values.dtype}: it must hold numbers, "
            f"(rows, columns) with at most {MAX_FEATURES:,} columns"
        )
    if len(answers) != len(values) or answers.dtype.kind not in "iuU":
        raise ContentError(
            f"The array {label!r} has {len(answers):,} values of type {answers.dtype}, the array {FEATURES!r} has "
            f"{len(values):,} rows: there must be one class number or name per row"
        )
    columns = [str(name) for name in arrays[FEATURE_NAMES].reshape(-1)] if FEATURE_NAMES in arrays else None
    columns = columns if manifest.features is None else manifest.features
    if columns is not None and (len(columns) != values.shape[1] or len(set(columns)) != len(columns)):
        raise ContentError(
            f"The array {FEATURES!r} has {values.shape[1]} columns, and {len(set(columns))} different names are given",
            field=COLUMNS if manifest.features is not None else "/file",
        )
    _check_size(len(values), values.shape[1], limits)
    names = [str(name) for name in arrays[CLASS_NAMES].reshape(-1)] if CLASS_NAMES in arrays else None
    labels = _labels(manifest, names)

    def blocks() -> Iterator[Block]:
        for first in range(0, len(values), BLOCK_ROWS):
            part = values[first : first + BLOCK_ROWS].astype(np.float64)
            _check_finite(part, first, columns)
            given = answers[first : first + BLOCK_ROWS].tolist()
            yield Block(part, [labels.read(one, _row(first + at)) for at, one in enumerate(given)])

    yield Table(columns, names, blocks())


def _read(stream: BinaryIO, header: ArrayHeader, name: str, limits: Settings) -> NDArray[Any]:
    most = MAX_NAMES_BYTES if name in (FEATURE_NAMES, CLASS_NAMES) else limits.max_batch_bytes
    return read_array(stream, header, f"The array {name!r:.200}", max_bytes=most)


def _chosen(present: Sequence[str], manifest: DatasetManifest, where: str) -> list[str]:
    """Return the columns of numbers: those the manifest names, else all but the label's."""
    label = _label_of(manifest)
    for name in manifest.features or []:
        if present.count(name) != 1:
            raise ContentError(
                f"{where} has {present.count(name) or 'no'} column {name!r}; it has: {', '.join(present)[:300]}",
                field=COLUMNS,
            )
    if label not in present:
        raise no_column(where, "label", label, present)
    chosen = manifest.features or [name for name in present if name != label]
    if label in chosen:
        raise ContentError(f"The column {label!r} is the label: leave it out of features", field=COLUMNS)
    if not 1 <= len(chosen) <= MAX_FEATURES or len(set(chosen)) != len(chosen):
        raise ContentError(
            f"{where} has {len(chosen)} columns beside {label!r}, {len(set(chosen))} of different names: 1 to "
            f"{MAX_FEATURES:,} columns of different names are accepted",
            field=COLUMNS,
        )
    return list(chosen)


def _label_of(manifest: DatasetManifest) -> str:
    return (manifest.columns or {}).get("label", "label")


def _labels(manifest: DatasetManifest, in_file: list[str] | None) -> LabelColumn:
    field = "/file" if manifest.labels is None else "/manifest/labels"
    return LabelColumn(_label_of(manifest), manifest.labels or in_file, field=field)


def _check_size(rows: int, columns: int, limits: Settings) -> None:
    if rows > limits.max_examples:
        raise UploadTooLargeError(f"The file has more than {limits.max_examples:,} rows")
    if rows * columns * 8 > limits.max_batch_bytes:
        raise UploadTooLargeError(
            f"{rows:,} rows of {columns:,} columns take {rows * columns * 8:,} bytes; a worker holds at most "
            f"{limits.max_batch_bytes:,} (SEATRIAL_MAX_BATCH_BYTES)"
        )


def _check_finite(values: NDArray[np.float64], first: int, columns: Sequence[str] | None) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        name = columns[column] if columns is not None else str(column)
        raise _not_finite(float(values[row, column]), _row(first + int(row)), name)


def _row(number: int) -> str:
    return f"Row {number} (counted from 0)"
