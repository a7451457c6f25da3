"""Samples to estimates: the value, its interval, and how the interval was made."""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seatrial.contracts.estimates import Estimate
from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import reliability
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import Interval, bootstrap_means


def seed_of(seed: int, purpose: str) -> list[int]:
    """Return a seed for one purpose, unrelated to those of others.

    >>> seed_of(1, "mus") == seed_of(1, "mus"), seed_of(1, "mus") == seed_of(1, "nud")
    (True, False)
    """
    return [seed % 2**63, int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")]


def estimate(value: float | None, interval: Interval | None, n: int) -> Estimate:
    """Return a bootstrap estimate; without an interval its ends are null."""
    if value is None or not math.isfinite(value):
        return Estimate(value=None, low=None, high=None, n=n, method="none")
    if interval is None:
        return Estimate(value=value, low=None, high=None, n=n, method="none")
    return Estimate(value=value, low=interval[0], high=interval[1], n=n, method="bootstrap")


def mean(values: Floats, seed: list[int]) -> Estimate:
    """Return a mean with its bootstrap interval; undefined values (NaN) are left out and not counted in ``n``."""
    defined = values[np.isfinite(values)]
    if len(defined) == 0:
        return estimate(None, None, 0)
    value, interval = float(defined.mean()), bootstrap_means(defined[:, None], seed=seed)[0]
    if interval is not None:
        # It holds the mean as the bootstrap sums it, which may differ in the last digit.
        interval = min(interval[0], value), max(interval[1], value)
    return estimate(value, interval, len(defined))


def proportion(hits: NDArray[np.bool_]) -> Estimate:
    """Return a proportion with its Clopper-Pearson interval."""
    n, successes = len(hits), int(hits.sum())
    if n == 0:
        return estimate(None, None, 0)
    low, high = clopper_pearson(successes, n)
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
