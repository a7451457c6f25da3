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

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.inspection.parquet_file import (
    ParquetTable,
    check_indices,
    column_type,
    open_parquet,
    read_batches,
    stays_dictionary,
)
from seatrial.store.settings import Settings
from workers.data.channels import decode_image, stack_images
from workers.errors import DataError

CACHE_BYTES = 512 * 2**20
"""Encoded images kept: a stratified sample jumps between row groups."""


class ParquetImages:
    """Images and labels of a Parquet file; implements :class:`workers.data.ImageDataset`."""

    def __init__(
        self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, channels: int, limits: Settings
    ) -> None:
        columns = manifest.columns or {}
        image, label = columns.get("image", "image"), columns.get("label", "label")
        self._image = image
        self._channels = channels
        self._limits = limits
        self.label_names = facts.labels
        with open_parquet(path, limits) as table:
            self.labels: NDArray[np.int64] = _read_labels(table, label, facts.labels, limits)
            leaf = f"{image}.bytes" if pa.types.is_struct(column_type(table.schema, image, "image")) else image
            metadata, is_kept = table.file.metadata, stays_dictionary(table, leaf, limits)
            groups = [group.rows for group in table.groups]
        # Without the dictionary, an image that many rows name would be there as often.
        self._file = pq.ParquetFile(
            path, metadata=metadata, memory_map=True, pre_buffer=False, read_dictionary=[leaf] if is_kept else []
        )
        self._leaf = leaf
        self._starts = [0, *accumulate(groups)]
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
        decoded = (
            decode_image(self._encoded(int(position)), self._channels, f"the image in row {position}")
            for position in positions
        )
        return stack_images(decoded, len(positions), "the file", self._limits)

    def _encoded(self, position: int) -> bytes:
        group = bisect.bisect_right(self._starts, position) - 1
        return self._row_group(group)[position - self._starts[group]].as_py()  # type: ignore[no-any-return]

    def _row_group(self, group: int) -> Any:
        if group in self._groups:
            self._groups.move_to_end(group)
            return self._groups[group]
        column = self._file.read_row_group(group, columns=[self._leaf], use_threads=False).column(0)
        if pa.types.is_struct(column.type):
            column = pa.chunked_array([chunk.field("bytes") for chunk in column.chunks])
        for chunk in column.chunks:
            check_indices(chunk)
        self._groups[group] = column
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > CACHE_BYTES:
            self._groups.popitem(last=False)
        return column


def _read_labels(table: ParquetTable, name: str, names: list[str] | None, limits: Settings) -> NDArray[np.int64]:
    numbers = {label: number for number, label in enumerate(names or [])}
    chunks = []
    for batch in read_batches(table, [name], limits):
        column = batch.column(name)
        if pa.types.is_integer(column.type):
            chunks.append(column.to_numpy(zero_copy_only=False).astype(np.int64))
            continue
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        of_values = np.asarray([numbers.get(label, -1) for label in column.dictionary.to_pylist()], dtype=np.int64)
        chunks.append(of_values[column.indices.to_numpy(zero_copy_only=False)])
    labels = np.concatenate([np.zeros(0, np.int64), *chunks])
    if names is not None and (labels < 0).any():
        raise DataError(
            "dataset-changed", "The dataset is not what it was when it was uploaded", "a row has a label that is new"
        )
    return labels
