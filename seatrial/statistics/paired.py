"""Two answers to the same examples: is one right more often than the other, and by how much.

Only examples on which the two differ tell them apart: on ``b`` of them the first alone is right, on ``c`` the second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import bdtr, ndtri

from seatrial.statistics.intervals import Interval

CORRECTION = 1.0
"""Discordant pairs by which a difference must be further off than the normal distribution asks."""

NUDGE = 1e-12
"""Where the search for an end begins beside the value itself."""


def discordant(first: ArrayLike, second: ArrayLike) -> tuple[int, int, int]:
    """Return b, c and n of two vectors of successes on the same examples.

    Raises:
        ValueError: The two are not vectors of one length.

    >>> discordant([True, True, False], [True, False, False])
    (1, 0, 3)
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"paired successes must be two vectors of one length: {a.shape}, {b.shape}")
    return int(np.sum(a & ~b)), int(np.sum(~a & b)), len(a)


def mcnemar(b: int, c: int) -> float:
    """Return McNemar's exact two-sided p: of a split of the discordant pairs at least as uneven, were both equal.

    Without a discordant pair it is 1.

    >>> mcnemar(6, 0)
    0.03125
    """
    if min(b, c) < 0:
        raise ValueError(f"not counts: {b=}, {c=}")
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


def score_interval(b: int, c: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Return an interval of a difference of paired proportions, (b - c) / n.

    Tango's score interval (1998, eq. 4 to 7), which is McNemar's test inverted, with that test's continuity correction
    (Edwards 1948). Guarantee: each end is wrong with probability at most alpha / 2 (enumerated for 20 to 200 examples
    and rates from 0 to 0.9, alpha 0.05: at most 2.2 %), also for few discordant pairs and for none; it lies above 0
    where McNemar's exact p is below alpha, but for odd cases on the border. Without the correction an end is wrong up
    to 4.9 % of the time and 4 to 0 counts as proof; Newcombe's method 10 and Agresti and Min's interval miss up to 13 %
    where one answer dominates the other. Price: 1/n wider at each end.

    Args:
        b: Examples the first alone gets right.
        c: Examples the second alone gets right.
        n: Examples in all, at least 1.
        alpha: Probability of missing the truth.

    Raises:
        ValueError: The numbers do not describe a sample.

    >>> [round(end, 3) for end in score_interval(9, 1, 20)]
    [0.046, 0.672]
    >>> [round(end, 3) for end in score_interval(0, 0, 20)]
    [-0.236, 0.236]
    """
    return _end(b, c, n, -1, alpha / 2), _end(b, c, n, 1, alpha / 2)


@dataclass(frozen=True)
class Gap:
    """How far a reference lies above the lowest of several others, on the same examples.

    Attributes:
        lowest: Which of the others is lowest in the sample; the first of those that tie.
        value: The reference's rate less that one's; negative where the reference is lowest.
        interval: At 95 %, of the true difference to the truly lowest.
        p: McNemar's exact two-sided p against ``lowest``; not corrected for having chosen it.
        reference_only: Examples the reference alone gets right.
        lowest_only: Examples the lowest alone gets right.
    """

    lowest: int
    value: float
    interval: Interval
    p: float
    reference_only: int
    lowest_only: int


def gap_to_lowest(reference: ArrayLike, others: Sequence[ArrayLike], *, alpha: float = 0.05) -> Gap | None:
    """Return the gap between a reference and the lowest of several others, with an interval that knows of the choice.

    Guarantee: each end is wrong with probability at most alpha / 2, as far as :func:`score_interval` holds, however
    many of the others tie. The quantity is the largest of the differences d_k. Lower end: the largest of the lower ends
    at alpha / 2K each, since it can exceed the largest d_k only if one of the K exceeds its own d_k (Bonferroni). Upper
    end: the largest of the upper ends at alpha / 2 each, since it is at least that of the largest d_k; no correction is
    due. The lowest one's own interval would be wrong below (it was chosen for being low), and a bootstrap that chooses
    again in each resample is centred above the sample, which is above the truth already, wherever others tie.

    Args:
        reference: (n,) successes.
        others: K vectors (n,) of successes.
        alpha: Probability of missing the truth.

    Returns:
        None without examples or without others.
    """
    pairs = [discordant(reference, other) for other in others]
    if not pairs or pairs[0][2] == 0:
        return None
    differences = [b - c for b, c, _ in pairs]
    # Python's index finds the first of those that tie.
    lowest = differences.index(max(differences))
    low = max(_end(*pair, -1, alpha / 2 / len(pairs)) for pair in pairs)
    high = max(_end(*pair, 1, alpha / 2) for pair in pairs)
    b, c, n = pairs[lowest]
    return Gap(lowest, (b - c) / n, (low, high), mcnemar(b, c), b, c)


def _end(b: int, c: int, n: int, side: int, tail: float) -> float:
    """Return the lower (-1) or upper (1) end: where the score statistic is as far as the normal ``tail`` says."""
    if not (b >= 0 and c >= 0 and n >= 1 and b + c <= n and 0 < tail < 0.5):
        raise ValueError(f"not a valid sample: {b=}, {c=}, {n=}, {tail=}")
    critical = -float(ndtri(tail))
    start = (b - c) / n + side * NUDGE

    def excess(difference: float) -> float:
        # Multiplied out, so that nothing is divided by a spread of zero at the ends of the scale.
        return side * (n * difference - (b - c)) - CORRECTION - critical * _spread(b, c, n, difference)

    if side * start >= 1 or excess(float(side)) <= 0:
        return float(side)
    return float(brentq(excess, start, float(side), xtol=NUDGE))


def _spread(b: int, c: int, n: int, difference: float) -> float:
    """Return the standard deviation of b - c where the difference is given and the rest is likeliest (Tango, eq. 5)."""
    first = (2 * n - b + c) * difference - b - c
    second = -c * difference * (1 - difference)
    rate = (math.sqrt(max(first**2 - 8 * n * second, 0.0)) - first) / (4 * n)
    return math.sqrt(max(n * (2 * rate + difference * (1 - difference)), 0.0))
