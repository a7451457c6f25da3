"""What the uncertainty of a smoothed model can become within a radius, from certified intervals of its mean scores.

The smoothed model's scores are fbar(x) = E f(x + noise). Where each class's mean score is certified to stay within
[l_k, u_k], the vector stays in a box of the simplex, and every uncertainty of it between the ends computed here
(:mod:`workers.certification.simplex_box`). The **certified span** is the difference of these ends: no two images within
the radius have uncertainties that are further apart. That is what an attack that raises and lowers uncertainty by turns
(Ledda et al., Adversarial Attacks Against Uncertainty Quantification, the span of uncertainty) cannot exceed.

Natural logarithms throughout.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import entr

from seatrial.statistics.arrays import Floats, Mask
from workers.certification.simplex_box import NODES, SimplexBox, is_ordered_alike, most_even, most_uneven, smallest

Uncertainty = Literal["entropy", "gini", "least_confidence"]
UNCERTAINTIES: tuple[Uncertainty, ...] = ("entropy", "gini", "least_confidence")


def largest_uncertainty(uncertainty: Uncertainty, classes: int) -> float:
    """Return the uncertainty of a uniform vector, which no other exceeds.

    >>> largest_uncertainty("gini", 4), round(largest_uncertainty("entropy", 10), 3)
    (0.75, 2.303)
    """
    return math.log(classes) if uncertainty == "entropy" else 1 - 1 / classes


def uncertainty_of(uncertainty: Uncertainty, scores: Floats) -> Floats:
    """Return the uncertainty (...) of probability vectors (..., k).

    >>> [round(float(uncertainty_of(one, np.array([0.5, 0.5]))), 3) for one in UNCERTAINTIES]
    [0.693, 0.5, 0.5]
    """
    if uncertainty == "least_confidence":
        least: Floats = 1 - scores.max(axis=-1)
        return least
    total: Floats = _TERMS[uncertainty](scores).sum(axis=-1)
    return total


def _gini(scores: Floats) -> Floats:
    return scores * (1 - scores)


def _entropy(scores: Floats) -> Floats:
    # A coordinate filled up may be a rounding below 0, where entr is -inf.
    found: Floats = entr(np.maximum(scores, 0))
    return found


_TERMS: dict[str, Callable[[Floats], Floats]] = {"entropy": _entropy, "gini": _gini}


@dataclass(frozen=True)
class Reach:
    """Between what an uncertainty stays.

    Attributes:
        low: (n,) lower ends.
        high: (n,) upper ends, which are reached in the box.
        is_exact: (n,) whether the lower ends are reached in it too.
    """

    low: Floats
    high: Floats
    is_exact: Mask

    @property
    def span(self) -> Floats:
        """How far apart two uncertainties within the radius can be (n,)."""
        return self.high - self.low


def certified_uncertainty(uncertainty: Uncertainty, box: SimplexBox, nodes: int = NODES) -> Reach:
    """Return between what the uncertainty of any probability vector in the boxes is.

    Guarantee: where the mean scores of every image within the radius are in the box, their uncertainty is in
    [low, high]; ``high`` is attained in the box, and so is ``low`` where it is exact, so nothing narrower follows from
    the box. It fails where a bound of a class does, and says nothing of what the classifier can do within its box.

    Args:
        uncertainty: Which.
        box: (n, k), the last column the sum of several classes or not.
        nodes: As for :func:`~workers.certification.simplex_box.smallest`.

    >>> reach = certified_uncertainty("entropy", SimplexBox.read([[0.8, 0.0]], [[1.0, 0.2]]))
    >>> reach.low.tolist(), reach.high.round(4).tolist()
    ([0.0], [0.5004])
    """
    even = most_even(box)
    if uncertainty == "least_confidence":
        # The largest coordinate can be the largest upper end, of a tightened box.
        return Reach(
            low=1 - box.upper.max(axis=1), high=1 - even.max(axis=1), is_exact=np.ones(len(even), dtype=np.bool_)
        )
    term = _TERMS[uncertainty]
    high: Floats = (term(even) * box.copies).sum(axis=1)
    low = term(most_uneven(box)).sum(axis=1)
    exact = is_ordered_alike(box)
    if not bool(exact.all()):
        others = SimplexBox(box.lower[~exact], box.upper[~exact], box.rest)
        found = smallest(others, lambda row: term, nodes)
        low[~exact] = np.maximum(low[~exact], found.value)
        exact[~exact] = found.is_exact
    return Reach(low=np.clip(low, 0, high), high=high, is_exact=exact)
