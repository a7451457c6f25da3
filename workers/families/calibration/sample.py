"""The records of a table of predictions as the estimates see them: one arm at a time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import log_softmax

from seatrial.ingest.predictions.tables import ARMS
from seatrial.statistics.arrays import Floats, Ints
from workers.data.predictions import Predictions
from workers.families.contexts import Records

LEAST = 2.0**-52
"""What a probability of 0 counts as in a likelihood, as in scikit-learn's log_loss."""


def probabilities_of(scores: Floats, *, is_logits: bool) -> Floats:
    """Return probabilities (n, classes): as they were given, or those of logits."""
    found: Floats = np.exp(log_softmax(scores, axis=1)) if is_logits else scores
    return found


def logarithms_of(scores: Floats, *, is_logits: bool) -> Floats:
    """Return log-probabilities (n, classes), those of a probability of 0 at ``LEAST``."""
    found: Floats = log_softmax(scores, axis=1) if is_logits else np.log(np.maximum(scores, LEAST))
    return found


def to_records(found: Predictions) -> Records:
    """Return a row for each example; likelihood and Brier score are null of outliers, which have no label."""
    scores, labels = found.scores, found.labels
    probabilities = probabilities_of(scores, is_logits=found.is_logits)
    has_label = labels >= 0
    at = np.where(has_label, labels, 0)[:, None]
    logs = np.take_along_axis(logarithms_of(scores, is_logits=found.is_logits), at, axis=1)[:, 0]
    of_label = np.take_along_axis(probabilities, at, axis=1)[:, 0]
    brier = (probabilities**2).sum(axis=1) - 2 * of_label + 1
    n, classes = scores.shape
    # A sum of squares is not below 0 but for rounding.
    columns = {
        "example_id": pa.array(found.positions, pa.int64()),
        "label": pa.array(labels, pa.int64()),
        "errored": pa.array(np.zeros(n, dtype=bool), pa.bool_()),
        **{f"is_{arm}": pa.array(found.arms == place, pa.bool_()) for place, arm in enumerate(ARMS)},
        "prediction": pa.array(probabilities.argmax(axis=1), pa.int64()),
        "confidence": pa.array(probabilities.max(axis=1), pa.float64()),
        "nll": pa.array(0.0 - logs, pa.float64(), mask=~has_label),
        "brier": pa.array(np.maximum(brier, 0.0), pa.float64(), mask=~has_label),
        "is_logits": pa.array(np.full(n, found.is_logits), pa.bool_()),
        "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel(), pa.float64()), classes),
    }
    if found.groups is not None:
        columns["group"] = pa.array(found.groups, pa.string())
    return pa.table(columns)


@dataclass(frozen=True)
class ArmSample:
    """The examples of one arm.

    Attributes:
        example_ids: (n,) of the examples.
        labels: (n,) class numbers, -1 of outliers.
        predictions: (n,) likeliest classes.
        confidence: (n,) of these.
        nll: (n,) negative log-likelihoods of the labels; NaN of outliers.
        brier: (n,) Brier scores over all classes; NaN of outliers.
        scores: (n, classes) as the file has them.
        is_logits: Whether they are logits.
        groups: (n,) names; None where there are none.
    """

    example_ids: Ints
    labels: Ints
    predictions: Ints
    confidence: Floats
    nll: Floats
    brier: Floats
    scores: Floats
    is_logits: bool
    groups: list[str] | None

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Which answers are right (n,)."""
        found: NDArray[np.bool_] = self.predictions == self.labels
        return found

    @property
    def classes(self) -> int:
        """Scores of an example."""
        return int(self.scores.shape[1])

    @cached_property
    def probabilities(self) -> Floats:
        """Probabilities (n, classes)."""
        return probabilities_of(self.scores, is_logits=self.is_logits)

    @cached_property
    def logarithms(self) -> Floats:
        """Log-probabilities (n, classes)."""
        return logarithms_of(self.scores, is_logits=self.is_logits)

    @cached_property
    def of_label(self) -> Floats:
        """Probabilities of the labels (n,)."""
        return np.take_along_axis(self.probabilities, self.labels[:, None], axis=1)[:, 0]


def read_arm(records: Records, arm: str) -> ArmSample:
    """Return the examples of an arm, in the order of their ids, so that no number depends on any other."""
    rows = records.filter(records[f"is_{arm}"]).sort_by("example_id").combine_chunks()
    kind = records.schema.field("scores").type
    scores = rows["scores"].combine_chunks().flatten().to_numpy().reshape(-1, kind.list_size)
    return ArmSample(
        example_ids=rows["example_id"].to_numpy(),
        labels=rows["label"].to_numpy(),
        predictions=rows["prediction"].to_numpy(),
        confidence=rows["confidence"].to_numpy(),
        nll=_numbers(rows["nll"]),
        brier=_numbers(rows["brier"]),
        scores=scores,
        is_logits=bool(records["is_logits"][0].as_py()),
        groups=rows["group"].to_pylist() if "group" in rows.column_names else None,
    )


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Return a column that may hold nulls as float64 (n,), NaN where it does."""
    found: Floats = column.to_numpy().astype(np.float64)
    return found
