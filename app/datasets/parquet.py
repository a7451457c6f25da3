"""Inspecting a Parquet file of encoded images and labels, as the Hugging Face datasets library writes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.datasets.image_headers import MAX_IMAGE_BYTES, ShapeSummary, read_image_shape
from app.datasets.labels import LabelCounter, agree_on_names
from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.inspection.errors import ContentError, ManifestMismatchError
from seatrial.ingest.inspection.magic import refuse_impostor, sniff
from seatrial.ingest.inspection.parquet_file import (
    ParquetTable,
    UnpackedBytes,
    check_row_groups,
    column_type,
    names_in_schema,
    open_parquet,
    read_batches,
)
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.texts.labels import MAX_CLASSES, MAX_NAME_CHARS, check_characters
from seatrial.store.settings import Settings

MAX_LABEL_BYTES = 4 * MAX_NAME_CHARS
"""Longest class name; a column of longer ones holds something else."""


def inspect_parquet(path: Path, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of a Parquet file: an image column (bytes, or a struct with ``bytes``) and a label column.

    String labels are numbered in the order of the class names the manifest gives, else in sorted order.

    Raises:
        InspectionError: With the column, the first bad row and what would be right.
    """
    columns = manifest.columns or {}
    image, label = columns.get("image", "image"), columns.get("label", "label")
    with open_parquet(path, limits) as table:
        schema = table.schema
        image_path = _image_column(schema, image)
        label_type = _label_type(schema, label)
        check_row_groups(table, image_path, limits)
        names = agree_on_names(names_in_schema(schema, label), manifest)
        return _read_rows(table, (image, image_path, label), label_type, names, limits)


def _image_column(schema: Any, name: str) -> str:
    kind = column_type(schema, name, "image")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return name
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        inner = kind.field("bytes").type
        if pa.types.is_binary(inner) or pa.types.is_large_binary(inner):
            return f"{name}.bytes"
    raise ContentError(
        f"The column {name!r} has type {str(kind)[:200]}: images are encoded PNG or JPEG bytes, or a struct with a "
        "field `bytes`",
        field="/manifest/columns/image",
    )


def _label_type(schema: Any, name: str) -> str:
    kind = column_type(schema, name, "label")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "name"
    raise ContentError(
        f"The column {name!r} has type {str(kind)[:200]}: labels are class numbers from 0 or class names",
        field="/manifest/columns/label",
    )


def _read_rows(
    table: ParquetTable, columns: tuple[str, str, str], label_type: str, names: list[str] | None, limits: Settings
) -> DatasetFacts:
    image, image_path, label = columns
    unpacked = UnpackedBytes(table.path, limits)
    summary = ShapeSummary()
    counter = LabelCounter(names)
    by_name: dict[str, int] = {}
    row = 0
    for batch in read_batches(table, [image_path, label], limits):
        images, labels = batch.column(image), batch.column(label)
        encoded = images.field("bytes") if pa.types.is_struct(images.type) else images
        if images.null_count or encoded.null_count or labels.null_count:
            raise ContentError(
                f"Rows {row} to {row + len(batch) - 1} have an empty image or label: every row needs both"
            )
        for offset, value in _distinct(encoded):
            unpacked.add(len(value))
            summary.add(_check_image(value, f"The image in row {row + offset}"))
        if label_type == "number":
            labels = labels.dictionary_decode() if pa.types.is_dictionary(labels.type) else labels
            counter.add(labels.to_numpy(zero_copy_only=False))
        else:
            _count_names(by_name, labels, names, row)
        row += len(batch)
    if label_type == "name":
        names = names or sorted(by_name)
        counter = LabelCounter(names)
        numbers = {name: number for number, name in enumerate(names)}
        for name, count in by_name.items():
            counter.add(np.full(count, numbers[name]))
    return DatasetFacts(
        format="parquet",
        examples=row,
        classes=counter.classes,
        shape=summary.shape,
        label_counts=counter.counts,
        labels=names,
        on_grid=True,
    )


def _distinct(encoded: Any) -> Iterator[tuple[int, memoryview]]:
    """Yield the images of a column, one that many rows name in a dictionary once, with the first row it is in."""
    if not pa.types.is_dictionary(encoded.type):
        for offset, value in enumerate(encoded):
            yield offset, memoryview(value.as_buffer())
        return
    indices, first = np.unique(encoded.indices.to_numpy(zero_copy_only=False), return_index=True)
    # In the order of the rows, so that the first bad one is told.
    for at in np.argsort(first):
        yield int(first[at]), memoryview(encoded.dictionary[int(indices[at])].as_buffer())


def _check_image(encoded: memoryview, where: str) -> tuple[int, int, int]:
    if len(encoded) > MAX_IMAGE_BYTES:
        raise ContentError(f"{where} has {len(encoded):,} bytes; images of at most {MAX_IMAGE_BYTES:,} are accepted")
    data = encoded.tobytes()
    refuse_impostor(sniff(data[:HEAD_BYTES], len(data)), where, "an encoded image")
    return read_image_shape(data, where)


def _count_names(by_name: dict[str, int], labels: Any, names: list[str] | None, row: int) -> None:
    known = None if names is None else set(names)
    labels = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    indices, first, counts = np.unique(
        labels.indices.to_numpy(zero_copy_only=False), return_index=True, return_counts=True
    )
    for at in np.argsort(first):
        where = f"Row {row + int(first[at])}"
        buffer = labels.dictionary[int(indices[at])].as_buffer()
        if buffer.size > MAX_LABEL_BYTES:
            raise ContentError(
                f"{where} has a label of {buffer.size:,} bytes; at most {MAX_LABEL_BYTES:,} are accepted: is this the "
                "right column?"
            )
        try:
            name = buffer.to_pybytes().decode()
        except UnicodeDecodeError as error:
            raise ContentError(f"{where} has a label that is not UTF-8: Parquet strings must be") from error
        if known is not None and name not in known:
            raise ManifestMismatchError(
                f"{where} has the label {name!r:.200}, which is not among the class names", field="/manifest/labels"
            )
        check_characters(name, f"{where}: the label")
        by_name[name] = by_name.get(name, 0) + int(counts[at])
    if len(by_name) > MAX_CLASSES:
        raise ContentError(f"The labels are more than {MAX_CLASSES:,} different names: is this the right column?")
