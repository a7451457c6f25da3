"""How well a score tells two groups apart: AUROC, AUPR, FPR at a TPR, in the OpenOOD convention.

The score is an uncertainty: high means outlier. Inliers are in-distribution examples. Computed from cumulative counts
over the pooled, sorted scores, so that one sort serves every metric and every bootstrap resample.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from seatrial.statistics.binomial import binomial_cdfs
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import Interval, exponentials, resample, unseen_interval

METRICS = ("auroc", "aupr_in", "aupr_out", "fpr95")


def auroc(inliers: ArrayLike, outliers: ArrayLike) -> float | None:
    """Return the probability that an outlier scores above an inlier, ties counting half.

    >>> auroc([0.1, 0.2, 0.3], [0.2, 0.9])
    0.75
    """
    return _single(inliers, outliers, "auroc")


def aupr_in(inliers: ArrayLike, outliers: ArrayLike) -> float | None:
    """Return the area under precision-recall with inliers positive and the negated score, by the trapezoidal rule.

    >>> aupr_in([0.1, 0.2], [0.8, 0.9])
    1.0
    """
    return _single(inliers, outliers, "aupr_in")


def aupr_out(inliers: ArrayLike, outliers: ArrayLike) -> float | None:
    """Return the area under precision-recall with outliers positive, by the trapezoidal rule (not average precision).

    >>> aupr_out([0.1, 0.2], [0.8, 0.9])
    1.0
    """
    return _single(inliers, outliers, "aupr_out")


def fpr95(inliers: ArrayLike, outliers: ArrayLike) -> float | None:
    """Return the share of inliers flagged at the first threshold that flags at least 95 % of the outliers.

    Outliers are the positive class, as in OpenOOD; papers that take inliers as positive get another number.

    >>> fpr95([0.1, 0.2, 0.3, 0.4], [0.35, 0.9])
    0.25
    """
    return _single(inliers, outliers, "fpr95")


@dataclass(frozen=True)
class Ranking:
    """All four metrics with their intervals, by the names of ``METRICS``."""

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]


def rank(
    inliers: ArrayLike,
    outliers: ArrayLike,
    *,
    seed: int | list[int],
    lowest: float = -math.inf,
    highest: float = math.inf,
    alpha: float = 0.05,
) -> Ranking:
    """Return all four metrics; inliers and outliers are weighted independently of each other.

    The intervals of the areas leave room for an inlier and an outlier that were not seen
    (:func:`~seatrial.statistics.intervals.unseen_interval`): these metrics get worse when an inlier scores higher or an
    outlier lower, so that the worst of both lie at the ends of the score. FPR95 has :func:`fpr95_interval`.

    Args:
        inliers: (n,) scores.
        outliers: (m,) scores.
        seed: The same seed gives the same intervals.
        lowest: Least score there can be.
        highest: Largest.
        alpha: Probability of missing the truth.
    """
    pooled = _Pooled(inliers, outliers)
    if not (pooled.inliers and pooled.outliers):
        return Ranking(dict.fromkeys(METRICS), dict.fromkeys(METRICS))
    values = [float(value) for value in pooled.metrics(np.ones((1, pooled.inliers)), np.ones((1, pooled.outliers)))[0]]
    if min(pooled.inliers, pooled.outliers) < 2:
        return Ranking(dict(zip(METRICS, values, strict=True)), dict.fromkeys(METRICS))
    scores = np.concatenate([np.asarray(inliers), np.asarray(outliers)])
    ends = min(lowest, float(scores.min())), max(highest, float(scores.max()))

    def drawn(inlier: float, outlier: float) -> Floats:
        both = _Pooled(np.append(inliers, inlier), np.append(outliers, outlier))
        return resample(both.metrics, [both.inliers, both.outliers], seed=seed, draw=exponentials)

    worse, better = drawn(ends[1], ends[0]), drawn(ends[0], ends[1])
    intervals: dict[str, Interval | None] = {}
    for at, name in enumerate(METRICS[:-1]):
        intervals[name] = unseen_interval(values[at], worse[:, at], better[:, at], alpha=alpha)
    low, high = fpr95_interval(inliers, outliers, alpha=alpha)
    intervals["fpr95"] = min(low, values[-1]), max(high, values[-1])
    return Ranking(dict(zip(METRICS, values, strict=True)), intervals)


def fpr95_interval(inliers: ArrayLike, outliers: ArrayLike, *, alpha: float = 0.05) -> Interval:
    """Return the interval of the share of inliers flagged at the threshold that flags 95 % of the outliers.

    Guarantee: each end is wrong with probability at most alpha / 2, whatever the scores' distributions, jumps of the
    share at that threshold included, over which no resampling can see. Half of it is spent on the threshold, which lies
    between two order statistics of the outliers, half on the share of inliers at these (Clopper and Pearson). Where the
    outliers are too few to say above which score 95 % of all lie (below 86), the upper end is 1.

    Args:
        inliers: (n,) scores, at least one.
        outliers: (m,) scores, at least one.
        alpha: Probability of missing the truth.

    >>> [round(end, 3) for end in fpr95_interval([0.1] * 95 + [0.7] * 5, [0.5] * 100)]
    [0.014, 0.123]
    """
    low, falling = np.asarray(inliers, dtype=np.float64), np.sort(np.asarray(outliers, dtype=np.float64))[::-1]
    m, level = len(falling), alpha / 4
    chances = binomial_cdfs(m, 0.95)
    # At least `fewest` outliers score at the true threshold or above; fewer than `most` score above it.
    fewest = int(np.searchsorted(chances, level, side="right"))
    most = 1 + int(np.argmax(chances >= 1 - level))

    def flagged(threshold: float) -> int:
        return int((low >= threshold).sum())

    least = clopper_pearson(flagged(falling[fewest - 1]), len(low), alpha=alpha / 2)[0] if fewest else 0.0
    largest = clopper_pearson(flagged(falling[most - 1]), len(low), alpha=alpha / 2)[1] if most <= m else 1.0
    return least, largest


class _Pooled:
    """Both groups sorted together, highest score first."""

    def __init__(self, inliers: ArrayLike, outliers: ArrayLike) -> None:
        low, high = np.asarray(inliers, dtype=np.float64), np.asarray(outliers, dtype=np.float64)
        scores = np.concatenate([low, high])
        if low.ndim != 1 or high.ndim != 1 or np.isnan(scores).any():
            raise ValueError("scores must be two vectors without NaN")
        self.inliers, self.outliers = len(low), len(high)
        self._order = np.argsort(-scores, kind="stable")
        ordered = scores[self._order]
        # Equal scores cannot be told apart: only the last of each run of ties is a threshold.
        self._thresholds = (
            np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(scores) else np.array([], int)
        )

    def metrics(self, inlier_weights: Floats, outlier_weights: Floats) -> Floats:
        """Return (resamples, 4), columns as in ``METRICS``, for weights (resamples, inliers) and (..., outliers)."""
        none = np.zeros_like
        flagged_out = self._cumulate(np.concatenate([none(inlier_weights), outlier_weights], axis=1))
        flagged_in = self._cumulate(np.concatenate([inlier_weights, none(outlier_weights)], axis=1))
        tpr, fpr = flagged_out / flagged_out[:, -1:], flagged_in / flagged_in[:, -1:]
        first = np.argmax(tpr >= 0.95, axis=1)
        return np.stack(
            [
                _trapezoid(fpr, tpr),
                # From the low end the same curve ranks inliers: what is not flagged.
                _precision_recall(
                    _rest(flagged_in),
                    _rest(flagged_out),
                ),
                _precision_recall(flagged_out[:, 1:], flagged_in[:, 1:]),
                np.take_along_axis(fpr, first[:, None], axis=1)[:, 0],
            ],
            axis=1,
        )

    def _cumulate(self, weights: Floats) -> Floats:
        """Return how many are at or above each threshold (resamples, thresholds + 1), starting from none."""
        counts = np.cumsum(weights[:, self._order], axis=1)[:, self._thresholds]
        return np.concatenate([np.zeros((len(counts), 1)), counts], axis=1)


def _rest(flagged: Floats) -> Floats:
    """Return how many are below each threshold, the lowest scores first, leaving out "none"."""
    return (flagged[:, -1:] - flagged)[:, ::-1][:, 1:]


def _precision_recall(true_positives: Floats, false_positives: Floats) -> Floats:
    """Return the area under precision over recall, from (recall 0, precision 1) on."""
    flagged = true_positives + false_positives
    precision = true_positives / np.where(flagged > 0, flagged, 1)
    # A resample may leave the first thresholds empty: there the curve is still at its start.
    precision = np.where(flagged > 0, precision, 1.0)
    recall = true_positives / true_positives[:, -1:]
    start = np.zeros((len(recall), 1))
    return _trapezoid(np.concatenate([start, recall], axis=1), np.concatenate([start + 1, precision], axis=1))


def _trapezoid(x: Floats, y: Floats) -> Floats:
    area: Floats = np.sum(np.diff(x, axis=1) * (y[:, 1:] + y[:, :-1]) / 2, axis=1)
    return area


def _single(inliers: ArrayLike, outliers: ArrayLike, name: str) -> float | None:
    pooled = _Pooled(inliers, outliers)
    if not (pooled.inliers and pooled.outliers):
        return None
    values = pooled.metrics(np.ones((1, pooled.inliers)), np.ones((1, pooled.outliers)))[0]
    return float(values[METRICS.index(name)])
