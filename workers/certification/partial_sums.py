"""Certified KS and Kuiper errors: the largest calibration errors without bins that certified intervals leave possible.

Order a sample by confidence z and add up z - c, c being 1 where the answer is right: the Kolmogorov-Smirnov error is
the largest |sum over z <= t| / n (Gupta et al., Calibration of Neural Networks using Splines, ICLR 2021), the Kuiper
error the largest over a range a < z <= b (ECCE-R; Arrieta-Ibarra et al., Metrics of Calibration for Probabilistic
Predictions, JMLR 2022). Neither depends on bins, so neither is inflated by confidences that are moved across edges.

For a range and a sign every example chooses by itself. Where the error is positive, a wrong answer goes in if it can,
as high as the range allows, and a right one stays out if it can. So the worst case is a maximum of sums over ranges:
exact. Ranges are cut just below a value z may be confined by, or just above it; both count, as confidences may come as
near as one likes. The negative sign is the positive one of 1 - z and 1 - c, ranges turned round.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from seatrial.statistics.arrays import Floats, Ints, Mask
from workers.certification.worst_calibration import Intervals, checked_weights, slices


@dataclass(frozen=True)
class WorstSum:
    """A certified error, as the mean of what each example adds to it.

    Attributes:
        value: The error; None for no examples.
        terms: (n,) what each adds, of mean ``value``, in [-1, 1].
    """

    value: float | None
    terms: Floats


@dataclass(frozen=True)
class _Side:
    """Intervals as one sign sees them; cut 2 r is just below ``values[r]``, cut 2 r + 1 just above it."""

    lower: Floats
    upper: Floats
    correct: Mask
    values: Floats
    start: Ints
    end: Ints

    def terms(self, low: int, high: int) -> Floats:
        """Return what each example adds (n,) in the range between two cuts, ``low`` < ``high``."""
        can_enter = (2 * self.start < high) & (2 * self.end >= low)
        must = (2 * self.start >= low) & (2 * self.end < high)
        top = self.values[min(high // 2, len(self.values) - 1)]
        gained = np.where(can_enter, np.minimum(self.upper, top), 0.0)
        return np.where(self.correct, np.where(must, self.upper - 1, 0.0), gained)


def _sides(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> tuple[_Side, _Side]:
    sample = Intervals.read(lower, upper, correct, 1)
    sides = []
    for low, high, right in (
        (sample.lower, sample.upper, sample.correct),
        (1 - sample.upper, 1 - sample.lower, ~sample.correct),
    ):
        values = np.unique(np.concatenate([low, high]))
        start, end = (np.searchsorted(values, one).astype(np.int64) for one in (low, high))
        sides.append(_Side(low, high, right, values, start, end))
    return sides[0], sides[1]


def worst_ks(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> WorstSum:
    """Return the largest KS error that any confidences within the intervals have; O(n log n).

    Guarantee: as :func:`~workers.certification.worst_calibration.worst_calibration_error`, for the KS error; it is
    approached as nearly as one likes, and never exceeded.

    Args:
        lower: (n,) lower ends of certified confidence intervals, in [0, 1].
        upper: (n,) upper ends, at least ``lower``.
        correct: (n,) whether the certified class is the label.

    Raises:
        ValueError: As :meth:`~workers.certification.worst_calibration.Intervals.read`.

    >>> worst_ks([0.5, 0.6], [0.7, 0.9], [True, False]).value
    0.35
    """
    sides = _sides(lower, upper, correct)
    n = len(sides[0].lower)
    if n == 0:
        return WorstSum(None, np.empty(0))
    best = WorstSum(0.0, np.zeros(n))
    once = np.ones((1, n))
    below, above = _up_to(sides[0], once)[:, 0], _beyond(sides[1], once)[:, 0]
    for terms in (
        sides[0].terms(-1, int(below.argmax())),
        sides[1].terms(int(above.argmax()), 2 * len(sides[1].values)),
    ):
        if float(terms.mean()) > (best.value or 0.0):
            best = WorstSum(float(terms.mean()), terms)
    return best


def resampled_ks(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, weights: ArrayLike) -> Floats:
    """Return max over ranges z <= t and signs of (1/n) sum_i w_i h(i) for many weight vectors w (resamples,).

    h(i) is the most that example i adds in that range under that sign. As
    :func:`~workers.certification.worst_calibration.resampled_errors`.

    Raises:
        ValueError: As there.
    """
    sides = _sides(lower, upper, correct)
    n = len(sides[0].lower)
    rows = checked_weights(weights, n)
    if n == 0:
        return np.full(len(rows), np.nan)
    found = np.zeros(len(rows))
    # There are up to four cuts an example, and sums at all of them for each kind of answer.
    for part in slices(len(rows), 4 * n, 1):
        below, above = _up_to(sides[0], rows[part]), _beyond(sides[1], rows[part])
        found[part] = np.maximum(below.max(axis=0), above.max(axis=0)) / n
    return found


def ks_deviations(lower: Floats, upper: Floats, gaps: ArrayLike) -> Floats:
    """Return the largest change of a sum (resamples,) by outcomes that are off by ``gaps`` (resamples, n).

    As :func:`~workers.certification.worst_calibration.largest_deviations`, over ranges and signs.

    Raises:
        ValueError: As there.
    """
    n = len(lower)
    rows = checked_weights(gaps, n)
    found = np.zeros(len(rows))
    if n == 0:
        return found
    both = np.tile(lower, 2), np.tile(upper, 2), np.repeat([True, False], n)
    for part in slices(len(rows), 2 * n, 1):
        found[part] = resampled_ks(*both, np.hstack([rows[part], -rows[part]])) * 2 * n
    return found


def worst_kuiper(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> WorstSum:
    """Return the largest Kuiper error that any confidences within the intervals have.

    Guarantee: as :func:`worst_ks`, for ranges a < z <= b; O(n log n).

    Args:
        lower: (n,) lower ends of certified confidence intervals, in [0, 1].
        upper: (n,) upper ends, at least ``lower``.
        correct: (n,) whether the certified class is the label.

    Raises:
        ValueError: As :meth:`~workers.certification.worst_calibration.Intervals.read`.

    >>> round(worst_kuiper([0.1, 0.8], [0.1, 0.8], [True, False]).value, 3)
    0.45
    """
    sides = _sides(lower, upper, correct)
    n = len(sides[0].lower)
    if n == 0:
        return WorstSum(None, np.empty(0))
    best = WorstSum(0.0, np.zeros(n))
    for side in sides:
        terms = side.terms(*_best_range(side))
        if float(terms.mean()) > (best.value or 0.0):
            best = WorstSum(float(terms.mean()), terms)
    return best


def _up_to(side: _Side, weights: Floats) -> Floats:
    """Return the sums (cuts, resamples) over the examples up to each cut, by weights (resamples, n)."""
    one, wrong = np.ones(len(side.lower)), ~side.correct
    passed = _below(side, side.end, one, wrong, weights)
    entered = _below(side, side.start, one, wrong, weights)
    held = _below(side, side.end, side.upper, wrong, weights)
    caught = _below(side, side.end, 1 - side.upper, side.correct, weights)
    total: Floats = held + np.repeat(side.values, 2)[:, None] * (entered - passed) - caught
    return total


def _beyond(side: _Side, weights: Floats) -> Floats:
    """Return the sums (cuts, resamples) over the examples above each cut, by weights (resamples, n)."""
    right, every = side.correct, weights @ np.where(side.correct, side.upper - 1, side.upper)
    passed = _below(side, side.end, side.upper, ~right, weights)
    free = _below(side, side.start, 1 - side.upper, right, weights)
    total: Floats = every - passed + free
    return total


def _below(side: _Side, at: Ints, amount: Floats, chosen: Mask, weights: Floats) -> Floats:
    """Return sums (cuts, resamples) of amounts of the chosen, who count from just above their value on."""
    many = len(side.values)
    column = csc_array((amount[chosen], (at[chosen], np.flatnonzero(chosen))), shape=(many, len(chosen)))
    sums = np.cumsum(column @ weights.T, axis=0)
    # Just below the first value is nobody; just below another are those up to the one before.
    return np.stack([np.concatenate([np.zeros_like(sums[:1]), sums[:-1]]), sums], axis=1).reshape(2 * many, -1)


def _best_range(side: _Side) -> tuple[int, int]:
    """Return the cuts between which the sum is largest.

    What a range loses only falls, as it begins later, where a right answer's interval begins, and what it gains only
    falls, as it ends later, once such an interval has ended: no other cut needs to be looked at.
    """
    many = 2 * len(side.values)
    cut = np.repeat(side.values, 2)
    wrong = ~side.correct

    def below(at: Ints, amount: Floats) -> Floats:
        # Of nothing, bincount makes integers.
        found: Floats = np.cumsum(np.bincount(2 * at + 1, weights=amount, minlength=many), dtype=np.float64)
        return found

    one = np.ones(int(wrong.sum()))
    ended = below(side.end[wrong], side.upper[wrong])
    gained = ended + cut * (below(side.start[wrong], one) - below(side.end[wrong], one))
    # What is lost if the range begins at a cut: wrong answers that end before, right ones caught inside.
    order = np.flatnonzero(side.correct)
    order = order[np.argsort(side.end[order], kind="stable")]
    begins, place = np.unique(side.start[order], return_inverse=True)
    lows = np.append(0, 2 * begins + 1)
    caught = 1 - side.upper[order]
    highs = np.append(2 * side.end[order], many - 1)
    before = np.searchsorted(side.end[order], highs / 2)
    sums = gained[highs] - least_sums(ended[lows], place, caught)[before]
    best = int(sums.argmax())
    if sums[best] <= 0:
        return 0, 1
    high, inside = int(highs[best]), before[best]
    amounts = np.bincount(place[:inside], weights=caught[:inside], minlength=len(lows))
    lost = (ended[lows] + np.cumsum(amounts[::-1])[::-1])[lows < high]
    return int(lows[lost.argmin()]), high


def least_sums(base: Floats, places: Ints, amounts: Floats) -> Floats:
    """Return the least of the sums base[j] + amounts at places from j on, of the first t amounts (t = 0 .. n).

    A tree over the places, each followed by the amounts that fall on it, knows of every part the sum of its amounts and
    the least sum within it; an amount changes the parts it lies in. All changes are made level by level: O(n log n).

    Args:
        base: (m,) at least one.
        places: (n,) from 0 to m - 1.
        amounts: (n,) in the order they come.

    >>> least_sums(np.array([0.0, 1.0]), np.array([0, 1]), np.array([2.0, 3.0])).tolist()
    [0.0, 1.0, 4.0]
    """
    n, m = len(places), len(base)
    # A place's own leaf comes before those of the amounts on it, as a sum from there takes all of them.
    order = np.argsort(np.append(np.arange(m), places), kind="stable")
    leaf = np.empty(n + m, dtype=np.int64)
    leaf[order] = np.arange(n + m)
    size = 1 << (n + m - 1).bit_length()
    first_sum, first_least = np.zeros(size), np.full(size, np.inf)
    first_least[leaf[:m]] = base
    node, total, least = leaf[m:], amounts.astype(np.float64), np.full(n, np.inf)
    index = np.arange(n)
    while size > 1:
        # By the part they lie in, and there as they come: the latest of either half is what it is by then.
        order = np.argsort(node >> 1, kind="stable")
        is_right, parent = (node[order] & 1).astype(np.bool_), node[order] >> 1
        begin = np.maximum.accumulate(np.where(np.diff(parent, prepend=-1) > 0, index, 0))
        halves = []
        for half, is_here in enumerate((~is_right, is_right)):
            latest = np.maximum.accumulate(np.where(is_here, index, -1))
            has_changed, at = latest >= begin, order[np.maximum(latest, 0)]
            halves.append(
                [
                    np.where(has_changed, now[at], first[2 * parent + half])
                    for now, first in ((total, first_sum), (least, first_least))
                ]
            )
        (left_sum, left_least), (right_sum, right_least) = halves
        total[order], least[order] = left_sum + right_sum, np.minimum(right_least, left_least + right_sum)
        first_least = np.minimum(first_least[1::2], first_least[::2] + first_sum[1::2])
        first_sum = first_sum[::2] + first_sum[1::2]
        node, size = node >> 1, size // 2
    return np.append(first_least, least)
