"""Rows of a table of numbers, by position."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.contracts.features import FeatureSpec
from seatrial.ingest.tables import TableFormat, read_table
from seatrial.store.settings import Settings
from workers.data.channels import check_batch_bytes
from workers.errors import DataError


class TableRows:
    """Rows and labels of a table, in its own units.

    Attributes:
        labels: (n,) class numbers.
        label_names: Class names, where the file or its manifest has them.
        columns: Names of the columns; None where the file has none.
        values: (n, columns) float64.
    """

    def __init__(self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, limits: Settings) -> None:
        self.label_names = facts.labels
        self.columns = facts.features
        numbers = {name: number for number, name in enumerate(facts.labels or [])}
        parts, labels = [], []
        for table in read_table(path, cast(TableFormat, facts.format), manifest, limits):
            for block in table.blocks:
                parts.append(block.values)
                labels += [one if isinstance(one, int) else numbers[one] for one in block.labels]
        self.labels: NDArray[np.int64] = np.array(labels, dtype=np.int64)
        self.values: NDArray[np.float64] = np.concatenate(parts) if parts else np.empty((0, 0))
        self._limits = limits
        if len(labels) != facts.examples:
            raise DataError(
                "dataset-changed",
                "The dataset is not what it was when it was uploaded",
                f"{len(labels)} rows, expected {facts.examples}",
            )

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return rows in the table's own units, float32 (len(positions), 1, 1, columns)."""
        return self._as_images(self.values[np.asarray(positions, dtype=np.int64)])

    def _as_images(self, values: NDArray[np.float64]) -> Tensor:
        check_batch_bytes(len(values), (1, 1, values.shape[1]), self._limits)
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).view(len(values), 1, 1, -1)


class StandardisedRows:
    """A table's rows as a model takes them: its columns, standardised; implements :class:`workers.data.ImageDataset`.

    Args:
        table: The rows.
        features: The model's columns, means, standard deviations and ranges.

    Raises:
        DataError: A column is not there, or a value lies outside of the model's range for it.
    """

    def __init__(self, table: TableRows, features: FeatureSpec) -> None:
        self.labels, self.label_names = table.labels, table.label_names
        self._table = table
        names = table.columns
        missing = [name for name in features.columns if names is not None and name not in names]
        if missing or (names is None and table.values.shape[1] != len(features.columns)):
            told = f"the table has no column {missing[0]!r}" if missing else f"{table.values.shape[1]} columns"
            raise DataError(
                "column-missing",
                "The table has not the columns the model takes",
                f"{told}; the model takes {', '.join(features.columns)[:300]}",
                field="/dataset",
            )
        places = range(len(features.columns)) if names is None else [names.index(name) for name in features.columns]
        self._places = np.array(places)
        # In float64: dates in seconds, say, have no more than minutes in float32.
        self._mean, self._std = np.array(features.means), np.array(features.stds)
        chosen = table.values[:, self._places]
        if len(chosen) and (outside := features.outside(chosen.min(0).tolist(), chosen.max(0).tolist())):
            raise DataError("out-of-range", "A value lies outside of its range", outside, field="/dataset")

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return standardised rows, float32 (len(positions), 1, 1, columns), on the CPU."""
        values = self._table.values[np.asarray(positions, dtype=np.int64)][:, self._places]
        return self._table._as_images((values - self._mean) / self._std)
