"""Exact bounds and tests for proportions, from the binomial distribution.

The one module here that takes SciPy, which a worker has and the API has not: its incomplete beta function makes bounds
and p values that are stored to the last bit, and which no other gives again to that bit.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betaincinv, gammaln

from seatrial.statistics.arrays import Floats
from seatrial.statistics.intervals import Interval
from seatrial.statistics.ranks import ranks


def clopper_pearson(successes: int, trials: int, *, alpha: float = 0.05) -> Interval:
    """Return the exact two-sided (1 - alpha) interval of a success rate (Clopper and Pearson 1934).

    Guarantee: it covers the true rate with probability at least 1 - alpha, at any sample size.

    Raises:
        ValueError: The numbers do not describe a sample.

    >>> [round(end, 4) for end in clopper_pearson(9, 10)]
    [0.555, 0.9975]
    """
    low = float(clopper_pearson_lower(successes, trials, alpha=alpha / 2))
    # Not 1 less the lower bound of the failures, as below: that differs in the last digit, and this is what is stored.
    high = float(betaincinv(successes + 1, trials - successes, 1 - alpha / 2)) if successes < trials else 1.0
    return low, high


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, *, alpha: float) -> Floats:
    """Return the exact one-sided (1 - alpha) lower bound of a success rate, 0 at no success (Clopper and Pearson 1934).

    Guarantee: above the true rate with probability at most alpha, at any number of trials fixed beforehand.

    Args:
        successes: Draws in which the event happened, at most ``trials``.
        trials: Draws in all, at least 1.
        alpha: Probability that a bound is wrong, in (0, 1).

    Raises:
        ValueError: The numbers do not describe a sample.

    >>> clopper_pearson_lower([0, 99, 100], 100, alpha=0.001).round(4).tolist()
    [0.0, 0.9114, 0.9333]
    """
    hits, draws = _sample(successes, trials, alpha)
    # At zero successes the beta quantile is undefined.
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), draws - hits + 1, alpha), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, *, alpha: float) -> Floats:
    """Return the exact one-sided (1 - alpha) upper bound of a success rate, 1 at no failure (Clopper and Pearson 1934).

    Guarantee: below the true rate with probability at most alpha. Arguments and errors are those of
    :func:`clopper_pearson_lower`.

    >>> clopper_pearson_upper([0, 1, 100], 100, alpha=0.001).round(4).tolist()
    [0.0667, 0.0886, 1.0]
    """
    hits, draws = _sample(successes, trials, alpha)
    # Counted from the failures' side, an alpha below the rounding of 1 - alpha is not lost.
    return 1.0 - clopper_pearson_lower(draws - hits, draws, alpha=alpha)


def mcnemar(b: int, c: int) -> float:
    """Return McNemar's exact two-sided p: of a split of the discordant pairs at least as uneven, were both equal.

    Without a discordant pair it is 1.

    Raises:
        ValueError: A count is negative.

    >>> mcnemar(6, 0)
    0.03125
    """
    if min(b, c) < 0:
        raise ValueError(f"not counts: {b=}, {c=}")
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


def fisher(hits: int, size: int, total: int, n: int) -> float:
    """Return Fisher's exact two-sided p that a group has its share of successes by chance.

    The probability, among all ways to choose the group, of numbers of successes no likelier than the one seen.

    Args:
        hits: Successes in the group.
        size: Of the group.
        total: Successes in all.
        n: Examples in all.

    Raises:
        ValueError: The counts do not describe a group.

    >>> round(fisher(1, 9, 11, 20), 4)
    0.0009
    """
    if not (0 <= hits <= size <= n and hits <= total <= n and total - hits <= n - size):
        raise ValueError(f"not a group: {hits=}, {size=}, {total=}, {n=}")
    possible = np.arange(max(0, total + size - n), min(size, total) + 1)

    def ways(out_of: int, chosen: NDArray[np.int64]) -> Floats:
        return np.asarray(gammaln(out_of + 1) - gammaln(chosen + 1) - gammaln(out_of - chosen + 1), dtype=np.float64)

    logs = ways(size, possible) + ways(n - size, total - possible)
    chances = np.exp(logs - logs.max())
    # Equal probabilities differ by rounding.
    seen = chances[hits - possible[0]] * (1 + 1e-7)
    return float(min(1.0, chances[chances <= seen].sum() / chances.sum()))


def signed_rank_p(differences: ArrayLike) -> float:
    """Return the one-sided p of paired differences as much above 0 (Wilcoxon 1945), 1 where all are 0.

    Over all signs of those that are not 0, which are as likely where either of a pair may as well have come first. Ties
    have the mean of their ranks.

    >>> signed_rank_p([2, 2, 1, 0])
    0.125
    """
    moved = np.asarray(differences)
    moved = moved[moved != 0]
    # Whole numbers, ties too.
    doubled = (2 * ranks(np.abs(moved)[np.newaxis])[0]).astype(int)
    ways = np.ones(1)
    for rank in doubled:
        ways = (np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))) / 2
    return float(ways[doubled[moved > 0].sum() :].sum())


def first_p(values: ArrayLike) -> float:
    """Return the one-sided p of the first value of each row being as large among the row's, where any may be the first.

    Over all choices of the first of each row; counted is by how many more of the row it is above than below.

    Args:
        values: (n, m).

    >>> round(first_p([[2, 1, 0], [2, 1, 1]]), 4)
    0.1111
    """
    found = np.asarray(values, dtype=np.float64)
    places = np.sign(found[:, :, np.newaxis] - found[:, np.newaxis, :]).sum(axis=2).astype(int)
    most, ways = found.shape[1] - 1, np.ones(1)
    for row in places:
        ways = np.convolve(ways, np.bincount(row + most, minlength=2 * most + 1) / (most + 1))
    return float(ways[places[:, 0].sum() + most * len(found) :].sum())


def _sample(successes: ArrayLike, trials: ArrayLike, alpha: float) -> tuple[Floats, Floats]:
    hits, draws = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    is_sample = (hits >= 0) & (hits <= draws) & (draws >= 1) & np.isfinite(draws)
    is_sample &= (hits == np.floor(hits)) & (draws == np.floor(draws))
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be in (0, 1), got {alpha}")
    if not bool(np.all(is_sample)):
        raise ValueError(
            f"not a valid sample: {hits[~is_sample].flat[0]:g} successes in {draws[~is_sample].flat[0]:g} trials"
        )
    return hits, draws
