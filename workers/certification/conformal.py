"""Conformal prediction sets of a smoothed model, and what an attack can make of them.

Split conformal prediction puts every class with a score of at least a threshold into a set; the threshold is a quantile
of the labels' scores on clean examples, so that a set holds the label with a probability of at least 1 - alpha (Vovk,
Gammerman, Shafer 2005). An attack moves scores. With certified intervals of all classes' scores two things can be said
(Gendler et al. 2022; Zargarbashi et al., Robust Yet Efficient Conformal Prediction Sets, ICML 2024):

- a **plain** set still holds the label within the radius wherever the lower end of its score is above the threshold;
- a **robust** set, of every class whose upper end is above it, holds the label whatever is done within the radius.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from workers.certification.simplex_box import TOLERANCE, SimplexBox


def threshold(scores: ArrayLike, level: float) -> float:
    """Return the least score of a class in a set, from the labels' scores on clean examples (n,).

    Guarantee: the score of the label of another example, exchangeable with these, is at least that with a probability
    of at least ``level``. Given lower ends of certified intervals instead, the same holds for its own lower end: and so
    for its true score, but for the certificate's alpha. 0, which every score reaches, where n is too small.

    Raises:
        ValueError: ``level`` is not in (0, 1).

    >>> threshold([0.9, 0.1, 0.5, 0.7], 0.75), threshold([0.9], 0.75)
    (0.1, 0.0)
    """
    if not 0 < level < 1:
        raise ValueError(f"a level must be in (0, 1): {level=}")
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    # Of n + 1 scores in random order, the last is below the rank-th least of the others once in (n + 1) / rank times.
    rank = math.floor((len(ordered) + 1) * (1 - level) + 1e-9)
    return float(ordered[rank - 1]) if rank >= 1 else 0.0


def largest_sets(box: SimplexBox, least: float) -> Ints:
    """Return how many classes can have a score of at least ``least`` at once (n,), in the boxes; exact.

    Every class's part beyond its lower end comes out of what all lower ends leave of 1, cheapest first.

    Args:
        box: (n, classes), every column a class.
        least: Score of a class in a set.

    Raises:
        ValueError: A column stands for several classes.

    >>> largest_sets(SimplexBox.read([[0.2, 0.2, 0.0]], [[0.8, 0.8, 0.3]]), 0.4).tolist()
    [2]
    """
    if box.rest != 1:
        raise ValueError("sets are counted where every column is a class")
    needed = np.where(box.upper >= least, np.maximum(least - box.lower, 0), np.inf)
    spent: Floats = np.cumsum(np.sort(needed, axis=1), axis=1)
    free = 1 - box.lower.sum(1, keepdims=True)
    found: Ints = (spent <= free + TOLERANCE).sum(1)
    return found


def robust_sets(upper: ArrayLike, least: float) -> Ints:
    """Return the sizes (n,) of the sets of every class whose upper end (n, classes) is at least ``least``.

    >>> robust_sets([[0.9, 0.3, 0.1]], 0.2).tolist()
    [2]
    """
    sizes: Ints = (np.asarray(upper, dtype=np.float64) >= least).sum(1)
    return sizes
