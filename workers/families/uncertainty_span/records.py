"""Tables of records: one row per example, three columns every stage begins with, null where an example errored."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from workers.attacks.losses import confidence, entropy
from workers.families.contexts import Batch, Columns, Records


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
    """Return a batch's rows; a column but the first three is null where ``errored`` (batch,) is true, or it is NaN.

    Of columns (batch, k) a row is a list.
    """
    missing = errored.cpu().numpy()
    arrays = {
        "example_id": pa.array(batch.example_ids, pa.int64()),
        "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
        "errored": pa.array(missing, pa.bool_()),
    }
    for name, values in columns.items():
        found = values.cpu().numpy()
        if found.ndim == 1:
            arrays[name] = pa.array(found, mask=missing | np.isnan(found))
        else:
            listed = [None if gone else row for row, gone in zip(found, missing, strict=True)]
            arrays[name] = pa.array(listed, pa.list_(pa.from_numpy_dtype(found.dtype)))
    return pa.table(arrays)


def first_of(surrogate: Records | None, column: str) -> Any:
    """Return what the surrogate's stage found of the model as a whole, which stands in its records' first row.

    Args:
        surrogate: Its records; None where it was not run.
        column: Of them. Records from before it was kept have none.

    Returns:
        None where nothing was found, and where nobody looked.
    """
    if surrogate is None or column not in surrogate.column_names:
        return None
    return surrogate[column][0].as_py()


def with_first(table: Records, found: Mapping[str, tuple[Any, pa.DataType]]) -> Records:
    """Return records with columns of which the first row alone has a cell: what was found, and its type."""
    for name, (value, kind) in found.items():
        table = table.append_column(name, pa.array([value] + [None] * (table.num_rows - 1), kind))
    return table
