"""Models in the order of one number, and which places comparisons of every two leave open."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.family import Better
from seatrial.families.shared.per_example import Values
from seatrial.judging.evidence import ALPHA, Evidence, p_of
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.pairing import Pairs, pairs_of
from seatrial.judging.ranges import is_fixed, range_of
from seatrial.judging.regression import mover, paired_difference
from seatrial.statistics.arrays import Mask
from seatrial.statistics.ranks import rank_interval


@dataclass(frozen=True)
class Entry:
    """A model's number.

    Attributes:
        estimate: The number; its value is known.
        check: What measured it.
        values: What it is the mean of; None where it is no mean over examples, or the records are gone.
    """

    estimate: Estimate
    check: MeasuredCheck
    values: Values | None


@dataclass(frozen=True)
class Place:
    """A model's rank, 1 the best, with the best and the worst one that comparisons leave open."""

    rank: int
    low: int
    high: int


def difference(metric: str, entry: Entry, other: Entry) -> Evidence:
    """Return a number less another model's, with its interval: example by example where the records allow it."""
    why = "it is not a mean over examples, or the records are missing"
    if entry.values is not None and other.values is not None:
        pairs = pairs_of(entry.values, other.values)
        if isinstance(pairs, Pairs):
            return paired_difference(pairs.now - pairs.then, range_of(metric, entry.check), pairs.weights)
        why = pairs
    told = f"not compared example by example: {why}"
    return Evidence(mover(entry.estimate, other.estimate), is_fixed=is_fixed(metric), why=told)


def places(metric: str, entries: Sequence[Entry], better: Better) -> list[Place] | None:
    """Return the place of every entry; None where no way of the metric is better.

    Guarantee: each end of a rank's interval is wrong with probability at most 2.5 %, as far as the comparisons' own
    intervals hold (:func:`seatrial.judging.regression.compare`): each is made at 5 % over one less than the number of
    models (Bonferroni), by :func:`seatrial.judging.evidence.p_of`. Equal values share the best of their places.

    Args:
        metric: Full name.
        entries: Measured alike.
        better: Which way of the metric is good.
    """
    if better == "neither":
        return None
    sign = 1.0 if better == "higher" else -1.0
    values = np.array([sign * (entry.estimate.value or 0.0) for entry in entries])
    is_better = _surely_better(metric, entries, sign)
    found = []
    for at, value in enumerate(values):
        low, high = rank_interval(at, is_better)
        rank = 1 + int((values > value).sum())
        # Values may tie, or stand in another order than the comparisons of the examples both have.
        found.append(Place(rank, min(rank, int(low)), max(rank, int(high))))
    return found


def on_pareto_front(points: Sequence[Sequence[float]]) -> list[bool]:
    """Return whether no other point is at least as high in everything and higher in something.

    Args:
        points: Of each entry, numbers of which more is better.

    >>> on_pareto_front([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [2.0, 2.0]])
    [True, True, False, True]
    """
    values = np.array(points, dtype=np.float64)
    if not len(values):
        return []
    as_good = (values[:, None] >= values[None]).all(axis=2)
    better = (values[:, None] > values[None]).any(axis=2)
    return [not beaten for beaten in np.any(as_good & better, axis=0)]


def _surely_better(metric: str, entries: Sequence[Entry], sign: float) -> Mask:
    """Return (k, k) whether the first model is surely better than the second."""
    found = np.zeros((len(entries), len(entries)), dtype=bool)
    level = ALPHA / max(1, len(entries) - 1)
    for at, entry in enumerate(entries):
        for beside, other in enumerate(entries[:at]):
            evidence = difference(metric, entry, other)
            value = evidence.judged.value
            p = p_of(evidence, 0.0, "max")
            if value and p is not None and p <= level:
                found[(at, beside) if sign * value > 0 else (beside, at)] = True
    return found
