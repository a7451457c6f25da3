"""Conformal prediction sets of a classifier: scores of classes, and how many are in a set.

A score says how ill a class fits; split conformal prediction puts every class into the set whose score is at most a
quantile of the labels' scores on examples held out
(:func:`seatrial.statistics.selective.conformal_threshold`). None of the scores is randomised: that of a class is a
function of the probabilities alone, so that sets are the same every time and cover no less than asked for, and a little
more than randomised ones.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints

SetScore = Literal["lac", "aps", "raps"]
SET_SCORES: tuple[SetScore, ...] = ("lac", "aps", "raps")
"""1 - p (least ambiguous sets; Sadinle et al. 2019), adaptive sets (Romano et al. 2020), and regularised adaptive ones
(Angelopoulos et al. 2021)."""


def ranked_scores(probabilities: ArrayLike, score: SetScore, *, penalty: float = 0.0, free: int = 0) -> Floats:
    """Return the scores of the likeliest class, the second, and so on (n, classes): they never fall along a row.

    ``lac``: 1 - p. ``aps``: the probability of all classes down to this one, itself included. ``raps``: that and
    ``penalty`` for every rank beyond the first ``free``.

    Args:
        probabilities: (n, classes).
        score: Which.
        penalty: Of ``raps``, at least 0.
        free: Of ``raps``, ranks without a penalty.

    >>> ranked_scores([[0.25, 0.5, 0.25]], "aps").tolist()
    [[0.5, 0.75, 1.0]]
    """
    falling = -np.sort(-np.asarray(probabilities, dtype=np.float64), axis=1)
    if score == "lac":
        return 1 - falling
    found: Floats = np.cumsum(falling, axis=1)
    if score == "raps":
        ranks = np.arange(1, found.shape[1] + 1)
        found = found + penalty * np.maximum(ranks - free, 0)
    return found


def label_ranks(probabilities: ArrayLike, labels: Ints) -> Ints:
    """Return at what rank labels (n,) stand among probabilities (n, classes), the likeliest at 0.

    Of classes that tie the first comes first, as an argmax has it. A label that is no class stands behind all of them.

    >>> label_ranks([[0.25, 0.5, 0.25]] * 4, np.array([1, 0, 2, 3])).tolist()
    [0, 1, 2, 3]
    """
    given = np.asarray(probabilities, dtype=np.float64)
    order = np.argsort(-given, axis=1, kind="stable")
    is_own = order == np.asarray(labels)[:, None]
    found: Ints = np.where(is_own.any(1), is_own.argmax(1), given.shape[1])
    return found


def scores_at(ranked: Floats, ranks: Ints) -> Floats:
    """Return the scores (n,) at a rank of each row of :func:`ranked_scores`; infinite behind the last.

    >>> scores_at(np.array([[0.5, 1.0], [0.5, 1.0]]), np.array([1, 2])).tolist()
    [1.0, inf]
    """
    beyond = np.pad(ranked, ((0, 0), (0, 1)), constant_values=np.inf)
    found: Floats = np.take_along_axis(beyond, np.asarray(ranks)[:, None], axis=1)[:, 0]
    return found
