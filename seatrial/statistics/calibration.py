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

from seatrial.statistics.arrays import Floats
from seatrial.statistics.intervals import Interval, bias_corrected, norm_interval, resample, signs

METRICS = ("ece", "ece_centre", "s_ece", "mce", "brier")

NORMS = ("ece", "ece_centre", "mce")
"""Those that add up, or take the largest of, absolute errors by bin."""


def bin_edges(bins: int) -> Floats:
    """Return the edges k / bins (bins + 1,), each the double nearest to it.

    ``numpy.linspace`` multiplies k by a rounded 1 / bins instead, which for 32 of the numbers of bins up to 100 puts an
    edge one unit in the last place above a confidence of that very value: 0.6 then falls below its bin of 5, 10 or 20.

    >>> bool((bin_edges(5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]).all())
    True
    """
    edges: Floats = np.arange(bins + 1) / bins
    return edges


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
    return np.minimum(np.searchsorted(bin_edges(bins), values, side="right") - 1, bins - 1).astype(np.int64)


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
        edges=bin_edges(bins),
        count=count.astype(np.int64),
        accuracy=np.bincount(index, weights=hits, minlength=bins) / divisor,
        confidence=np.bincount(index, weights=values, minlength=bins) / divisor,
    )


def ece(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the expected calibration error, sum_s |B_s|/n |accuracy_s - mean confidence_s|.

    >>> round(ece([0.8, 0.8, 0.6, 0.6], [True, True, True, False], bins=5), 3)
    0.15
    """
    return _single(confidence, correct, bins, "ece")


def ece_centre(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the ECE against bin centres, sum_s |B_s|/n |accuracy_s - (2s + 1)/(2 bins)| (Ledda et al., eq. 4).

    >>> round(ece_centre([1.0], [True], bins=2), 3)
    0.25
    """
    return _single(confidence, correct, bins, "ece_centre")


def signed_ece(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Return the signed ECE, sum_s |B_s|/n (accuracy_s - mean confidence_s): positive is under-confident.

    The bins cancel: it is accuracy minus mean confidence. The sign is that of the published tables (Ledda et al.,
    Tables II and III), whose eq. 19 prints the opposite one.

    >>> round(signed_ece([0.9, 0.7], [True, False]), 3)
    -0.3
    """
    return _single(confidence, correct, 1, "s_ece")


def mce(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float | None:
    """Return the maximum calibration error, the largest |accuracy_s - mean confidence_s| of a bin that is not empty.

    >>> round(mce([0.9, 0.3], [True, True], bins=2), 3)
    0.7
    """
    return _single(confidence, correct, bins, "mce")


def brier(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """Return the top-label Brier score, mean (confidence - correct)^2.

    >>> brier([1.0, 0.5], [True, False])
    0.125
    """
    return _single(confidence, correct, 1, "brier")


@dataclass(frozen=True)
class Calibration:
    """All five metrics with 95 % intervals, by the names of ``METRICS``."""

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]


def calibrate(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    *,
    seed: int | Sequence[int],
    resamples: int | None = None,
) -> Calibration:
    """Return all five metrics of a sample with 95 % intervals, all from the same resamples; under 2 examples, none.

    The values are the plug-in ones, which overstate ECE, its bin-centre form and MCE: by chance alone a bin's accuracy
    is off its confidence. Their intervals allow for that, at their lower end: that of a calibrated model reaches down
    to 0. How far chance goes is simulated twice, because each way fails where the other holds: with outcomes drawn at
    the stated confidences (right for a calibrated model, nothing for a saturated one) and with the errors' directions
    drawn (right wherever a bin holds both right and wrong answers). The interval of MCE is about the bins that hold
    examples.
    """
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return Calibration(dict.fromkeys(METRICS), dict.fromkeys(METRICS))
    order = np.argsort(bin_of(values, bins), kind="stable")
    values, hits = values[order], hits[order]
    statistic, n = _weighted(values, hits, bins), len(values)
    once = np.ones((1, n))
    point = dict(zip(METRICS, map(float, statistic(once)[0]), strict=True))
    intervals: dict[str, Interval | None] = dict.fromkeys(METRICS)
    if n > 1:

        def outcomes(rng: np.random.Generator, rows: int, size: int) -> Floats:
            return (rng.random((rows, size), dtype=np.float32) < values).astype(np.float64)

        drawn = resample(statistic, [n], seed=seed, resamples=resamples)
        flipped = resample(statistic, [n], seed=seed, resamples=resamples, draw=signs)
        by_chance = resample(lambda hits: statistic(once, hits), [n], seed=seed, resamples=resamples, draw=outcomes)
        for column, (name, value) in enumerate(point.items()):
            if name in NORMS:
                # Against bin centres the outcomes' noise is the same; the centres' own offset is no noise.
                chance = by_chance[:, METRICS.index("ece" if name == "ece_centre" else name)]
                low, high = norm_interval(value, drawn[:, column], flipped[:, column], chance)
                intervals[name] = low, min(1.0, high)
            else:
                intervals[name] = bias_corrected(value, drawn[:, column])
    return Calibration(dict(point), intervals)


def _single(confidence: ArrayLike, correct: ArrayLike, bins: int, name: str) -> float | None:
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return None
    return float(_weighted(values, hits, bins)(np.ones((1, len(values))))[0, METRICS.index(name)])


def _weighted(values: Floats, hits: Floats, bins: int) -> Callable[..., Floats]:
    """Return the five metrics as a function of weights (resamples, n), columns as in ``METRICS``.

    A negative weight turns an example's error round and still counts it. Other outcomes (resamples, n) than ``hits``
    may be given beside the weights.
    """
    index = bin_of(values, bins)
    order = np.argsort(index, kind="stable")
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    centre = (2 * index + 1) / (2 * bins)
    n = len(values)
    is_sorted = bool(np.all(order == np.arange(n)))

    def by_bin(terms: Floats) -> Floats:
        # Gathering costs more than all the rest: examples that come in the order of their bins go without.
        return np.add.reduceat(terms if is_sorted else terms[:, order], starts, axis=1)

    def statistic(weights: Floats, outcomes: Floats = hits[None]) -> Floats:
        gap = outcomes - values
        gaps, centre_gaps = by_bin(weights * gap), by_bin(weights * (outcomes - centre))
        counts = by_bin(np.abs(weights))
        in_bins = np.abs(gaps) / np.where(counts > 0, counts, 1)
        columns = [np.abs(gaps).sum(1), np.abs(centre_gaps).sum(1), gaps.sum(1), n * in_bins.max(1)]
        squares = weights @ gap[0] ** 2 if len(gap) == 1 else np.sum(weights * gap**2, axis=1)
        return np.stack([*columns, squares], axis=1) / n

    return statistic


def _sample(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != hits.shape:
        raise ValueError(f"confidence and correct must be two vectors of one length: {values.shape}, {hits.shape}")
    return values, hits
