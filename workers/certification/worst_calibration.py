"""The certified calibration error: the largest ECE that confidences within certified intervals can have, exactly.

The published programme (Emde et al., Towards Certification of Uncertainty Calibration under Adversarial Attacks)
assigns each example to a bin and a confidence within it by integer variables, and approximates the optimum from below
by ADMM. Bins whose edges are fixed beforehand, of equal width or not, allow an exact solution in O(n + bins^2):

1. sum_m |g_m| is the largest sum_m s_m g_m over signs s, and for given signs every example chooses by itself. A wrong
   answer takes the *last plus* bin it can reach, at its top (its own lower end if all are minus); a right one takes the
   *first minus* bin, at its bottom (its upper end if all are plus).
2. So what wrong answers add is a sum over neighbouring plus bins, what right ones add a sum over neighbouring minus
   bins (:func:`gains`), and the best signs are runs of pluses and minuses found from left to right
   (:func:`best_signs`).

Bins are closed on both sides: a confidence on an edge may be counted in either bin. That makes the value a maximum that
is attained, and never less than what half-open bins can reach; it is more only where an interval begins exactly on an
edge between two bins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.calibration import bin_edges

Signs = NDArray[np.int8]

CELLS = 1_000_000
"""Entries of one table of all resamples that are solved together: 8 MB in float64."""


@dataclass(frozen=True)
class WorstCase:
    """The worst calibration within the intervals, and confidences that have it.

    Attributes:
        value: The calibration error; None for no examples.
        signs: (bins,) 1 where the worst case is over-confident, -1 where under-confident, either where it is empty or
            calibrated. The value's derivative by a confidence is ``signs[bins[n]] / n``.
        bins: (n,) the bin each confidence is counted in.
        confidence: (n,) the confidences.
        correct: (n,) whether each example counts as classified correctly.
    """

    value: float | None
    signs: Signs
    bins: Ints
    confidence: Floats
    correct: NDArray[np.bool_]

    @property
    def terms(self) -> Floats:
        """What each example adds (n,), of mean ``value``."""
        added: Floats = self.signs[self.bins] * (self.confidence - self.correct)
        return added


@dataclass(frozen=True)
class Intervals:
    """Certified confidence intervals and the unbroken range of closed bins each of them meets.

    Attributes:
        lower: (n,) lower ends.
        upper: (n,) upper ends.
        correct: (n,) whether the prediction is right.
        edges: (bins + 1,) edges of the bins.
        first: (n,) the lowest bin met.
        last: (n,) the highest bin met.
    """

    lower: Floats
    upper: Floats
    correct: NDArray[np.bool_]
    edges: Floats
    first: Ints
    last: Ints

    @classmethod
    def read(cls, lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, bins: int | Floats) -> Self:
        """Return the intervals of a sample, in equal-width bins or in bins of other edges (bins + 1,).

        Raises:
            ValueError: The vectors differ in shape, an interval is empty or not within [0, 1], an entry of ``correct``
                is neither 0 nor 1, there is no bin, or edges do not ascend from 0 to 1.
        """
        low, high, hits = np.asarray(lower, np.float64), np.asarray(upper, np.float64), np.asarray(correct)
        if low.ndim != 1 or not low.shape == high.shape == hits.shape:
            raise ValueError(
                "lower, upper and correct must be vectors of one length: "
                f"their shapes are {low.shape}, {high.shape} and {hits.shape}"
            )
        edges = _edges(bins)
        _refuse(~((low >= 0) & (high <= 1)), low, high, "intervals must be within [0, 1]")
        _refuse(~(low <= high), low, high, "lower must not exceed upper")
        if not bool(np.all((hits == 0) | (hits == 1))):
            raise ValueError("correct must hold only 0 and 1, or False and True")
        return cls(
            lower=low,
            upper=high,
            correct=hits.astype(np.bool_),
            edges=edges,
            first=np.maximum(np.searchsorted(edges, low, side="left") - 1, 0).astype(np.int64),
            last=np.minimum(np.searchsorted(edges, high, side="right") - 1, len(edges) - 2).astype(np.int64),
        )

    @cached_property
    def entries(self) -> csc_array:
        """What each example adds to the sums of :func:`gains`, (4 bins^2 + 2 bins, n)."""
        return _columns(self, *_entries(self, self.correct))

    @cached_property
    def turned(self) -> csc_array:
        """What an example adds that comes out right rather than wrong: ``entries`` of right ones less wrong ones."""
        (right, at_right), (wrong, at_wrong) = (_entries(self, np.full(len(self.lower), hit)) for hit in (True, False))
        return _columns(self, np.hstack([right, -wrong]), np.hstack([at_right, at_wrong]))


def worst_calibration_error(
    lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, bins: int | Floats = 15
) -> WorstCase:
    """Return the largest ECE that any confidences within the intervals have, and confidences that have it.

    Guarantee: if every true confidence lies in its interval and no correctness changes, no perturbation that the
    intervals allow for gives a larger ECE. It fails where an interval fails; and what follows concerns this sample,
    not the population it is drawn from.

    Args:
        lower: (n,) lower ends of certified confidence intervals, in [0, 1].
        upper: (n,) upper ends, at least ``lower``; both ends belong to the interval, which may have width zero.
        correct: (n,) whether the certified class is the label.
        bins: Equal-width bins, or edges (bins + 1,) from 0 to 1 that no attack moves.

    Returns:
        The worst case, its confidences counted in closed bins; value None for an empty sample. Counting them in
        half-open bins gives the value too, up to any small tolerance, once they are moved off the edges into their
        bins.

    Raises:
        ValueError: As :meth:`Intervals.read`.

    >>> worst = worst_calibration_error([0.1, 0.5], [0.6, 0.9], [True, False], bins=3)
    >>> round(worst.value, 3), worst.confidence.tolist(), worst.bins.tolist()
    (0.9, [0.1, 0.9], [0, 2])
    """
    sample = Intervals.read(lower, upper, correct, bins)
    once = np.ones((1, len(sample.lower)))
    return worst_case(sample, best_signs(*gains(sample, once))[1][0])


def resampled_errors(
    lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, weights: ArrayLike, bins: int | Floats = 15
) -> Floats:
    """Return max over signs s of (1/n) sum_i w_i h_s(i) for many weight vectors w, (resamples,).

    h_s(i) is the most that example i adds under signs s. With weights of 1 it is the certified calibration error; with
    counts of a bootstrap draw, that of the drawn sample. A negative weight turns an example's share round but not its
    choice: the result is the size of a noise, not another worst case. NaN for an empty sample.

    Args:
        lower: (n,) lower ends.
        upper: (n,) upper ends.
        correct: (n,) whether the certified class is the label.
        weights: (resamples, n) of any sign; they need not add up to n, by which the result is divided.
        bins: Equal-width bins, or edges.

    Raises:
        ValueError: As :meth:`Intervals.read`, or the weights are not one finite row per resample.
    """
    return resampled_worst(Intervals.read(lower, upper, correct, bins), weights)


def resampled_worst(sample: Intervals, weights: ArrayLike) -> Floats:
    """Return what :func:`resampled_errors` does of intervals that were read already."""
    n = len(sample.lower)
    rows = checked_weights(weights, n)
    if n == 0:
        return np.full(len(rows), np.nan)
    return _largest(sample, sample.entries, rows) / n


def largest_deviations(sample: Intervals, gaps: ArrayLike) -> Floats:
    """Return the largest change of a sum, over the ways errors can point, by outcomes that are off (resamples,).

    Whether an example is right is of no account: an outcome that is right rather than wrong adds what a right answer
    does and takes away what a wrong one does.

    Args:
        sample: The examples.
        gaps: What outcomes exceed confidences by (resamples, n).

    Raises:
        ValueError: The gaps are not one finite row per resample.
    """
    n = len(sample.lower)
    rows = checked_weights(gaps, n)
    if n == 0:
        return np.zeros(len(rows))
    # By way of the mean over the outcomes of either kind: published intervals have its last digits.
    return _largest(sample, sample.turned, rows) / (2 * n) * 2 * n


def _largest(sample: Intervals, entries: csc_array, weights: Floats) -> Floats:
    found = np.empty(len(weights))
    for part in slices(len(weights), len(sample.lower), len(sample.edges) - 1):
        found[part] = best_signs(*gains_of(sample.edges, weighted(entries, weights[part])))[0]
    return found


def gains(sample: Intervals, weights: Floats) -> tuple[Floats, Floats]:
    """Return what neighbouring plus bins, and what neighbouring minus bins, add to the error.

    Args:
        sample: The examples, n of them.
        weights: (resamples, n) how often each counts.

    Returns:
        ``plus`` and ``minus`` (bins + 1, bins + 1, resamples), of which entries [m, k] with k <= m mean something.
        ``plus[m, k]``: bins k - 1 and m are plus and none between; it is the sum over wrong answers that reach bin
        k - 1 and end before m, and over those that lie between the two. ``minus[m, k]``: bins k - 1 and m are minus and
        none between; it is the sum over right answers that begin after k - 1 and reach m, and over those that lie
        between. k = 0 stands for no such bin before, m = bins for none after.
    """
    return gains_of(sample.edges, weighted(sample.entries, weights))


def weighted(entries: csc_array, weights: Floats) -> Floats:
    """Return the sums of ``entries`` (rows, n) by weights (resamples, n), (rows, resamples)."""
    # Column by column, as the samples come: nothing has to be sorted, and resamples lie next to each other.
    sums: Floats = entries @ np.ascontiguousarray(weights.T)
    return sums


def gains_of(edges: Floats, sums: Floats) -> tuple[Floats, Floats]:
    """Return the gains that sums of ``entries`` make, which stay as they are."""
    bins = len(edges) - 1
    square = bins * bins
    ends = sums[4 * square :].reshape(2, bins, -1)
    below = np.zeros((2, 2, bins + 1, bins + 1, sums.shape[1]))
    below[:, :, 1:, 1:] = sums[: 4 * square].reshape(2, 2, bins, bins, -1)
    np.cumsum(below, axis=2, out=below)
    np.cumsum(below, axis=3, out=below)
    (wrong, wrong_lower), (right, right_short) = below
    edge, diagonal = edges, np.arange(bins + 1)

    plus = edge[:, None] * (wrong - wrong[diagonal, diagonal]) - (wrong_lower[:, -1:] - wrong_lower)
    plus[:, 1:] += ends[0]
    beginning = right[-1, :, None] - right[-1]
    minus = (1 - edge)[:, None, None] * (beginning - (right[diagonal, diagonal][:, None] - right))
    minus += right_short[:, -1:] - right_short
    minus[:-1] += ends[1][:, None]
    return plus, minus


def _entries(sample: Intervals, correct: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """Return what each example adds, and to which of the sums, if so many are right: both (n, 3)."""
    bins = len(sample.edges) - 1
    square = bins * bins
    kind = correct.astype(np.int64)
    cell = 2 * square * kind + bins * sample.last + sample.first
    end = 4 * square + bins * kind + np.where(correct, sample.first, sample.last)
    trapped = np.where(correct, sample.upper - 1, sample.lower)
    ending = np.where(correct, 1 - sample.lower, sample.upper)
    return np.stack([np.ones(len(kind)), trapped, ending], axis=1), np.stack([cell, cell + square, end], axis=1)


def _columns(sample: Intervals, amounts: Floats, rows: Ints) -> csc_array:
    n, bins = len(sample.lower), len(sample.edges) - 1
    starts = np.arange(0, amounts.size + 1, amounts.shape[1])
    return csc_array((amounts.ravel(), rows.ravel(), starts), shape=(4 * bins * bins + 2 * bins, n))


def best_signs(plus: Floats, minus: Floats) -> tuple[Floats, Signs]:
    """Return the largest sum of gains over all signs (resamples,) and signs that reach it (resamples, bins).

    Args:
        plus: (bins + 1, bins + 1, resamples) as :func:`gains` returns; -inf in ``plus[m]`` bars bin m from being plus.
        minus: The same for minus.
    """
    bins, resamples = len(plus) - 1, plus.shape[2]
    # [r]: the best signs up to here whose last run, of pluses or of minuses, began at bin r.
    rising, falling = np.empty((2, bins, resamples))
    rising[0], falling[0] = plus[0, 0], minus[0, 0]
    # [0 or 1, r]: where the run before began, if one of pluses (0) or of minuses (1) begins at bin r.
    before = np.zeros((2, bins, resamples), dtype=np.int64)
    for m in range(1, bins):
        to_rising, to_falling = falling[:m] + plus[m, :m], rising[:m] + minus[m, :m]
        rising[:m] += plus[m, m]
        falling[:m] += minus[m, m]
        before[0, m], before[1, m] = to_rising.argmax(axis=0), to_falling.argmax(axis=0)
        rising[m], falling[m] = to_rising.max(axis=0), to_falling.max(axis=0)
    rising += plus[bins, bins] + minus[bins, :bins]
    falling += minus[bins, bins] + plus[bins, :bins]
    final = np.concatenate([rising, falling])
    is_minus, start = np.divmod(final.argmax(axis=0), bins)
    column = np.arange(resamples)
    signs = np.empty((resamples, bins), dtype=np.int8)
    for m in reversed(range(bins)):
        signs[:, m] = 1 - 2 * is_minus
        turns = start == m
        start = np.where(turns, before[is_minus, m, column], start)
        is_minus = np.where(turns, 1 - is_minus, is_minus)
    return final.max(axis=0), signs


def worst_case(sample: Intervals, signs: Signs) -> WorstCase:
    """Return what happens when every example adds as much as it can to errors of the given signs (bins,)."""
    n, bins = len(sample.lower), len(signs)
    index = np.arange(bins)
    last_plus = np.maximum.accumulate(np.where(signs > 0, index, -1))[sample.last]
    first_minus = np.minimum.accumulate(np.where(signs < 0, index, bins)[::-1])[::-1][sample.first]
    chosen = np.where(sample.correct, np.minimum(first_minus, sample.last), np.maximum(last_plus, sample.first))
    takes_top = signs[chosen] > 0
    confidence = np.where(
        takes_top, np.minimum(sample.upper, sample.edges[chosen + 1]), np.maximum(sample.lower, sample.edges[chosen])
    )
    errors = np.bincount(chosen, weights=confidence - sample.correct, minlength=bins)
    return WorstCase(
        value=float(np.abs(errors).sum() / n) if n else None,
        signs=signs,
        bins=chosen,
        confidence=confidence,
        correct=sample.correct,
    )


def checked_weights(weights: ArrayLike, n: int) -> Floats:
    """Return weights (resamples, n).

    Raises:
        ValueError: They have another shape, or one is not finite.
    """
    rows = np.asarray(weights, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n:
        raise ValueError(f"weights must have the shape (resamples, {n}), not {rows.shape}")
    if not bool(np.all(np.isfinite(rows))):
        raise ValueError("weights must be finite numbers")
    return rows


def slices(resamples: int, n: int, bins: int) -> Iterator[slice]:
    """Yield the rows of weights (resamples, n) that are solved together, so that memory does not grow with them."""
    rows = max(1, CELLS // max(n, (bins + 1) ** 2))
    for start in range(0, resamples, rows):
        yield slice(start, start + rows)


def _edges(bins: int | Floats) -> Floats:
    if isinstance(bins, int | np.integer):
        if bins < 1:
            raise ValueError(f"there must be at least 1 bin: {bins=}")
        return bin_edges(int(bins))
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not bool(np.all(np.diff(edges) >= 0)):
        raise ValueError(f"edges must ascend from 0 to 1, got {edges}")
    return edges


def _refuse(is_wrong: NDArray[np.bool_], lower: Floats, upper: Floats, rule: str) -> None:
    if bool(is_wrong.any()):
        first = int(np.argmax(is_wrong))
        raise ValueError(
            f"{rule}: {int(is_wrong.sum())} are not, the first is number {first}, [{lower[first]}, {upper[first]}]"
        )
