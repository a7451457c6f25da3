"""Whether decisions cling to what was decided first: paths between two texts that are decided apart.

Both ends of a path are asked, then what lies between them, step by step, from the end a coin picks. Where a function
decides, the place at which the decision changes knows nothing of the coin. Where an endpoint keeps the decision of what
it was asked before, it changes late, from whichever end one comes; its scores may move all the while.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from seatrial.statistics.arrays import Floats


def crossing_order(steps: int, *, from_start: bool) -> list[int]:
    """Return in which order a path of ``steps`` texts is asked.

    >>> crossing_order(5, from_start=True), crossing_order(5, from_start=False), crossing_order(1, from_start=True)
    ([0, 4, 1, 2, 3], [4, 0, 3, 2, 1], [0])
    """
    last = steps - 1
    inside = list(range(1, last))
    if not last:
        return [0]
    return [0, last, *inside] if from_start else [last, 0, *reversed(inside)]


@dataclass(frozen=True)
class Crossing:
    """The decisions along one path.

    Attributes:
        answers: (steps, classes) log-probabilities.
        from_start: Whether it was walked from the text as it is.
    """

    answers: Floats
    from_start: bool

    @property
    def is_decided_apart(self) -> bool:
        """Whether its ends have different decisions."""
        labels = self.answers.argmax(axis=1)
        return bool(labels[0] != labels[-1])

    @property
    def lag(self) -> int:
        """Steps inside that have the decision of the end walked from, less those that have the other end's."""
        labels = self.answers.argmax(axis=1) if self.from_start else self.answers.argmax(axis=1)[::-1]
        inside = labels[1:-1]
        return int((inside == labels[0]).sum()) - int((inside == labels[-1]).sum())


def clinging(crossings: Sequence[Crossing]) -> tuple[int, int, float]:
    """Return on how many paths the first decision held on for longer, on how many the other, and the one-sided p."""
    lags = [crossing.lag for crossing in crossings if crossing.is_decided_apart]
    longer, shorter = sum(lag > 0 for lag in lags), sum(lag < 0 for lag in lags)
    return longer, shorter, _sign_p(longer, shorter)


def grown(before: Mapping[int, float], after: Mapping[int, float]) -> tuple[int, int, float]:
    """Return on how many examples a value grew, on how many it fell, and the one-sided p of growth by chance.

    Args:
        before: Values by example.
        after: The same later; examples of both are compared.
    """
    common = before.keys() & after.keys()
    more = sum(after[example] > before[example] for example in common)
    less = sum(after[example] < before[example] for example in common)
    return more, less, _sign_p(more, less)


def _sign_p(more: int, less: int) -> float:
    return float(binomtest(more, more + less, alternative="greater").pvalue) if more + less else 1.0


def unmoved_share(path: Floats) -> float:
    """Return the share of a path's steps that move no score at all."""
    return float((np.diff(path, axis=0) == 0).all(axis=1).mean()) if len(path) > 1 else 0.0
