"""Statistics of decisions that come in clusters: the tags of a sentence, the labels of a text, the class of a text.

What is sampled is examples, so examples are resampled, with all that was decided about them. Sums over examples come
out of one matrix product, for the sample and for its resamples at once: in every array of this module row 0 is the
sample and the others are resamples of it. Whatever is computed row by row (a ratio, a rank, a correlation) keeps that
form, and arrays made with one seed for one number of examples are of the same resamples, so they may be compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.calibration import bin_of, norm_interval
from seatrial.statistics.intervals import Interval, bias_corrected, resample, signs

Function = Callable[[Floats], Floats]
"""Weights (rows, n) to one number for each row (rows,)."""


def drawn_sums(columns: ArrayLike, *, seed: int | Sequence[int], resamples: int | None = None) -> Floats:
    """Return the sums of columns (n, m) over the sample and over its resamples (1 + resamples, m).

    >>> drawn_sums([[1.0, 0.0], [1.0, 0.0]], seed=0, resamples=2).tolist()
    [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]
    """
    values = np.asarray(columns, dtype=np.float64)
    drawn = resample(lambda weights: weights @ values, [len(values)], seed=seed, resamples=resamples)
    return np.concatenate([values.sum(axis=0, keepdims=True), drawn])


def drawn_values(functions: Sequence[Function], size: int, *, seed: int | Sequence[int]) -> Floats:
    """Return what functions give for the sample and for its resamples (1 + resamples, functions).

    Args:
        functions: Of weights.
        size: Examples of the sample.
        seed: With that of :func:`drawn_sums`, the same resamples.
    """

    def statistic(weights: Floats) -> Floats:
        return np.stack([function(weights) for function in functions], axis=1)

    drawn = resample(statistic, [size], seed=seed)
    return np.concatenate([statistic(np.ones((1, size))), drawn])


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return a ratio element by element, NaN where nothing is divided by.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    is_defined = denominator != 0
    return np.where(is_defined, numerator / np.where(is_defined, denominator, 1.0), np.nan)


def interval_of(drawn: Floats) -> Interval | None:
    """Return the bias-corrected 95 % interval of one statistic (1 + resamples,).

    None where the sample leaves it undefined, or half the resamples do.
    """
    return bias_corrected(float(drawn[0]), drawn[1:])


def correlations(x: Floats, y: Floats) -> Floats:
    """Return Pearson's correlation of two sets of points, row by row: (rows, points) twice to (rows,).

    NaN with fewer than 3 points, where a point is undefined, or where all points of a row agree in x or in y.

    >>> correlations(np.array([[0.0, 1.0, 2.0]]), np.array([[3.0, 2.0, 1.0]])).tolist()
    [-1.0]
    """
    if x.shape[1] < 3:
        return np.full(len(x), np.nan)
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (x, y))
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    # Points that agree up to rounding have no direction.
    size = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    found = ratio((a * b).sum(axis=1), np.where(spread > 1e-12 * size, spread, 0.0))
    return np.clip(found, -1.0, 1.0)


@dataclass(frozen=True)
class BinnedErrors:
    """Calibration errors of decisions by bin of confidence, summed over each example.

    Attributes:
        gaps: (n, bins) sums of correct - confidence.
        count: (n,) decisions.
        in_bins: (bins,) decisions of the sample.
        confidence: (bins,) their mean confidence, 0 where there are none.
    """

    gaps: Floats
    count: Floats
    in_bins: Ints
    confidence: Floats

    @classmethod
    def of(cls, confidence: ArrayLike, correct: ArrayLike, owner: ArrayLike, examples: int, bins: int) -> Self:
        """Return the errors of decisions (d,).

        Args:
            confidence: (d,) in [0, 1].
            correct: (d,) whether each is right.
            owner: (d,) the example of each, from 0.
            examples: How many examples there are; one may have no decision.
            bins: Of equal width.
        """
        values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        owners, index = np.asarray(owner, dtype=np.int64), bin_of(values, bins)
        cells = owners * bins + index
        gaps = np.bincount(cells, weights=hits - values, minlength=examples * bins).reshape(examples, bins)
        in_bins = np.bincount(index, minlength=bins).astype(np.int64)
        confident = np.bincount(index, weights=values, minlength=bins) / np.maximum(in_bins, 1)
        count = np.bincount(owners, minlength=examples)
        return cls(gaps.astype(np.float64), count.astype(np.float64), in_bins, confident)

    @property
    def columns(self) -> Floats:
        """(n, bins + 1) what :meth:`error` wants the sums of."""
        return np.concatenate([self.gaps, self.count[:, None]], axis=1)

    @staticmethod
    def error(sums: Floats) -> Floats:
        """Return the expected calibration error (rows,), mean-confidence form, of sums of columns (rows, bins + 1)."""
        return ratio(np.abs(sums[:, :-1]).sum(axis=1), sums[:, -1])

    def interval(
        self, *, seed: int | Sequence[int], resamples: int | None = None, alpha: float = 0.05
    ) -> Interval | None:
        """Return the interval of the expected calibration error; None with fewer than 2 examples.

        As :func:`seatrial.statistics.calibration.calibrate` makes it, for clusters: how far chance goes is simulated
        with the errors' directions drawn, one direction for all decisions of an example, and with outcomes drawn at the
        mean confidence of each bin.

        Args:
            seed: Of what chance does.
            resamples: As for :func:`~seatrial.statistics.intervals.resample`.
            alpha: Probability of missing the truth.
        """
        total = int(self.in_bins.sum())
        if len(self.gaps) < 2 or total == 0:
            return None
        turned = resample(
            lambda weights: np.abs(weights @ self.gaps), [len(self.gaps)], seed=seed, resamples=resamples, draw=signs
        )
        rng = np.random.default_rng(seed)
        outcomes = rng.binomial(self.in_bins, np.clip(self.confidence, 0, 1), (len(turned), len(self.in_bins)))
        by_chance = np.abs(outcomes - self.in_bins * self.confidence)
        direction = np.where(self.gaps.sum(axis=0) < 0, -1.0, 1.0)
        noise = turned.sum(axis=1) / total, by_chance.sum(axis=1) / total
        return norm_interval(self.gaps @ direction, self.count, *noise, alpha=alpha)
