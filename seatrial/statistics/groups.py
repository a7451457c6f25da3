"""Accuracy and calibration group by group: who is served worse, and by how much the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.binned import ks_p
from seatrial.statistics.calibration import calibrate
from seatrial.statistics.exact import clopper_pearson, fisher
from seatrial.statistics.intervals import Interval

ALPHA = 0.05


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
    names, members = _members(groups)
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


@dataclass(frozen=True)
class GroupCalibration:
    """The calibration error of one group.

    Attributes:
        ece: Expected calibration error, in bins of equal width.
        n: Examples.
        interval: Of it, for this group alone; None for fewer than two examples.
        shared: The same with the level shared among the groups (Bonferroni).
        p: Probability of a larger Kolmogorov-Smirnov error were every confidence of the group true, with Holm's
            correction over the groups; 1 where no confidence leaves anything to chance.
    """

    ece: float
    n: int
    interval: Interval | None
    shared: Interval | None
    p: float


def calibration_by_group(
    groups: Sequence[str], confidence: ArrayLike, correct: ArrayLike, bins: int, *, seed: list[int], fewest: int = 1
) -> dict[str, GroupCalibration]:
    """Return the calibration error of every group of at least ``fewest`` examples, by name.

    Guarantee, up to the limit of the null law for many examples (:func:`~seatrial.statistics.binned.ks_p`): that one
    of the p values is below 0.05 though all confidences are true has a probability of at most 0.05 (Holm 1979).

    Args:
        groups: (n,) names.
        confidence: (n,) in [0, 1].
        correct: (n,) whether each is right.
        bins: Of equal width.
        seed: The same seed gives the same intervals.
        fewest: Smaller groups are left out.
    """
    names, members = _members(groups)
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    sizes = np.bincount(members)
    kept = [at for at in range(len(names)) if sizes[at] >= fewest]
    parts: list[tuple[Floats, NDArray[np.bool_]]] = [(sure[members == at], right[members == at]) for at in kept]
    p_values = [ks_p(*part) for part in parts]
    found = {}
    for at, part, p in zip(kept, parts, holm([1.0 if one is None else one for one in p_values]), strict=True):
        alone, shared = (calibrate(*part, bins, seed=[*seed, at], alpha=alpha) for alpha in (ALPHA, ALPHA / len(kept)))
        found[str(names[at])] = GroupCalibration(
            float(alone.values["ece"] or 0.0), len(part[0]), alone.intervals["ece"], shared.intervals["ece"], p
        )
    return found


def largest_interval(groups: Mapping[str, GroupCalibration]) -> Interval | None:
    """Return an interval of the largest calibration error of any of the groups; None where one has none.

    Guarantee: each end is wrong with probability at most alpha / 2, as far as the groups' own ends are. The largest of
    the upper ends is below the truth only if that of the group that is truly worst is; the largest of the lower ends,
    at alpha / 2 shared among the groups, is above it only if one of them is above its own.

    >>> largest_interval({})
    """
    lows = [one.shared[0] for one in groups.values() if one.shared is not None]
    highs = [one.interval[1] for one in groups.values() if one.interval is not None]
    return (max(lows), max(highs)) if highs and len(highs) == len(groups) else None


def _members(groups: Sequence[str]) -> tuple[NDArray[np.str_], Ints]:
    """Return the names in order, and which of them each example (n,) is of."""
    names, members = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    return names, members.astype(np.int64)


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
