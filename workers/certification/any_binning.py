"""The largest ECE under any binning: no choice of edges, made before the attack or after it, gives a larger one.

Bins of equal mass are cut at quantiles of the confidences, which an attack moves too; no edges are fixed beforehand.
Here edges are chosen by the adversary as well. Two neighbouring bins whose errors have one sign can be merged without
loss, so signs alternate, and of the plus bins an example can reach the last one is this one or the one before last; of
the minus bins likewise the first. So a programme over the left and right edge of the current bin finds the maximum, in
O(n + bins grid^3).
"""

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints, Mask
from workers.certification.partial_sums import WorstSum
from workers.certification.worst_calibration import Intervals

GRID = 100
"""Edges are multiples of 1 / GRID; intervals are rounded outward to it, which adds at most 1 / GRID to the error."""

Bin = tuple[int, int]


def worst_over_binnings(
    lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, bins: int = 15, grid: int = GRID
) -> WorstSum:
    """Return the largest ECE that any confidences within the intervals have under any contiguous bins.

    Guarantee: no confidences within the intervals have a larger ECE in at most ``bins`` contiguous bins, however they
    are cut, equal mass among them. Exact for intervals whose ends are multiples of 1 / grid, counted in closed bins;
    otherwise too large by at most 1 / grid.

    Args:
        lower: (n,) lower ends of certified confidence intervals, in [0, 1].
        upper: (n,) upper ends, at least ``lower``.
        correct: (n,) whether the certified class is the label.
        bins: Most bins, at least 1.
        grid: Cells of the grid.

    Raises:
        ValueError: As :meth:`~workers.certification.worst_calibration.Intervals.read`, or ``grid`` is below 1.

    >>> round(worst_over_binnings([0.5, 0.5], [0.5, 0.5], [True, False], bins=2).value, 9)
    0.5
    """
    sample = Intervals.read(lower, upper, correct, bins)
    if grid < 1:
        raise ValueError(f"a grid needs at least 1 cell: {grid=}")
    if len(sample.lower) == 0:
        return WorstSum(None, np.empty(0))
    first = np.floor(sample.lower * grid).astype(np.int64)
    first -= first / grid > sample.lower
    last = np.minimum(np.ceil(sample.upper * grid), grid).astype(np.int64)
    last += last / grid < sample.upper
    found = _signed_bins(_Tables(first, last, sample.correct, grid), bins)
    terms = _terms(first / grid, last / grid, sample.correct, found, grid)
    return WorstSum(float(terms.mean()), terms)


class _Tables:
    """What bins add, by their edges, all of them multiples of 1 / grid.

    Attributes:
        plus: [a, b, d] what wrong answers add whose last plus bin is [a, b], the next beginning at d (grid + 1: none),
            and those that lie between the two.
        minus: [a, b, d + 1] what right answers add whose first minus bin is [a, b], the one before ending at d (-1:
            none), and those that lie between the two.
        after: [d + 1] right answers beyond the last minus bin, which ends at d.
        before: [a] wrong answers below the first plus bin, which begins at a.
    """

    def __init__(self, first: Ints, last: Ints, correct: Mask, grid: int) -> None:
        self.grid = grid
        edge, low, high = np.arange(grid + 1) / grid, first / grid, last / grid

        def table(chosen: Mask, amount: Floats) -> Floats:
            """Return sums [x, y] over the chosen that begin before x and end before y."""
            sums = np.zeros((grid + 2, grid + 2))
            np.add.at(sums, (first[chosen] + 1, last[chosen] + 1), amount[chosen])
            total: Floats = sums.cumsum(0).cumsum(1)
            return total

        def within(sums: Floats, *ends: Ints | int) -> Floats:
            """Return sums over those that begin in [x0, x1) and end in [y0, y1)."""
            x0, x1, y0, y1 = np.broadcast_arrays(*(np.asarray(end) for end in ends))
            x1, y1 = np.maximum(x0, x1), np.maximum(y0, y1)
            found: Floats = sums[x1, y1] - sums[x0, y1] - sums[x1, y0] + sums[x0, y0]
            return found

        one, wrong, top = np.ones(len(first)), ~correct, grid + 1
        a = np.arange(grid + 1)[:, None, None]
        b = np.arange(grid + 1)[None, :, None]
        d = np.arange(grid + 2)[None, None, :]
        trapped = table(wrong, -low)
        self.plus = (
            within(table(wrong, high), 0, b + 1, a, np.minimum(b + 1, d))
            + edge[b] * within(table(wrong, one), 0, b + 1, b + 1, d)
            + within(trapped, b + 1, top, 0, d)
        )
        # Here d stands for one after the end of the minus bin before.
        beyond = table(correct, high - 1)
        self.minus = (
            within(table(correct, 1 - low), np.maximum(a, d), b + 1, a, top)
            + (1 - edge[a]) * within(table(correct, one), d, np.maximum(a, d), a, top)
            + within(beyond, d, top, 0, a)
        )
        ends = np.arange(grid + 2)
        self.after = within(beyond, ends, top, 0, top)
        self.before = within(trapped, 0, top, 0, ends)


def _signed_bins(tables: _Tables, bins: int) -> list[tuple[Bin, bool]]:
    """Return the best bins with whether they are plus, from left to right, at most ``bins``."""
    grid = tables.grid
    size = grid + 1
    none = np.full((size, size), -np.inf)
    # By left and right edge: the best up to a bin whose own share is settled once the bin after next is known.
    plus, minus = none.copy(), none.copy()
    opening = np.zeros(size)
    minus[0] = tables.minus[0, :, 0] + tables.before[:size]
    best, chosen = -np.inf, [((0, 0), True)]
    steps: list[tuple[Ints, Ints]] = []

    def consider(value: float, number: int, last: list[tuple[Bin, bool]], at: Bin, is_plus: bool) -> None:
        nonlocal best, chosen
        if value > best:
            best, chosen = float(value), [*_trace(steps, number, at, is_plus), *last]

    consider(tables.minus[0, grid, 0] + tables.before[size], 0, [], (0, grid), False)
    joint = tables.plus[:, :, :size] + np.transpose(tables.minus[:, :, 1:], (2, 0, 1))[:size]
    ordered = np.tril(np.ones((size, size), dtype=bool)).T
    for number in range(bins):
        # A plus bin that is the last, or is followed by a minus bin that is.
        closed = plus + tables.plus[:, :, size]
        if number == 0:
            first = opening + tables.plus[0, :, size]
            consider(first[grid] + tables.after[0], 0, [], (0, grid), True)
            if bins > 1:
                at = int((first + tables.minus[:, grid, 0]).argmax())
                last = [((at, grid), False)]
                consider(first[at] + tables.minus[at, grid, 0], 0, last, (0, at), True)
        else:
            ending = closed[:, grid] + tables.after[1 : size + 1]
            at = int(ending.argmax())
            consider(ending[at], number, [], (at, grid), True)
            if number + 1 < bins:
                ending_minus = closed + tables.minus[:, grid, 1 : size + 1].T
                left, right = np.unravel_index(int(ending_minus.argmax()), ending_minus.shape)
                last = [((int(right), grid), False)]
                consider(ending_minus[left, right], number, last, (int(left), int(right)), True)
        if number + 1 == bins:
            break
        if number == 0:
            to_minus = opening[:, None] + tables.plus[0, :, :size] + tables.minus[:, :, 0]
            from_plus = np.zeros(size * size, dtype=np.int64).reshape(size, size)
        else:
            through = plus[:, :, None] + joint
            from_plus = through.argmax(axis=0)
            to_minus = through.max(axis=0)
        from_minus = minus.argmax(axis=0)
        to_plus = np.where(ordered, minus.max(axis=0)[:, None], -np.inf)
        plus, minus = to_plus, np.where(ordered, to_minus, -np.inf)
        steps.append((from_plus, from_minus))
    return chosen


def _trace(steps: list[tuple[Ints, Ints]], number: int, at: Bin, is_plus: bool) -> list[tuple[Bin, bool]]:
    """Return the bins up to bin ``at``, the ``number``-th from 0."""
    found = [(at, is_plus)]
    for from_plus, from_minus in reversed(steps[:number]):
        left, right = found[0][0]
        # The bin before ends where this one begins.
        start = int(from_minus[left]) if found[0][1] else int(from_plus[left, right])
        found.insert(0, ((start, left), not found[0][1]))
    return found


def _terms(low: Floats, high: Floats, correct: Mask, chosen: list[tuple[Bin, bool]], grid: int) -> Floats:
    """Return what each example adds (n,) at best to errors of the given signs in the given closed bins."""
    best = np.full(len(low), -np.inf)
    for (left, right), is_plus in chosen:
        floor, top = np.maximum(low, left / grid), np.minimum(high, right / grid)
        added = top - correct if is_plus else correct - floor
        best = np.maximum(best, np.where(floor <= top, added, -np.inf))
    return best
