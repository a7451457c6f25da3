"""Confidence intervals: exact and score intervals for proportions, a seeded bootstrap for everything else."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

Floats = NDArray[np.float64]
Interval = tuple[float, float]

CELLS = 4_000_000
"""Entries of one resampling matrix: 32 MB in float64, whatever the sample size."""


def clopper_pearson(successes: int, trials: int, *, alpha: float = 0.05) -> Interval:
    """Return the exact two-sided (1 - alpha) interval of a success rate (Clopper and Pearson 1934).

    Guarantee: it covers the true rate with probability at least 1 - alpha, at any sample size.

    Raises:
        ValueError: The numbers do not describe a sample.

    >>> [round(end, 4) for end in clopper_pearson(9, 10)]
    [0.555, 0.9975]
    """
    _check_sample(successes, trials, alpha)
    low = float(betaincinv(successes, trials - successes + 1, alpha / 2)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - alpha / 2)) if successes < trials else 1.0
    return low, high


def wilson(successes: int, trials: int, *, alpha: float = 0.05) -> Interval:
    """Return the two-sided (1 - alpha) score interval of a success rate (Wilson 1927).

    Its coverage is 1 - alpha on average over rates, not at each; shorter than Clopper and Pearson's.

    Raises:
        ValueError: The numbers do not describe a sample.

    >>> [round(end, 4) for end in wilson(9, 10)]
    [0.5958, 0.9821]
    """
    _check_sample(successes, trials, alpha)
    z2 = float(ndtri(1 - alpha / 2)) ** 2
    rate = successes / trials
    centre = (rate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 * (rate * (1 - rate) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def bootstrap(
    statistic: Callable[..., Floats],
    sizes: Sequence[int],
    *,
    seed: int | Sequence[int],
    alpha: float = 0.05,
    resamples: int | None = None,
) -> list[Interval | None]:
    """Return bias-corrected percentile intervals of several statistics on the same resamples (Efron 1981).

    Approximate coverage 1 - alpha, from about 30 examples on. The bias correction matters for ECE, which resampling
    always raises: a plain percentile interval may lie wholly above the estimate.

    Args:
        statistic: Takes one matrix of weights (resamples, n) per sample, how often each example was drawn, and returns
            (resamples, k): k statistics of each resample, NaN where undefined.
        sizes: Examples of each independent sample.
        seed: The same seed gives the same intervals.
        alpha: Probability of missing the truth.
        resamples: Default: 1000, fewer for samples above 20,000 (at least 200).

    Returns:
        k intervals; None where a sample has fewer than 2 examples or fewer than half the resamples are defined.
    """
    point = statistic(*[np.ones((1, size)) for size in sizes])[0]
    if min(sizes) < 2:
        return [None] * len(point)
    draws = resamples or int(np.clip(20_000_000 / sum(sizes), 200, 1000))
    rng = np.random.default_rng(seed)
    rows = max(1, CELLS // sum(sizes))
    drawn = [
        statistic(*[_weights(rng, min(rows, draws - done), size) for size in sizes]) for done in range(0, draws, rows)
    ]
    return [_bias_corrected(column, value, alpha) for column, value in zip(np.concatenate(drawn).T, point, strict=True)]


def bootstrap_means(columns: ArrayLike, *, seed: int | Sequence[int], alpha: float = 0.05) -> list[Interval | None]:
    """Return a bootstrap interval of the mean of each column of (n, k); whole rows are drawn, so columns stay paired.

    >>> [[round(end, 2) for end in interval] for interval in bootstrap_means([[0.0], [1.0]] * 50, seed=0)]
    [[0.41, 0.61]]
    """
    values = np.asarray(columns, dtype=np.float64)
    return bootstrap(lambda weights: weights @ values / len(values), [len(values)], seed=seed, alpha=alpha)


def paired_difference(a: ArrayLike, b: ArrayLike, *, seed: int | Sequence[int], alpha: float = 0.05) -> Interval | None:
    """Return a bootstrap interval of mean(a - b) of two measurements of the same examples.

    Raises:
        ValueError: The two are not vectors of one length.

    >>> paired_difference([3.0, 2.0, 5.0], [1.0, 0.0, 3.0], seed=0)
    (2.0, 2.0)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"paired measurements must be two vectors of one length: {first.shape}, {second.shape}")
    return bootstrap_means((first - second)[:, None], seed=seed, alpha=alpha)[0]


def _weights(rng: np.random.Generator, rows: int, size: int) -> Floats:
    """Draw ``size`` of ``size`` examples with replacement, ``rows`` times; return how often each came (rows, size)."""
    cells = rng.integers(0, size, (rows, size)) + size * np.arange(rows)[:, None]
    return np.bincount(cells.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)


def _bias_corrected(drawn: Floats, value: float, alpha: float) -> Interval | None:
    defined = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or len(defined) * 2 < len(drawn):
        return None
    # Ties count half: a statistic that many resamples repeat exactly has no bias to correct.
    share = (np.sum(defined < value) + np.sum(defined == value) / 2) / len(defined)
    shift = 2 * ndtri(np.clip(share, 1 / len(defined), 1 - 1 / len(defined)))
    low, high = np.quantile(defined, ndtr(shift + ndtri([alpha / 2, 1 - alpha / 2])))
    return min(float(low), float(value)), max(float(high), float(value))


def _check_sample(successes: int, trials: int, alpha: float) -> None:
    if not (0 <= successes <= trials and trials >= 1 and 0 < alpha < 1):
        raise ValueError(f"not a valid sample: {successes=}, {trials=}, {alpha=}")
