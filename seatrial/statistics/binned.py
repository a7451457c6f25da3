"""Calibration errors with equal-mass bins, without bins, and class by class.

Beside those of :mod:`seatrial.statistics.calibration`. All three are norms of mean errors: of bins that hold as many
examples each, of the running sum over rising confidence (Kolmogorov and Smirnov), and of the bins of every class. Their
plug-in values overstate the truth, since by chance alone a share is off its confidence, and their intervals are those
of a norm (:func:`~seatrial.statistics.calibration.norm_interval`): the upper end is that of the mean with the sample's
signs, the lower end allows for having chosen them. None depends on the order of the examples: equal confidences share a
bin, and running sums are looked at where the confidence changes.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.calibration import bin_of, norm_interval
from seatrial.statistics.intervals import Interval, resample, signs

Found = tuple[float, Interval | None]
"""A value and its interval; None for fewer than two examples."""

MOST_PRODUCTS = 2_000_000_000
"""Resamples times examples times classes: ten seconds of a core."""

NULL_TERMS = 50
"""Terms of the null law's series, the last of which is below 1e-16 wherever the sum is not 0."""


def equal_mass_bin(confidence: ArrayLike, bins: int) -> Ints:
    """Return the bin (n,) of each confidence, 0 to ``bins`` - 1, where bins hold as many examples each but for ties.

    An example whose confidence exceeds that of r others is in bin floor(r bins / n).

    >>> equal_mass_bin([0.9, 0.5, 0.8, 0.8], 2).tolist()
    [1, 0, 0, 0]
    """
    values = np.asarray(confidence, dtype=np.float64)
    below = np.searchsorted(np.sort(values), values, side="left")
    return (below * bins // max(1, len(values))).astype(np.int64)


def equal_mass_ece(confidence: ArrayLike, correct: ArrayLike, bins: int, *, seed: int | Sequence[int]) -> Found:
    """Return the expected calibration error with equal-mass bins (Nixon et al. 2019, adaptive calibration error).

    Args:
        confidence: (n,) in [0, 1], at least one.
        correct: (n,) whether each is right.
        bins: Of as many examples each.
        seed: The same seed gives the same interval.
    """
    values, gap = _errors(confidence, correct)
    return _norm(values, gap, equal_mass_bin(values, bins), seed)


def _norm(values: Floats, gap: Floats, index: Ints, seed: int | Sequence[int]) -> Found:
    n = len(values)
    order = np.argsort(index, kind="stable")
    values, gap, index = values[order], gap[order], index[order]
    starts = np.flatnonzero(np.diff(index, prepend=-1))

    def norm(errors: Floats) -> Floats:
        summed: Floats = np.abs(np.add.reduceat(errors, starts, axis=1)).sum(axis=1) / n
        return summed

    value = float(norm(gap[None])[0])
    if n < 2:
        return value, None
    direction = np.where(np.bincount(index, gap) < 0, -1.0, 1.0)[index]
    return value, norm_interval(direction * gap, np.ones(n), *_noise(norm, values, gap, seed))


def _noise(
    norm: Callable[[Floats], Floats], values: Floats, gap: Floats, seed: int | Sequence[int]
) -> tuple[Floats, Floats]:
    """Return the norm (resamples,) of errors whose directions are drawn, and of outcomes drawn as confidences say."""

    def outcomes(rng: np.random.Generator, rows: int, size: int) -> Floats:
        return (rng.random((rows, size)) < values).astype(np.float64)

    flipped = resample(lambda drawn: norm(drawn * gap)[:, None], [len(gap)], seed=seed, draw=signs)
    by_chance = resample(lambda drawn: norm(drawn - values)[:, None], [len(gap)], seed=seed, draw=outcomes)
    return flipped[:, 0], by_chance[:, 0]


def ks_error(confidence: ArrayLike, correct: ArrayLike, *, seed: int | Sequence[int]) -> Found:
    """Return the Kolmogorov-Smirnov calibration error (Gupta et al. 2021, eq. 6), which needs no bins.

    The largest absolute value, over thresholds c, of the mean of (correct - confidence) of the examples up to c.

    Args:
        confidence: (n,) in [0, 1], at least one.
        correct: (n,) whether each is right.
        seed: The same seed gives the same interval.
    """
    values, gap = _errors(confidence, correct)
    n = len(values)
    order = np.argsort(values, kind="stable")
    values, gap = values[order], gap[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))

    def norm(errors: Floats) -> Floats:
        largest: Floats = np.abs(np.cumsum(errors, axis=1)[:, ends]).max(axis=1) / n
        return largest

    running = np.cumsum(gap)[ends]
    at = int(np.abs(running).argmax())
    value = float(abs(running[at])) / n
    if n < 2:
        return value, None
    counted = (np.arange(n) <= ends[at]) * (-1.0 if running[at] < 0 else 1.0)
    return value, norm_interval(counted * gap, np.ones(n), *_noise(norm, values, gap, seed))


def ks_p(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Return the probability of a larger Kolmogorov-Smirnov error were the confidences true, for many examples.

    Then the running sum over rising confidence, with variances c (1 - c), tends to a Brownian motion W on [0, 1], and
    P(sup |W| <= x) = 4/pi sum (-1)^k / (2k + 1) exp(-((2k + 1) pi / x)^2 / 8) (Feller 1971, X.5). None where no
    confidence leaves anything to chance.

    >>> ks_p([1.0, 1.0], [True, True]) is None
    True
    """
    values, gap = _errors(confidence, correct)
    spread = float((values * (1 - values)).sum())
    if spread <= 0:
        return None
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    return sup_brownian_p(float(np.abs(np.cumsum(gap[order])[ends]).max()) / math.sqrt(spread))


def sup_brownian_p(distance: float) -> float:
    """Return the probability that a Brownian motion on [0, 1] leaves a band of this half-width.

    >>> round(sup_brownian_p(2.2414), 4)
    0.05
    """
    if distance <= 0:
        return 1.0
    odd = 2 * np.arange(NULL_TERMS) + 1
    terms = (-1.0) ** np.arange(NULL_TERMS) / odd * np.exp(-((odd * math.pi / distance) ** 2) / 8)
    return float(min(1.0, max(0.0, 1 - 4 / math.pi * terms.sum())))


def classwise_ece(probabilities: ArrayLike, labels: ArrayLike, bins: int, *, seed: int | Sequence[int]) -> Found:
    """Return the class-wise ECE, the mean over classes of the ECE of the class's own probability (Kull et al. 2019).

    Args:
        probabilities: (n, classes), at least one row.
        labels: (n,) class numbers.
        bins: Of equal width.
        seed: The same seed gives the same interval.
    """
    given, truths = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    n, classes = given.shape
    index = np.stack([bin_of(given[:, k], bins) for k in range(classes)], axis=1)
    gap = (truths[:, None] == np.arange(classes)) - given
    cells = index + bins * np.arange(classes)
    sums = np.bincount(cells.ravel(), gap.ravel(), bins * classes)
    value = float(np.abs(sums).sum()) / n / classes
    if n < 2:
        return value, None
    # An example's errors add up to 2 at most, so that half of their sum is an error in [-1, 1].
    errors: Floats = (np.where(sums < 0, -1.0, 1.0)[cells] * gap).sum(axis=1) / 2
    rows = int(np.clip(MOST_PRODUCTS / (n * classes), 100, 1000))
    noise = _flipped(gap, index, rows, seed), _drawn(given, index, bins, rows, seed)
    low, high = norm_interval(errors, np.ones(n), *(column / 2 / n for column in noise))
    return value, (min(value, low * 2 / classes), max(value, min(high * 2, 2.0) / classes))


def _flipped(gap: Floats, index: Ints, rows: int, seed: int | Sequence[int]) -> Floats:
    """Return the sum over classes and bins of absolute errors whose directions are drawn, an example's all at once."""

    def norm(weights: Floats) -> Floats:
        total = np.zeros(len(weights))
        for k in range(gap.shape[1]):
            filled, inside = np.unique(index[:, k], return_inverse=True)
            columns = np.zeros((len(gap), len(filled)))
            columns[np.arange(len(gap)), inside] = gap[:, k]
            total += np.abs(weights @ columns).sum(axis=1)
        return total[:, None]

    return resample(norm, [len(gap)], seed=seed, resamples=rows, draw=signs)[:, 0]


def _drawn(given: Floats, index: Ints, bins: int, rows: int, seed: int | Sequence[int]) -> Floats:
    """Return the same of labels that are drawn as the probabilities say."""
    n, classes = given.shape
    rng = np.random.default_rng(seed)
    edges: Floats = np.cumsum(given, axis=1)
    cells = index + bins * np.arange(classes)
    expected = np.bincount(cells.ravel(), given.ravel(), bins * classes)
    found = np.empty(rows)
    for row in range(rows):
        # Probabilities that were rounded need not add up to 1.
        below = np.less(edges, rng.random((n, 1)) * edges[:, -1:])
        labels = np.minimum(below.sum(axis=1), classes - 1)
        counts = np.bincount(cells[np.arange(n), labels], minlength=bins * classes)
        found[row] = np.abs(counts - expected).sum()
    return found


def _errors(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != hits.shape or not len(values):
        raise ValueError(f"confidence and correct must be two vectors of one length: {values.shape}, {hits.shape}")
    return values, hits - values
