"""Calibration of top-label confidences.

Conventions: ``confidence`` (n,) is the largest softmax probability, ``correct`` (n,) whether the predicted class is the
label. Bins are of equal width and every bin is closed below, the last one above too: confidences of exactly 0 and
exactly 1 are counted (implementations with open bins lose a saturated softmax altogether). Every function returns None
on an empty sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workers.stats.intervals import Interval, bootstrap

Floats = NDArray[np.float64]

METRICS = ("ece", "ece_centre", "s_ece", "mce", "brier")


def bin_of(confidence: ArrayLike, bins: int) -> NDArray[np.int64]:
    """Return the bin (n,) of each confidence, 0 to ``bins`` - 1.

    Raises:
        ValueError: A confidence is outside [0, 1] or not a number, or there is no bin.

    >>> bin_of([0.0, 0.1, 0.5, 1.0], 2).tolist()
    [0, 0, 1, 1]
    """
    values = np.asarray(confidence, dtype=np.float64)
    if bins < 1 or not bool(np.all((values >= 0) & (values <= 1))):
        raise ValueError(f"confidences must be in [0, 1] and bins at least 1: {bins=}")
    edges = np.linspace(0, 1, bins + 1)
    return np.minimum(np.searchsorted(edges, values, side="right") - 1, bins - 1).astype(np.int64)


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: one entry per bin, NaN where a bin is empty.

    Attributes:
        edges: (bins + 1,) edges.
        count: (bins,) examples.
        accuracy: (bins,) share of correct predictions.
        confidence: (bins,) mean confidence.
    """

    edges: Floats
    count: NDArray[np.int64]
    accuracy: Floats
    confidence: Floats


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> Reliability:
    """Return the reliability diagram of a sample.

    >>> diagram = reliability([0.9, 1.0, 0.2], [True, False, False], bins=2)
    >>> diagram.count.tolist(), diagram.accuracy.tolist()
    ([1, 2], [0.0, 0.5])
    """
    values, hits = _sample(confidence, correct)
    index = bin_of(values, bins)
    count = np.bincount(index, minlength=bins)
    divisor = np.where(count > 0, count, np.nan)
    return Reliability(
        edges=np.linspace(0, 1, bins + 1),
        count=count.astype(np.int64),
        accuracy=np.bincount(index, weights=hits, minlength=bins) / divisor,
        confidence=np.bincount(index, weights=values, minlength=bins) / divisor,
    )


def ece(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the expected calibration error, sum_s |B_s|/n |accuracy_s - mean confidence_s|.

    >>> round(ece([0.8, 0.8, 0.6, 0.6], [True, True, True, False], bins=5), 3)
    0.15
    """
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return None
    gaps = np.bincount(bin_of(values, bins), weights=hits - values, minlength=bins)
    return float(np.abs(gaps).sum() / len(values))


def ece_centre(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the ECE against bin centres, sum_s |B_s|/n |accuracy_s - (2s + 1)/(2 bins)| (Ledda et al., eq. 4).

    >>> round(ece_centre([1.0], [True], bins=2), 3)
    0.25
    """
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return None
    index = bin_of(values, bins)
    gaps = np.bincount(index, weights=hits - (2 * index + 1) / (2 * bins), minlength=bins)
    return float(np.abs(gaps).sum() / len(values))


def signed_ece(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Return the signed ECE, sum_s |B_s|/n (accuracy_s - mean confidence_s): positive is under-confident.

    The bins cancel: it is accuracy minus mean confidence. The sign is that of the published tables (Ledda et al.,
    Tables II and III), whose eq. 19 prints the opposite one.

    >>> round(signed_ece([0.9, 0.7], [True, False]), 3)
    -0.3
    """
    values, hits = _sample(confidence, correct)
    return float(np.mean(hits - values)) if len(values) else None


def mce(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the maximum calibration error, the largest |accuracy_s - mean confidence_s| of a bin that is not empty.

    >>> round(mce([0.9, 0.3], [True, True], bins=2), 3)
    0.7
    """
    diagram = reliability(confidence, correct, bins)
    filled = diagram.count > 0
    return float(np.abs(diagram.accuracy - diagram.confidence)[filled].max()) if filled.any() else None


def brier(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Return the top-label Brier score, mean (confidence - correct)^2.

    >>> brier([1.0, 0.5], [True, False])
    0.125
    """
    values, hits = _sample(confidence, correct)
    return float(np.mean((values - hits) ** 2)) if len(values) else None


@dataclass(frozen=True)
class Calibration:
    """All five metrics with bootstrap intervals, by the names of ``METRICS``."""

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]


def calibrate(confidence: ArrayLike, correct: ArrayLike, bins: int = 15, *, seed: int | Sequence[int]) -> Calibration:
    """Return all five metrics of a sample with 95 % bootstrap intervals, all from the same resamples."""
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return Calibration(dict.fromkeys(METRICS), dict.fromkeys(METRICS))
    statistic = _weighted(values, hits, bins)
    point = statistic(np.ones((1, len(values))))[0]
    intervals = bootstrap(statistic, [len(values)], seed=seed)
    return Calibration(
        {name: float(value) for name, value in zip(METRICS, point, strict=True)},
        dict(zip(METRICS, intervals, strict=True)),
    )


def _weighted(values: Floats, hits: Floats, bins: int) -> Callable[[Floats], Floats]:
    """Return the five metrics as a function of weights (resamples, n), columns as in ``METRICS``."""
    index = bin_of(values, bins)
    order = np.argsort(index, kind="stable")
    index, values, hits = index[order], values[order], hits[order]
    starts = np.flatnonzero(np.append(True, index[1:] != index[:-1]))
    gap, centre_gap, square = hits - values, hits - (2 * index + 1) / (2 * bins), (hits - values) ** 2

    def statistic(weights: Floats) -> Floats:
        weights = weights[:, order]
        n = len(values)
        gaps = np.add.reduceat(weights * gap, starts, axis=1)
        centre_gaps = np.add.reduceat(weights * centre_gap, starts, axis=1)
        counts = np.add.reduceat(weights, starts, axis=1)
        in_bins = np.abs(gaps) / np.where(counts > 0, counts, 1)
        columns = [np.abs(gaps).sum(1) / n, np.abs(centre_gaps).sum(1) / n, gaps.sum(1) / n, in_bins.max(1)]
        return np.stack([*columns, weights @ square / n], axis=1)

    return statistic


def _sample(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != hits.shape:
        raise ValueError(f"confidence and correct must be two vectors of one length: {values.shape}, {hits.shape}")
    return values, hits
