"""Images of an ``.npz``, by position."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.archives import walk_archive
from seatrial.ingest.inspection.image_layout import IMAGES, LABELS, LAYOUT, array_layout, image_shape
from seatrial.ingest.inspection.npy import read_array, read_array_header, read_chunks
from seatrial.store.settings import Settings
from workers.data.channels import check_batch_bytes, to_channels
from workers.errors import DataError

IN_MEMORY_BYTES = 2**30
"""Larger arrays are unpacked to a temporary file and mapped."""


class ArrayImages:
    """Images and labels of an ``.npz``; implements :class:`workers.data.ImageDataset`."""

    def __init__(
        self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, channels: int, limits: Settings
    ) -> None:
        columns = manifest.columns or {}
        self._channels = channels
        self._limits = limits
        self.label_names = facts.labels
        arrays, stated = _read_arrays(path, columns.get("image", IMAGES), columns.get("label", LABELS), limits)
        self._images, labels = arrays
        self._layout = array_layout(self._images.shape, stated)
        self.labels: NDArray[np.int64] = labels.reshape(-1).astype(np.int64)
        if len(self.labels) != len(self._images) or len(self.labels) != facts.examples:
            raise DataError(
                "dataset-changed",
                "The dataset is not what it was when it was uploaded",
                f"{len(self._images)} images and {len(self.labels)} labels, expected {facts.examples}",
            )

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return float32 images (len(positions), channels, height, width) in [0, 1], on the CPU."""
        check_batch_bytes(len(positions), image_shape(self._images.shape, self._layout), self._limits)
        chosen = torch.from_numpy(_native(self._images[np.asarray(positions, dtype=np.int64)]))
        if self._layout == "NHW":
            chosen = chosen.unsqueeze(1)
        elif self._layout == "NHWC":
            chosen = chosen.permute(0, 3, 1, 2)
        scaled = chosen.to(torch.float32)
        if self._images.dtype == np.uint8:
            scaled.div_(255)
        return to_channels(scaled, self._channels).clamp(0, 1).contiguous()


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy PyTorch can take: native byte order, and no type it lacks (long double)."""
    wanted = np.dtype(np.float64) if values.dtype.itemsize > 8 else values.dtype.newbyteorder("=")
    return np.ascontiguousarray(values, dtype=wanted)


def _read_arrays(
    path: Path, images: str, labels: str, limits: Settings
) -> tuple[tuple[NDArray[Any], NDArray[Any]], str | None]:
    arrays: dict[str, NDArray[Any]] = {}
    stated = None
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            name = entry.name.removesuffix(".npy")
            if name not in (images, labels, LAYOUT):
                continue
            header = read_array_header(stream, name)
            if name == LAYOUT:
                if header.dtype.kind == "U" and header.shape == ():
                    stated = str(read_array(stream, header, name, max_bytes=4096)[()])
                continue
            flat = _room(header.data_bytes // max(header.dtype.itemsize, 1), header.dtype)
            start = 0
            for chunk in read_chunks(stream, header, name):
                flat[start : start + len(chunk)] = chunk
                start += len(chunk)
            arrays[name] = flat.reshape(header.shape, order="F" if header.fortran_order else "C")
    if images not in arrays or labels not in arrays:
        raise DataError(
            "dataset-changed",
            "The dataset is not what it was when it was uploaded",
            f"no arrays {images!r} and {labels!r}",
        )
    return (arrays[images], arrays[labels]), stated


def _room(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if length * dtype.itemsize <= IN_MEMORY_BYTES:
        return np.empty(length, dtype=dtype)
    with tempfile.TemporaryFile(prefix="seatrial-images-") as file:
        # The mapping keeps the unnamed file alive after it is closed.
        return np.memmap(file, dtype=dtype, mode="w+", shape=(length,))
