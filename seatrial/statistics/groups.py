"""Accuracy group by group: who is served worse, and by how much the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seatrial.statistics.exact import clopper_pearson, fisher
from seatrial.statistics.intervals import Interval


@dataclass(frozen=True)
class GroupAccuracy:
    """One group beside the rest.

    Attributes:
        correct: Right answers.
        n: Examples.
        interval: Of the accuracy, exact, for this group alone.
        rest: Accuracy of all others; None where there are none.
        p: Fisher's exact two-sided p of a difference to the rest, with Holm's correction over the groups.
    """

    correct: int
    n: int
    interval: Interval
    rest: float | None
    p: float

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return self.correct / self.n


def by_group(groups: Sequence[str], correct: NDArray[np.bool_], *, fewest: int = 1) -> dict[str, GroupAccuracy]:
    """Return the accuracy of every group of at least ``fewest`` examples, by name.

    Guarantee: that one of the p values is below 0.05 though no group differs from the rest has a probability of at most
    0.05, however the groups depend on each other (Holm 1979).

    Args:
        groups: (n,) names.
        correct: (n,) whether each is right.
        fewest: Smaller groups are left out; their examples stay in the rest of others.
    """
    names, members = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    sizes, hits = np.bincount(members), np.bincount(members, correct).astype(np.int64)
    kept = [at for at in range(len(names)) if sizes[at] >= fewest]
    n, total = len(correct), int(np.sum(correct))
    p_values = [fisher(int(hits[at]), int(sizes[at]), total, n) for at in kept]
    return {
        str(names[at]): GroupAccuracy(
            int(hits[at]),
            int(sizes[at]),
            clopper_pearson(int(hits[at]), int(sizes[at])),
            None if sizes[at] == n else float(total - hits[at]) / float(n - sizes[at]),
            p,
        )
        for at, p in zip(kept, holm(p_values), strict=True)
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted for being several (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = largest
    return adjusted


def worst_interval(groups: Mapping[str, GroupAccuracy], *, alpha: float = 0.05) -> Interval | None:
    """Return an interval of the lowest accuracy of any of the groups; None without any.

    Guarantee: each end is wrong with probability at most alpha / 2, however many groups tie. The lowest of the groups'
    lower ends is above the truth only if that of the truly lowest group is; the lowest of the upper ends, at alpha / 2
    shared among the groups, is below it only if one of them is below its own.

    >>> worst_interval({})
    """
    if not groups:
        return None
    low = min(clopper_pearson(one.correct, one.n, alpha=alpha)[0] for one in groups.values())
    high = min(clopper_pearson(one.correct, one.n, alpha=alpha / len(groups))[1] for one in groups.values())
    return low, high
