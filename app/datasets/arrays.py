"""Inspecting an ``.npz`` of images and labels, array by array, a few MiB at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from app.datasets.labels import LabelCounter, agree_on_names
from seatrial.contracts.datasets import GRID, REPRESENTED, DatasetFacts, DatasetManifest
from seatrial.ingest.archives import drain, walk_archive
from seatrial.ingest.inspection.errors import ContentError, MalformedFileError, UploadTooLargeError
from seatrial.ingest.inspection.image_layout import (
    CLASS_NAMES,
    IMAGES,
    LABELS,
    LAYOUT,
    MAX_SIDE,
    array_layout,
    image_shape,
)
from seatrial.ingest.inspection.magic import refuse_impostor, sniff
from seatrial.ingest.inspection.npy import ArrayHeader, read_array, read_array_header, read_chunks
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.texts.labels import MAX_CLASSES
from seatrial.store.settings import Settings

MAX_NAMES_BYTES = 16 * 2**20
# float32 arithmetic such as (x * 255) / 255 overshoots 1 by some 1e-7.
RANGE_TOLERANCE = 1e-6
PIECE = 2**16
"""Values that are compared with the grid together: beside a chunk of them there is little room."""


@dataclass
class _Arrays:
    headers: dict[str, ArrayHeader] = field(default_factory=dict)
    names: list[str] | None = None
    layout: str | None = None


def inspect_arrays(path: Path, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of an ``.npz``; its arrays are ``images``, ``labels`` and, if it has them, ``class_names``.

    Raises:
        InspectionError: With the array, the first bad value and what would be right.
    """
    columns = manifest.columns or {}
    images, labels = columns.get("image", IMAGES), columns.get("label", LABELS)
    arrays = _read_headers(path, limits)
    for column, name in (("image", images), ("label", labels)):
        if name not in arrays.headers:
            found = ", ".join(sorted(arrays.headers))
            raise ContentError(
                f"The .npz has no array {name!r}; it has: {found[:300]}. Rename it or set columns.{column}",
                field=f"/manifest/columns/{column}" if column in columns else "/file",
            )
    shape = _check_images_header(arrays.headers[images], images, arrays.layout, limits)
    _check_labels_header(arrays.headers[labels], labels, arrays.headers[images].shape[0], images)
    names = agree_on_names(arrays.names, manifest)
    counter = LabelCounter(names)
    readers: dict[str, Callable[[NDArray[Any], int], None]] = {labels: lambda chunk, _: counter.add(chunk)}
    on_grid = True
    if arrays.headers[images].dtype.kind == "f":
        size = prod(shape) if not arrays.headers[images].fortran_order else None

        def look(chunk: NDArray[Any], start: int) -> None:
            nonlocal on_grid
            _check_floats(chunk, start, images, size)
            on_grid = on_grid and _is_on_grid(chunk)

        readers[images] = look
    _read_values(path, limits, arrays.headers, readers)
    return DatasetFacts(
        format="npz",
        examples=counter.examples,
        classes=counter.classes,
        shape=list(shape),
        label_counts=counter.counts,
        labels=names,
        on_grid=on_grid,
    )


def _read_headers(path: Path, limits: Settings) -> _Arrays:
    arrays = _Arrays()
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            name = entry.name.removesuffix(".npy")
            where = f"The array {name!r:.200}"
            if not entry.name.endswith(".npy"):
                refuse_impostor(
                    sniff(stream.read(HEAD_BYTES), entry.size), f"{entry.name!r:.200} in the .npz", "arrays only"
                )
                raise ContentError(f"The .npz holds {entry.name!r:.200}, which is not an array")
            header = read_array_header(stream, where)
            if header.data_offset + header.data_bytes != entry.size:
                raise MalformedFileError(
                    f"{where} of shape {header.shape} and type {header.dtype} needs {header.data_bytes:,} bytes, "
                    f"the .npz has {entry.size - header.data_offset:,} for it"
                )
            arrays.headers[name] = header
            if name == CLASS_NAMES:
                arrays.names = _read_names(stream, header, where)
            elif name == LAYOUT and header.dtype.kind == "U" and header.shape == ():
                arrays.layout = str(read_array(stream, header, where, max_bytes=4096)[()])
    return arrays


def _read_names(stream: BinaryIO, header: ArrayHeader, where: str) -> list[str]:
    if header.dtype.kind not in "US" or len(header.shape) != 1:
        raise ContentError(f"{where} must be a list of strings, got type {header.dtype} and shape {header.shape}")
    if header.shape[0] > MAX_CLASSES:
        raise ContentError(f"{where} holds {header.shape[0]:,} names; at most {MAX_CLASSES:,} classes are accepted")
    try:
        values = read_array(stream, header, where, max_bytes=MAX_NAMES_BYTES).tolist()
        names = [value.decode() if isinstance(value, bytes) else value for value in values]
        for name in names:
            name.encode()
    except (UnicodeError, SystemError) as error:
        # NumPy hands numbers beyond the last character to Python, which raises a SystemError.
        raise ContentError(f"{where} holds a name that is not valid text") from error
    if len(names) < 2:
        raise ContentError(f"{where} holds {len(names)} names: a classifier has at least 2 classes")
    return names


def _check_images_header(header: ArrayHeader, name: str, stated: str | None, limits: Settings) -> tuple[int, int, int]:
    if header.dtype != np.uint8 and header.dtype.kind != "f":
        raise ContentError(
            f"The array {name!r} has type {header.dtype}: images are uint8 in 0..255, or float in [0, 1]; "
            "save them with .astype('uint8')"
        )
    shape = image_shape(header.shape, array_layout(header.shape, stated))
    if not all(1 <= side <= MAX_SIDE for side in shape):
        raise ContentError(
            f"The array {name!r} holds images of shape {shape}: sides of 1 to {MAX_SIDE} pixels are accepted"
        )
    if header.shape[0] > limits.max_examples:
        raise UploadTooLargeError(
            f"The array {name!r} holds {header.shape[0]:,} images; at most {limits.max_examples:,} are accepted"
        )
    return shape


def _check_labels_header(header: ArrayHeader, name: str, images: int, images_name: str) -> None:
    if header.dtype.kind not in "iu":
        raise ContentError(
            f"The array {name!r} has type {header.dtype}: labels are whole numbers; save them with .astype('int64')"
        )
    if header.shape not in ((images,), (images, 1)):
        raise ContentError(
            f"The array {name!r} has the shape {header.shape}, the array {images_name!r} has {images:,} images: "
            f"there must be one label number per image, shape ({images},)"
        )


def _read_values(
    path: Path,
    limits: Settings,
    headers: Mapping[str, ArrayHeader],
    readers: Mapping[str, Callable[[NDArray[Any], int], None]],
) -> None:
    """Read every array to its end, so that damage anywhere is found, and hand the values to their readers."""
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            name = entry.name.removesuffix(".npy")
            reader = readers.get(name)
            if reader is not None:
                where = f"The array {name!r:.200}"
                read_array_header(stream, where)
                start = 0
                for chunk in read_chunks(stream, headers[name], where):
                    reader(chunk, start)
                    start += len(chunk)
            drain(stream)


def _is_on_grid(values: NDArray[Any]) -> bool:
    for start in range(0, len(values), PIECE):
        steps = values[start : start + PIECE].astype(np.float64) * GRID
        if not (np.abs(steps - np.rint(steps)) <= REPRESENTED).all():
            return False
    return True


def _check_floats(values: NDArray[Any], start: int, name: str, per_image: int | None) -> None:
    bad = ~np.isfinite(values)
    if not bad.any():
        # Comparing two numbers per chunk is much cheaper than comparing each value twice.
        low, high = values.min(), values.max()
        if low >= -RANGE_TOLERANCE and high <= 1 + RANGE_TOLERANCE:
            return
        bad = (values < -RANGE_TOLERANCE) | (values > 1 + RANGE_TOLERANCE)
    at = int(np.flatnonzero(bad)[0])
    value = float(values[at])
    image = f"image {(start + at) // per_image}" if per_image else "an image"
    if not np.isfinite(value):
        raise ContentError(
            f"The array {name!r} holds {value} in {image}: every value must be a finite number in [0, 1]"
        )
    looks_like_bytes = 1 < value <= 255 and float(values.min()) >= 0
    hint = (
        "divide by 255, or save them as uint8" if looks_like_bytes else "undo the normalisation: it lives in the model"
    )
    raise ContentError(f"The array {name!r} holds {value:g} in {image}: float images must lie in [0, 1]; {hint}")
