"""Images of a Parquet file, by row."""

import bisect
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import Tensor

from app.contracts.datasets import DatasetFacts, DatasetManifest
from workers.data.channels import decode_image, stack_images
from workers.errors import DataError

CACHE_BYTES = 512 * 2**20
"""Encoded images kept: a stratified sample jumps between row groups."""


class ParquetImages:
    """Images and labels of a Parquet file; implements :class:`workers.data.ImageDataset`."""

    def __init__(self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, channels: int) -> None:
        columns = manifest.columns or {}
        self._image = columns.get("image", "image")
        self._channels = channels
        self.label_names = facts.labels
        self._file = pq.ParquetFile(path, memory_map=True)
        metadata = self._file.metadata
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = [0, *accumulate(groups)]
        self.labels: NDArray[np.int64] = self._read_labels(columns.get("label", "label"), facts.labels)
        if len(self.labels) != facts.examples:
            raise DataError(
                "dataset-changed",
                "The dataset is not what it was when it was uploaded",
                f"{len(self.labels)} rows, expected {facts.examples}",
            )
        self._groups: OrderedDict[int, Any] = OrderedDict()

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return float32 images (len(positions), channels, height, width) in [0, 1], on the CPU.

        Raises:
            DataError: An image does not decode, or has another size than the others.
        """
        decoded = [
            decode_image(self._encoded(int(position)), self._channels, f"the image in row {position}")
            for position in positions
        ]
        return stack_images(decoded, "the file")

    def _encoded(self, position: int) -> bytes:
        group = bisect.bisect_right(self._starts, position) - 1
        return self._row_group(group)[position - self._starts[group]].as_py()  # type: ignore[no-any-return]

    def _row_group(self, group: int) -> Any:
        if group in self._groups:
            self._groups.move_to_end(group)
            return self._groups[group]
        column = self._file.read_row_group(group, columns=[self._image]).column(0)
        if pa.types.is_struct(column.type):
            column = pa.chunked_array([chunk.field("bytes") for chunk in column.chunks])
        self._groups[group] = column
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > CACHE_BYTES:
            self._groups.popitem(last=False)
        return column

    def _read_labels(self, name: str, names: list[str] | None) -> NDArray[np.int64]:
        column = self._file.read(columns=[name]).column(0)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_integer(column.type):
            return column.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
        numbers = {label: number for number, label in enumerate(names or [])}
        return np.asarray([numbers[label] for label in column.to_pylist()], dtype=np.int64)
