"""Tables of records: one row per example, three columns every stage begins with, null where an example errored."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from workers.attacks.losses import confidence, entropy
from workers.families.protocol import Batch

Columns = dict[str, Tensor]
"""By name: (batch,) float64, int64 or bool."""


def measure(logits: Tensor, suffix: str) -> Columns:
    """Return what is recorded of an output (batch, classes): entropy, confidence, prediction and margin.

    Entropy in nats and confidence in float64; the margin is the largest logit less the second.
    """
    prediction = logits.argmax(1)
    top = logits.double().topk(2, dim=1).values
    return {
        f"entropy_{suffix}": entropy(logits),
        f"confidence_{suffix}": confidence(logits, prediction),
        f"prediction_{suffix}": prediction,
        f"margin_{suffix}": top[:, 0] - top[:, 1],
    }


def to_records(batch: Batch, errored: Tensor, columns: Columns) -> pa.Table:
    """Return a batch's rows; every column but the first three is null where ``errored`` (batch,) is true."""
    missing = errored.cpu().numpy()
    arrays = {
        "example_id": pa.array(batch.example_ids, pa.int64()),
        "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
        "errored": pa.array(missing, pa.bool_()),
    }
    return pa.table(arrays | {name: pa.array(values.cpu().numpy(), mask=missing) for name, values in columns.items()})


class Sample:
    """The examples of one or more tables over the same source that did not error, as numpy columns."""

    def __init__(self, records: pa.Table) -> None:
        self.size = records.num_rows
        valid = records.filter(pa.array(~_numpy(records, "errored").astype(bool)))
        self._columns = {name: _numpy(valid, name) for name in valid.column_names}
        self.valid = valid.num_rows

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        """Return a column (valid,)."""
        return self._columns[name]

    def floats(self, name: str) -> NDArray[np.float64]:
        """Return a column as float64 (valid,)."""
        return self._columns[name].astype(np.float64)

    def align(self, other: "Sample", name: str) -> NDArray[np.float64]:
        """Return a column of another table for this one's examples (valid,), NaN where it has none."""
        at: Mapping[int, int] = {int(key): row for row, key in enumerate(other["example_id"])}
        values = np.append(other.floats(name), np.nan)
        return values[[at.get(int(key), -1) for key in self["example_id"]]]


def _numpy(records: pa.Table, name: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = records.column(name).to_numpy()
    return column
