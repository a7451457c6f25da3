"""Calibration of top-label confidences.

Conventions: ``confidence`` (n,) is the largest softmax probability, ``correct`` (n,) whether the predicted class is the
label. Bins are of equal width and every bin is closed below, the last one above too: confidences of exactly 0 and
exactly 1 are counted (implementations with open bins lose a saturated softmax altogether). Every function returns None
on an empty sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.bounded import mean_interval, ratio_interval, typical_size
from seatrial.statistics.intervals import CELLS, Interval, resample, signs

METRICS = ("ece", "ece_centre", "s_ece", "mce", "brier")

MEANS = ("s_ece", "mce", "brier")
"""Those whose intervals are of means over examples, or over those in a bin, and take no simulation."""


def bin_edges(bins: int) -> Floats:
    """Return the edges k / bins (bins + 1,), each the double nearest to it.

    ``numpy.linspace`` multiplies k by a rounded 1 / bins instead, which for 32 of the numbers of bins up to 100 puts an
    edge one unit in the last place above a confidence of that very value: 0.6 then falls below its bin of 5, 10 or 20.

    >>> bool((bin_edges(5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]).all())
    True
    """
    edges: Floats = np.arange(bins + 1) / bins
    return edges


def bin_of(confidence: ArrayLike, bins: int) -> Ints:
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
    count: Ints
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
    """All five metrics with their intervals, by the names of ``METRICS``."""

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]


def calibrate(
    confidence: ArrayLike,
    correct: ArrayLike,
    bins: int = 15,
    *,
    seed: int | Sequence[int],
    resamples: int | None = None,
    alpha: float = 0.05,
) -> Calibration:
    """Return all five metrics of a sample with their intervals; under 2 examples there are none.

    The values are the plug-in ones, which overstate ECE, its bin-centre form and MCE: by chance alone a bin's accuracy
    is off its confidence.

    Guarantee, up to the simulation's approximations: each end is wrong with probability at most alpha / 2, whether or
    not the truth is 0 and however few examples are wrong. Signed ECE and Brier score are means
    (:func:`~seatrial.statistics.bounded.mean_interval`). ECE is the largest, over signs of the bins, of the means of
    signed errors: the upper end is that of the mean with the sample's signs. The lower end allows for having chosen
    these: the estimate exceeds the truth by no more than the norm of the errors (triangle inequality), simulated twice,
    because each way fails where the other holds: with outcomes drawn at the stated confidences (right for a calibrated
    model, nothing for a saturated one) and with the errors' directions drawn (right wherever a bin holds both right and
    wrong answers); nor does it exceed the mean's own lower end, which knows that a rare error may not have been seen.
    The interval of MCE is about the bins that hold examples: of their largest error the largest upper end is a bound,
    and the largest lower end with the level shared among them (Bonferroni).

    Args:
        confidence: (n,) in [0, 1].
        correct: (n,) whether each is right.
        bins: Of equal width.
        seed: The same seed gives the same intervals.
        resamples: As for :func:`~seatrial.statistics.intervals.resample`.
        alpha: Probability of missing the truth.
    """
    values, hits = _sample(confidence, correct)
    if len(values) == 0:
        return Calibration(dict.fromkeys(METRICS), dict.fromkeys(METRICS))
    order = np.argsort(bin_of(values, bins), kind="stable")
    values, hits = values[order], hits[order]
    statistic, n = _weighted(values, hits, bins), len(values)
    once = np.ones((1, n))
    point = dict(zip(METRICS, map(float, statistic(once)[0]), strict=True))
    if n < 2:
        return Calibration(dict(point), dict.fromkeys(METRICS))

    def outcomes(rng: np.random.Generator, rows: int, size: int) -> Floats:
        return (rng.random((rows, size), dtype=np.float32) < values).astype(np.float64)

    flipped = resample(statistic, [n], seed=seed, resamples=resamples, draw=signs)
    # Fewer at a time, since as many errors are held beside them: each resample is summed by itself.
    by_chance = resample(
        lambda hits: statistic(once, hits), [n], seed=seed, resamples=resamples, draw=outcomes, cells=CELLS // 4
    )
    index, gap = bin_of(values, bins), hits - values
    intervals: dict[str, Interval | None] = {
        "s_ece": mean_interval(gap, -1, 1, alpha=alpha),
        "brier": mean_interval(gap**2, 0, 1, alpha=alpha),
        "mce": _largest(gap, index, bins, alpha),
    }
    for name, errors in (("ece", gap), ("ece_centre", hits - (2 * index + 1) / (2 * bins))):
        # Against bin centres the outcomes' noise is the same; the centres' own offset is no noise.
        noise = flipped[:, METRICS.index(name)], by_chance[:, METRICS.index("ece")]
        direction = np.where(np.bincount(index, errors, bins) < 0, -1.0, 1.0)[index]
        intervals[name] = norm_interval(direction * errors, np.ones(n), *noise, alpha=alpha)
    # The mean of the signed errors is summed in another order than the estimate.
    held = {name: (min(ends[0], point[name]), max(ends[1], point[name])) for name, ends in intervals.items() if ends}
    return Calibration(dict(point), {name: held[name] for name in METRICS})


def norm_interval(errors: Floats, sizes: Floats, *noise: Floats, alpha: float = 0.05) -> Interval:
    """Return an interval of a sum of absolute errors by bin over the sum of sizes, as of :func:`calibrate`'s ECE.

    Args:
        errors: (n,) signed, so that their sum over that of the sizes is the estimate; none larger than its size.
        sizes: (n,) 1 for single decisions.
        noise: (resamples,) the norm of the errors, simulated in one way or several; the largest quantile counts.
        alpha: Probability of missing the truth.
    """
    size = typical_size(sizes)
    found = ratio_interval(errors, sizes, (-size, size), (size, size), alpha=alpha)
    if found is None:
        raise AssertionError("unreachable: there are decisions")
    chance = max(float(np.quantile(column, 1 - alpha / 2)) for column in noise)
    value = float(errors.sum() / sizes.sum())
    return max(0.0, min(found[0], value - chance)), min(1.0, found[1])


def _largest(gap: Floats, index: Ints, bins: int, alpha: float) -> Interval:
    """Return an interval of the largest absolute mean of the bins that hold examples; ``index`` is sorted."""
    filled, starts = np.unique(index, return_index=True)
    tails = _Tails(gap, starts, bin_edges(bins)[filled], bin_edges(bins)[filled + 1])
    low = tails.largest(alpha / len(filled), -1)
    return low, max(low, min(1.0, tails.largest(alpha, 1)))


class _Tails:
    """The errors of each bin, and turned round, in the ranges they can have: a confidence lies in its bin."""

    def __init__(self, gap: Floats, starts: Ints, floor: Floats, top: Floats) -> None:
        self._errors = [*np.split(gap, starts[1:]), *np.split(-gap, starts[1:])]
        self._least, self._most = np.append(-top, floor - 1), np.append(1 - floor, top)

    def largest(self, alpha: float, side: int) -> float:
        """Return the largest of the bins' lower (-1) or upper (1) ends, at least 0.

        Most bins need not be looked at: what an end cannot exceed is known beforehand, by Hoeffding's inequality, which
        Gaffke's ends are within, and by the weight of the unseen example alone.
        """
        sizes = np.array([len(one) for one in self._errors])
        means = np.array([one.mean() for one in self._errors])
        if side > 0:
            reach = np.sqrt(np.log(2 / alpha) / 2 / sizes) * (self._most - self._least)
            limits = np.minimum(self._most, means + reach)
        else:
            farthest = np.array([one.max() for one in self._errors])
            limits = np.minimum(means, self._least + (farthest - self._least) * (alpha / 2) ** (1 / sizes))
        found = 0.0
        for at in np.argsort(-limits, kind="stable").tolist():
            if limits[at] <= found:
                break
            ends = mean_interval(self._errors[at], self._least[at], self._most[at], alpha=alpha)
            found = max(found, float(ends[side > 0]))
        return found


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
        # One matrix beside what is given, and that of the errors: of 100,000 examples each is 32 MB.
        terms = weights * gap
        gaps = by_bin(terms)
        np.multiply(
            np.subtract(outcomes, centre, out=terms if len(outcomes) == len(terms) else None), weights, out=terms
        )
        centre_gaps = by_bin(terms)
        counts = by_bin(np.abs(weights, out=terms[: len(weights)]))
        in_bins = np.abs(gaps) / np.where(counts > 0, counts, 1)
        columns = [np.abs(gaps).sum(1), np.abs(centre_gaps).sum(1), gaps.sum(1), n * in_bins.max(1)]
        if len(gap) == 1:
            squares = weights @ gap[0] ** 2
        else:
            squares = np.sum(np.multiply(weights, np.square(gap, out=gap), out=gap), axis=1)
        return np.stack([*columns, squares], axis=1) / n

    return statistic


def _sample(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != hits.shape:
        raise ValueError(f"confidence and correct must be two vectors of one length: {values.shape}, {hits.shape}")
    return values, hits
