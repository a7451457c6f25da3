"""Confidence intervals by a seeded bootstrap, for what has no exact one."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from seatrial.statistics.normal import normal_cdf, normal_quantile

Interval = tuple[float, float]

Statistic = Callable[..., Floats]
"""One matrix of weights (resamples, n) per sample to k statistics of each (resamples, k), NaN where undefined."""

Draw = Callable[[np.random.Generator, int, int], Floats]
"""(generator, resamples, n) to weights (resamples, n)."""

CELLS = 4_000_000
"""Entries of one resampling matrix: 32 MB in float64, whatever the sample size."""

DRAWN = 100_000
"""Examples drawn with replacement at a time."""

TIED = 1e-9
"""Statistics this near, relative to the largest, are the same but for rounding."""


def counts(rng: np.random.Generator, rows: int, size: int) -> Floats:
    """Draw ``size`` of ``size`` examples with replacement, ``rows`` times; return how often each came (rows, size)."""
    found = np.empty((rows, size))
    # Some rows at a time, so that what is drawn is counted while it is in the processor's cache.
    step = max(1, DRAWN // max(1, size))
    for start in range(0, rows, step):
        part = found[start : start + step]
        cells = rng.integers(0, size, part.shape)
        cells += size * np.arange(len(part))[:, None]
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)
    return found


def exponentials(rng: np.random.Generator, rows: int, size: int) -> Floats:
    """Draw standard exponential weights (rows, size): over their sum they are uniform on the simplex (Rubin 1981)."""
    return rng.standard_exponential((rows, size))


def signs(rng: np.random.Generator, rows: int, size: int) -> Floats:
    """Draw -1 or 1 for each example with equal odds (rows, size): its error's size is kept, its direction is not."""
    drawn = rng.integers(0, 2, (rows, size), dtype=np.int8).astype(np.float64)
    drawn *= 2
    drawn -= 1
    return drawn


def bootstrap(
    statistic: Statistic,
    sizes: Sequence[int],
    *,
    seed: int | Sequence[int],
    alpha: float = 0.05,
    resamples: int | None = None,
) -> list[Interval | None]:
    """Return bias-corrected percentile intervals of several statistics on the same resamples (Efron 1981).

    Approximate coverage 1 - alpha, from about 30 examples on, for statistics that are smooth in the weights: means,
    deviations, ranking metrics. Not for a norm of means such as ECE, which resampling raises by as much as sampling
    did (:func:`~seatrial.statistics.calibration.norm_interval`), and too narrow where few examples are unlike the rest:
    of values in a known range :func:`~seatrial.statistics.bounded.mean_interval` holds, and :func:`exponentials` is the
    draw that leaves room for an example not seen.

    Args:
        statistic: What is resampled.
        sizes: Examples of each independent sample.
        seed: The same seed gives the same intervals.
        alpha: Probability of missing the truth.
        resamples: As for :func:`resample`.

    Returns:
        k intervals; None where a sample has fewer than 2 examples or fewer than half the resamples are defined.
    """
    point = statistic(*[np.ones((1, size)) for size in sizes])[0]
    if min(sizes) < 2:
        return [None] * len(point)
    drawn = resample(statistic, sizes, seed=seed, resamples=resamples)
    return [bias_corrected(value, column, alpha=alpha) for column, value in zip(drawn.T, point, strict=True)]


def resample(
    statistic: Statistic,
    sizes: Sequence[int],
    *,
    seed: int | Sequence[int],
    resamples: int | None = None,
    draw: Draw = counts,
    cells: int | None = None,
) -> Floats:
    """Return k statistics of each resample (resamples, k).

    Args:
        statistic: What is resampled.
        sizes: Examples of each independent sample.
        seed: The same seed draws the same.
        resamples: Default: 1000, fewer for samples above 20,000 (at least 200).
        draw: What is drawn; :func:`counts` is the bootstrap.
        cells: Entries of the matrix of weights that is held at a time; default: ``CELLS``. Resamples are the same.
    """
    draws = resamples or int(np.clip(20_000_000 / sum(sizes), 200, 1000))
    rng = np.random.default_rng(seed)
    rows = max(1, (cells or CELLS) // sum(sizes))
    found = [statistic(*[draw(rng, min(rows, draws - done), size) for size in sizes]) for done in range(0, draws, rows)]
    return np.concatenate(found)


def bias_corrected(value: float, drawn: Floats, *, alpha: float = 0.05) -> Interval | None:
    """Return the bias-corrected percentile interval of one statistic; what :func:`bootstrap` says of it holds.

    Args:
        value: The statistic of the sample.
        drawn: (resamples,) it on resamples, NaN where undefined.
        alpha: Probability of missing the truth.
    """
    defined = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or len(defined) * 2 < len(drawn):
        return None
    # Ties count half: a statistic that many resamples repeat exactly has no bias to correct. Which of them repeat it to
    # the last digit depends on the order of summation, and so on the processor.
    tied = np.abs(defined - value) <= TIED * np.abs(defined).max()
    share = (np.sum(defined[~tied] < value) + np.sum(tied) / 2) / len(defined)
    shift = 2 * normal_quantile(float(np.clip(share, 1 / len(defined), 1 - 1 / len(defined))))
    tails = [normal_cdf(shift + normal_quantile(tail)) for tail in (alpha / 2, 1 - alpha / 2)]
    low, high = np.quantile(defined, tails)
    return min(float(low), float(value)), max(float(high), float(value))


def unseen_interval(value: float, low: Floats, high: Floats, *, alpha: float = 0.05) -> Interval:
    """Return the interval of a statistic that falls with one unseen example and rises with another.

    For statistics of distributions what :func:`~seatrial.statistics.bounded.mean_interval` is for means: exact for
    proportions and quantiles, for others the same conjecture as long as no unseen example is worse.

    Args:
        value: The statistic of the sample.
        low: (resamples,) it with weights of :func:`exponentials`, the unseen example that lowers it most among them.
        high: (resamples,) likewise, with the one that raises it most.
        alpha: Probability of missing the truth, half of it at either end.
    """
    ends = float(np.quantile(low, alpha / 2)), float(np.quantile(high, 1 - alpha / 2))
    return min(ends[0], value), max(ends[1], value)


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
