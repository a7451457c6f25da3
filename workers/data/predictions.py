"""Tables of predictions: what is true of each example beside what the model answered."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seatrial.ingest.predictions.answers import Answers
from seatrial.ingest.predictions.tables import ARMS
from seatrial.ingest.predictions.truths import Truths
from workers.errors import PreflightError


@dataclass(frozen=True)
class Predictions:
    """Some examples of a table of predictions.

    Attributes:
        positions: (n,) of the examples in their dataset.
        labels: (n,) class numbers, -1 of outliers.
        arms: (n,) places in ``ARMS``.
        groups: (n,) names; None where there are no groups.
        scores: (n, classes) probabilities or logits, as the file has them.
        is_logits: Which of the two.
    """

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    arms: NDArray[np.int64]
    groups: list[str] | None
    scores: NDArray[np.float64]
    is_logits: bool


def strata_of_arms(truths: Truths) -> NDArray[np.int64]:
    """Return the stratum (n,) of each example: its arm and class, so that a sample has each in proportion."""
    return truths.arms * (int(truths.labels.max(initial=0)) + 2) + truths.labels


def join_predictions(truths: Truths, answers: Answers, positions: NDArray[np.int64]) -> Predictions:
    """Return some examples with what the model answered to each.

    Raises:
        PreflightError: It answered not all of them.
    """
    ids, arms = [truths.ids[position] for position in positions], truths.arms[positions]
    rows = [answers.row_of(example, int(arm)) for example, arm in zip(ids, arms, strict=True)]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows):
        at = rows.index(None)
        raise PreflightError(
            "unanswered-examples",
            "The predictions leave examples of the dataset out",
            f"{len(rows) - len(found)} of the {len(rows)} examples looked at have no answer, the first is {ids[at]!r} "
            f"({ARMS[arms[at]]}): an example that is left out would be neither right nor wrong; add its row, or take "
            "it out of the dataset of every model",
            field="/model",
        )
    return Predictions(
        positions=positions,
        labels=truths.labels[positions],
        arms=arms,
        groups=None if truths.groups is None else [truths.groups[position] for position in positions],
        scores=answers.scores[found],
        is_logits=answers.is_logits,
    )
