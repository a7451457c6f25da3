"""Macro AUROC of texts with several labels, as a function of how often each text was drawn."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints

Function = Callable[[Floats], Floats]
"""Weights (rows, n) to one number for each row (rows,)."""


class MacroAuroc:
    """The mean over classes of the probability that a text with the label scores above one without, ties half.

    scikit-learn's ``roc_auc_score(average="macro")``, for whole matrices of weights: each class is sorted once, and a
    resample costs two passes over its texts. A class that all texts have, or none, has no AUROC: it is left out of the
    mean; so is, in a resample, a class that lost one kind there.

    Args:
        truths: (n, classes) 0 or 1.
        scores: (n, classes) without NaN; logits tell apart what probabilities near 1 do not.
        present: (n,) which texts count; all by default.

    Raises:
        ValueError: The two matrices differ in shape, or a score that counts is not a number.
    """

    def __init__(self, truths: ArrayLike, scores: ArrayLike, present: ArrayLike | None = None) -> None:
        labels, values = np.asarray(truths, dtype=bool), np.asarray(scores, dtype=np.float64)
        if labels.ndim != 2 or labels.shape != values.shape:
            raise ValueError(f"truths and scores must be two matrices of one shape: {labels.shape}, {values.shape}")
        rows = np.arange(len(labels)) if present is None else np.flatnonzero(np.asarray(present, dtype=bool))
        if np.isnan(values[rows]).any():
            raise ValueError("scores must be numbers")
        self._values = values
        self._classes = {
            number: _OneClass(rows[labels[rows, number]], rows[~labels[rows, number]], values[:, number])
            for number in range(labels.shape[1])
            if 0 < int(labels[rows, number].sum()) < len(rows)
        }

    def with_unseen(self, side: int) -> Function:
        """Return the same with two texts more in each class, the last columns of weights (rows, n + 2 classes).

        Of each class, one of the two has the label and the other has not. The first scores lower and the second higher
        than all others where ``side`` is -1, and the other way round where it is 1.
        """
        n, classes = len(self._values), len(self._classes)
        extended = {}
        for at, (number, one) in enumerate(self._classes.items()):
            scores = np.append(self._values[:, number], np.tile([side * np.inf, -side * np.inf], classes))
            extra = n + 2 * at
            extended[number] = _OneClass(np.append(one.having, extra), np.append(one.lacking, extra + 1), scores)
        return partial(_mean_area, extended)

    @property
    def classes(self) -> list[int]:
        """Classes with both kinds of texts."""
        return list(self._classes)

    def __call__(self, weights: Floats) -> Floats:
        """Return macro AUROC (rows,) for weights (rows, n); NaN in rows without any class left.

        >>> MacroAuroc([[1], [0], [0]], [[0.7], [0.2], [0.9]])(np.ones((1, 3))).tolist()
        [0.5]
        """
        return _mean_area(self._classes, weights)


def _mean_area(classes: Mapping[int, "_OneClass"], weights: Floats) -> Floats:
    total, defined = np.zeros(len(weights)), np.zeros(len(weights))
    # One class at a time: a matrix of weights may be all the memory there is for one.
    for one in classes.values():
        area = one.areas(weights)
        is_defined = np.isfinite(area)
        total += np.where(is_defined, area, 0.0)
        defined += is_defined
    return np.where(defined > 0, total / np.maximum(defined, 1), np.nan)


class _OneClass:
    """Texts with a label and without, sorted once."""

    def __init__(self, having: Ints, lacking: Ints, scores: Floats) -> None:
        self._having = self.having = having
        self.lacking = lacking
        self._lacking = lacking[np.argsort(scores[lacking], kind="stable")]
        ordered = scores[self._lacking]
        self._below = np.searchsorted(ordered, scores[having], side="left")
        self._not_above = np.searchsorted(ordered, scores[having], side="right")

    def areas(self, weights: Floats) -> Floats:
        """Return AUROC (rows,), NaN where the weights leave one kind out."""
        beaten = np.zeros((len(weights), len(self._lacking) + 1))
        np.cumsum(weights[:, self._lacking], axis=1, out=beaten[:, 1:])
        having = weights[:, self._having]
        won = np.sum(having * (beaten[:, self._below] + beaten[:, self._not_above]), axis=1) / 2
        pairs = having.sum(axis=1) * beaten[:, -1]
        return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan)
