"""Confidence intervals of means and ratios of values in a known range, which leave room for an example not seen.

Let n + 1 weights be uniform on the simplex (standard exponentials over their sum), n for the examples and one for an
unseen example at the end of the range. The upper end is what their weighted mean exceeds with probability alpha / 2,
the unseen example lying at the top; the lower end likewise, at the bottom. Of values that are 0 or 1 these are the ends
of Clopper and Pearson, whose beta quantile is that of the weight of k ones and the unseen example.

Guarantee: each end is wrong with probability at most alpha / 2 at any sample size. For values that are one of two this
is Clopper and Pearson's; for others a conjecture of Gaffke (2005) to which no counterexample is known (Learned-Miller
and Thomas 2019, arXiv:1905.06208). ``benchmarks/coverage.py`` simulates it. No resampling, no seed, any level.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from seatrial.statistics.intervals import Interval
from seatrial.statistics.normal import normal_cdf
from seatrial.statistics.roots import brent_root

TOLERANCE = 1e-9
"""How far off an end may be, relative to the distance from the value to the end of the range."""

NEAR_MEAN = 1e-4
"""Normal deviates below which the tail is expanded around its middle: the difference of its two terms cancels."""

TINY = 1e-100
"""Next to the largest of some values, as good as 0."""

CLEAR_OF_POLES = 0.9
"""How far towards a pole of the cumulants' derivative, as a share of the way from 0, the search may begin."""

MOST_DOUBLINGS = 200

Unseen = tuple[float, float]
"""Numerator and denominator of the example that was not seen."""


def mean_interval(values: ArrayLike, lowest: float, highest: float, *, alpha: float = 0.05) -> Interval:
    """Return the interval of the mean of values in a range; what this module says of it holds.

    Args:
        values: (n,) at least one; where rounding puts one outside of the range, the range reaches as far.
        lowest: Least value an example can have.
        highest: Largest.
        alpha: Probability of missing the truth, half of it at either end.

    Raises:
        ValueError: There is no value, one is not finite, or alpha is no probability.

    >>> [round(end, 3) for end in mean_interval([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0, 1)]
    [0.554, 0.998]
    """
    seen = np.asarray(values, dtype=np.float64)
    # Subnormal numbers have too few digits for the search for an end to come to one: entropies of scores that are
    # exactly 0 and 1 are some.
    seen = np.where(np.abs(seen) < np.finfo(np.float64).tiny, 0.0, seen)
    if len(seen) == 0:
        raise ValueError("there must be a value")
    least, most = min(lowest, float(seen.min())), max(highest, float(seen.max()))
    if most - least < TINY and np.isfinite(seen).all():
        # Next to nothing, and where doubles lose their digits: all of the range.
        return least, most
    found = ratio_interval(seen, np.ones(len(seen)), (least, 1.0), (most, 1.0), alpha=alpha)
    if found is None:
        raise AssertionError("unreachable: as many ones as there are values do not add up to 0")
    return found


def ratio_interval(
    numerators: ArrayLike, denominators: ArrayLike, least: Unseen, most: Unseen, *, alpha: float = 0.05
) -> Interval | None:
    """Return the interval of a ratio of sums over examples, such as a share of decisions that come in sentences.

    A ratio is at most t where the mean of numerator - t denominator is at most 0, so that it has the guarantee of a
    mean, as far as the unseen examples are as bad as one can be: of sums over unequal examples they must weigh enough
    (:func:`typical_size`).

    Args:
        numerators: (n,).
        denominators: (n,) none negative.
        least: The unseen example that lowers the ratio most.
        most: The one that raises it most; with a denominator of 0 the upper end is open.
        alpha: Probability of missing the truth, half of it at either end.

    Returns:
        None where the denominators add up to 0.

    Raises:
        ValueError: A number is not finite, the two differ in shape, or alpha is no probability.

    >>> [round(end, 3) for end in ratio_interval([2.0, 3.0, 4.0], [2.0, 4.0, 4.0], (0, 4), (4, 4))]
    [0.223, 0.998]
    """
    above, below = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if above.ndim != 1 or above.shape != below.shape or not 0 < alpha < 1:
        raise ValueError(f"not a valid sample: {above.shape}, {below.shape}, {alpha=}")
    if not (np.isfinite(above).all() and np.isfinite(below).all() and (below >= 0).all()):
        raise ValueError("numerators must be finite, and denominators finite and not negative")
    if not below.sum() > 0:
        return None
    low = 0.0 - _upper(0.0 - above, below, (-least[0], least[1]), alpha / 2)
    return low, _upper(above, below, most, alpha / 2)


def typical_size(sizes: ArrayLike) -> float:
    """Return the size of the example that a decision drawn from all of them lies in, on average; 0 of nothing.

    What an example that was not seen is taken to weigh: this holds as long as what strikes examples grows no faster
    than their size.

    >>> typical_size([1.0, 3.0])
    2.5
    """
    weights = np.asarray(sizes, dtype=np.float64)
    total = float(weights.sum())
    return float((weights**2).sum()) / total if total > 0 else 0.0


def _upper(above: Floats, below: Floats, unseen: Unseen, tail: float) -> float:
    """Return the ratio that randomly weighted sums, the unseen example among them, exceed with probability ``tail``."""
    value = float(above.sum() / below.sum())
    seen, sizes = np.append(above, unseen[0]), np.append(below, unseen[1])

    # Where the saddlepoint of one ratio was is where that of the next is looked for.
    last = 0.0

    @cache  # A ratio asked about again has the same sign, whatever was asked between.
    def excess(ratio: float) -> float:
        nonlocal last
        chance, last = _chance_and_saddlepoint(seen - ratio * sizes, last)
        return chance - tail

    if excess(value) <= 0:
        return value
    if unseen[1] > 0:
        limit = max(value, unseen[0] / unseen[1])
        # A single example above the limit, by the rounding of its mean, is the limit.
        while excess(limit) > 0:
            limit += max(limit - value, TOLERANCE)
    else:
        limit = value + 1.0
        for _ in range(MOST_DOUBLINGS):
            if excess(limit) <= 0:
                break
            limit += limit - value
    if limit == value:
        return value
    return float(brent_root(excess, value, limit, tolerance=TOLERANCE * (limit - value)))


def chance_above_zero(values: ArrayLike) -> float:
    """Return the probability that the sum of values, each times a standard exponential variable, is above 0.

    By the saddlepoint of its cumulants -sum log(1 - s y) (Lugannani and Rice 1980): within 2 % of itself from
    probabilities of 0.0001 up, and conservative where a few values make it. Where that of a mean of weighted examples
    is meant, the weights' sum does not matter.

    Args:
        values: (n,) finite.

    >>> round(chance_above_zero([1.0, -1.0]), 3), chance_above_zero([-1.0, -2.0])
    (0.5, 0.0)
    """
    return _chance_and_saddlepoint(np.asarray(values, dtype=np.float64), 0.0)[0]


def _chance_and_saddlepoint(terms: Floats, near: float) -> tuple[float, float]:
    """Return :func:`chance_above_zero` and its saddlepoint, looked for from near one; 0 where there is none."""
    largest, smallest = (float(terms.max()), float(terms.min())) if len(terms) else (0.0, 0.0)
    if largest <= 0:
        return 0.0, 0.0
    if smallest >= 0:
        return 1.0, 0.0
    # Their scale does not matter, and next to 0 it would overflow.
    scale = max(largest, -smallest)
    terms, largest, smallest = terms / scale, largest / scale, smallest / scale
    if -smallest <= TINY or largest <= TINY:
        return float(largest > TINY), 0.0
    at = _saddlepoint(terms, 1 / smallest, 1 / largest, near * scale)
    shares: Floats = terms / (1 - at * terms)
    deviate = math.copysign(math.sqrt(max(0.0, 2 * float(np.log1p(-at * terms).sum()))), at)
    scaled = at * math.sqrt(float(shares @ shares))
    if abs(deviate) < NEAR_MEAN:
        skewness = float(2 * (terms**3).sum() / (terms**2).sum() ** 1.5)
        return 0.5 - (deviate + skewness / 6) / math.sqrt(2 * math.pi), at / scale
    density = math.exp(-(deviate**2) / 2) / math.sqrt(2 * math.pi)
    chance = normal_cdf(-deviate) + density * (1 / scaled - 1 / deviate)
    return min(1.0, max(0.0, chance)), at / scale


def _saddlepoint(terms: Floats, start: float, end: float, near: float) -> float:
    """Return where the sum of y / (1 - s y), which grows with s, is 0: by Newton's steps within a shrinking bracket."""
    # Next to a pole a step is as short as the way to it, and would pass for the last one.
    at = near if CLEAR_OF_POLES * start < near < CLEAR_OF_POLES * end else 0.0
    shares: Floats = np.empty_like(terms)
    for _ in range(100):
        # terms / (1 - at * terms), without a new array each time.
        np.multiply(at, terms, out=shares)
        np.subtract(1, shares, out=shares)
        np.divide(terms, shares, out=shares)
        slope = float(shares.sum())
        start, end = (start, at) if slope > 0 else (at, end)
        step = at - slope / float(shares @ shares)
        if not start < step < end:
            step = (start + end) / 2
        if abs(step - at) <= 1e-12 * abs(step):
            return step
        at = step
    return at
