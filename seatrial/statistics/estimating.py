"""Samples to estimates: the value, its interval, and how the interval was made."""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seatrial.contracts.estimates import Estimate, IntervalMethod
from seatrial.contracts.family import Limits
from seatrial.statistics.arrays import Floats
from seatrial.statistics.bounded import Unseen, mean_interval, ratio_interval, typical_size
from seatrial.statistics.calibration import MEANS, calibrate, reliability
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import Interval

ALPHA = 0.05
"""Of the intervals that are published."""

BEYOND = 2.0
"""Where nobody knows how far values go, by how much of what was seen an example may lie beyond it."""

ROUNDING = 1e-9
"""Values this near, relative to the largest, are alike."""


def seed_of(seed: int, purpose: str) -> list[int]:
    """Return a seed for one purpose, unrelated to those of others.

    >>> seed_of(1, "mus") == seed_of(1, "mus"), seed_of(1, "mus") == seed_of(1, "nud")
    (True, False)
    """
    return [seed % 2**63, int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")]


def estimate(value: float | None, interval: Interval | None, n: int, method: IntervalMethod = "resampled") -> Estimate:
    """Return an estimate; without an interval its ends are null."""
    if value is None or not math.isfinite(value):
        return Estimate(value=None, low=None, high=None, n=n, method="none")
    if interval is None:
        return Estimate(value=value, low=None, high=None, n=n, method="none")
    # An end may be summed in another order than the value it is the end of.
    low, high = min(interval[0], value), max(interval[1], value)
    return Estimate(value=value, low=low, high=high, n=n, method=method)


def mean(values: Floats, span: Limits, *, alpha: float = ALPHA) -> Estimate:
    """Return a mean with its interval (:func:`~seatrial.statistics.bounded.mean_interval`).

    Undefined values (NaN) are left out and not counted in ``n``.

    Guarantee: each end is wrong with probability at most alpha / 2, where the range is known (method ``gaffke``).
    Failure: where an end of it is not (``gaffke-seen``), an unseen example is taken to lie beyond the farthest one by
    twice the way from there to the other end of the range, or of the sample where that is not known either: of values
    from 0 on, at three times the largest. Nothing holds for what is rarer and lies farther, and values that are all
    alike have no interval then.

    Args:
        values: (n,).
        span: Least and largest value an example can have; None where that is not known.
        alpha: Probability of missing the truth.
    """
    defined = values[np.isfinite(values)]
    if len(defined) == 0:
        return estimate(None, None, 0)
    least, most = float(defined.min()), float(defined.max())
    reach = most - least
    is_known = None not in span
    method: IntervalMethod = "gaffke" if is_known else "gaffke-seen"
    if len(defined) < 2:
        return estimate(float(defined.mean()), None, len(defined))
    if not is_known and reach <= ROUNDING * max(abs(least), abs(most)):
        return Estimate(value=float(defined.mean()), low=None, high=None, n=len(defined), method=method)
    lowest = least - BEYOND * ((most if span[1] is None else span[1]) - least) if span[0] is None else span[0]
    highest = most + BEYOND * (most - (least if span[0] is None else span[0])) if span[1] is None else span[1]
    return estimate(float(defined.mean()), mean_interval(defined, lowest, highest, alpha=alpha), len(defined), method)


def share(
    hits: Floats, decisions: Floats, *, unseen: tuple[Unseen, Unseen] | None = None, alpha: float = ALPHA
) -> Estimate:
    """Return a ratio of sums over examples with its interval (:func:`~seatrial.statistics.bounded.ratio_interval`).

    Args:
        hits: (n,) sums over each example.
        decisions: (n,) what they are out of.
        unseen: Examples that lower and raise it most; by default none or all of a typical example's decisions are hits.
        alpha: Probability of missing the truth.
    """
    size = typical_size(decisions)
    least, most = unseen or ((0.0, size), (size, size))
    total, n = float(decisions.sum()), len(decisions)
    if not total > 0:
        return estimate(None, None, 0)
    interval = ratio_interval(hits, decisions, least, most, alpha=alpha) if n > 1 else None
    return estimate(float(hits.sum()) / total, interval, n, "gaffke")


def calibration(
    confidence: ArrayLike, correct: ArrayLike, bins: int, *, seed: list[int], alpha: float = ALPHA
) -> dict[str, Estimate]:
    """Return the metrics of :func:`~seatrial.statistics.calibration.calibrate` as estimates, by their names."""
    found = calibrate(confidence, correct, bins, seed=seed, alpha=alpha)
    n = len(np.asarray(confidence))
    return {
        name: estimate(value, found.intervals[name], n, "gaffke" if name in MEANS else "resampled")
        for name, value in found.values.items()
    }


def proportion(hits: NDArray[np.bool_], *, alpha: float = ALPHA) -> Estimate:
    """Return a proportion with its Clopper-Pearson interval."""
    n, successes = len(hits), int(hits.sum())
    if n == 0:
        return estimate(None, None, 0)
    low, high = clopper_pearson(successes, n, alpha=alpha)
    return Estimate(value=successes / n, low=low, high=high, n=n, method="clopper-pearson")


def diagram(confidence: ArrayLike, correct: ArrayLike, bins: int) -> dict[str, Any]:
    """Return a reliability diagram as JSON values; empty bins are null.

    >>> diagram([0.9, 1.0], [True, False], bins=2)["accuracy"]
    [None, 0.5]
    """
    found = reliability(confidence, correct, bins)
    return {
        "edges": found.edges.tolist(),
        "count": found.count.tolist(),
        "accuracy": [None if math.isnan(value) else value for value in found.accuracy.tolist()],
        "confidence": [None if math.isnan(value) else value for value in found.confidence.tolist()],
    }
