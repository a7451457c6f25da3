"""Whether predictions have anything to do with the labels: guessing the most frequent class is accurate, too."""

import math

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.estimates import Flag
from seatrial.statistics.normal import normal_quantile
from workers.models.validating import ALPHA, CONSTANT_EXAMPLES, ERRORED, Wording

FEWEST, OTHERS, OTHER_SHARE, ENOUGH = 20, 5, 0.1, 50
"""Examples from which on it is asked of how many classes they are, and how many are not to be of the commonest; the
same as a share where there are three classes and more, of which a rare one is not what the model is for, until they
are enough to say something by themselves."""


def agreement_by_chance(predictions: NDArray[np.int64], labels: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean and standard deviation of how many predictions (n,) are right when labels (n,) are shuffled.

    Exact over all n! orders (Hoeffding 1951, "A Combinatorial Central Limit Theorem"): the variance is the sum of the
    doubly centred squares of what each prediction scores with each label, over n - 1.

    Raises:
        ValueError: There are fewer than two.

    >>> mean, deviation = agreement_by_chance(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    >>> round(mean, 6), round(deviation**2, 6)
    (2.0, 1.333333)
    """
    n = len(labels)
    if n < 2:
        raise ValueError(f"{n} labels have one order")
    classes = 1 + int(max(predictions.max(), labels.max()))
    predicted = np.bincount(predictions, minlength=classes).astype(np.float64)
    known = np.bincount(labels, minlength=classes).astype(np.float64)
    mean = float(predicted @ known) / n
    centred = np.eye(classes) - known[:, None] / n - predicted[None, :] / n + mean / n
    return mean, math.sqrt(float(predicted @ centred**2 @ known) / (n - 1))


def unrelated_flags(predictions: NDArray[np.int64], labels: NDArray[np.int64], words: Wording) -> list[Flag]:
    """Doubt predictions (n,) of several classes that are right no more often than shuffled ones (one-sided 95 %).

    Where one class is frequent, hardly ever predicting another is accurate, robust and sure of itself without looking.
    """
    answered = predictions != ERRORED
    predictions, labels = predictions[answered], labels[answered]
    if len(labels) < CONSTANT_EXAMPLES or len(np.unique(predictions)) == 1 or len(np.unique(labels)) == 1:
        return []
    correct = int((predictions == labels).sum())
    mean, deviation = agreement_by_chance(predictions, labels)
    if correct > mean + normal_quantile(1 - ALPHA) * deviation:
        return []
    return [
        Flag(
            code="accuracy_near_chance",
            severity="warning",
            message=f"{correct} of {len(labels)} {words.thing}s are classified correctly, and {mean:.1f} would be if "
            "the same predictions were dealt out at random: on these the model does no better than one that does not "
            f"look. Audit more examples, or a balanced sample; if it stays so, check {words.guessing}.",
        )
    ]


def one_class(labels: NDArray[np.int64], classes: int, thing: str) -> list[Flag]:
    """Doubt a sample of next to one class: whoever may choose the class chooses the one that holds best.

    Args:
        labels: (n,) of the sample.
        classes: Of the model.
        thing: What an example is called.
    """
    if len(labels) < FEWEST:
        return []
    others = len(labels) - int(np.unique(labels, return_counts=True)[1].max())
    if others >= max(OTHERS, min(OTHER_SHARE * len(labels), ENOUGH) if classes > 2 else 0):
        return []
    return [
        Flag(
            code="one_class",
            severity="warning",
            message=f"Of {len(labels):,} {thing}s {others or 'none'} {'has' if others < 2 else 'have'} another label "
            "than the most frequent one: next to nothing is known of the other classes. Audit a sample with several, "
            "or more examples where the others are rare.",
        )
    ]
