"""Probability vectors within a box: how even and how uneven they can be.

P = {p: lower <= p <= upper, sum p = 1} is where the mean scores of a smoothed model can be once each is certified to
stay in an interval. Uncertainties that are concave and symmetric (entropy, Gini, 1 - max) are Schur-concave, and both
their ends are decided by majorization (Marshall, Olkin, Arnold, Inequalities, ch. 3):

- **largest**: p = clip(nu, lower, upper), nu such that it sums to 1, is majorized by every other element of P: for all
  t, sum (q - t)_+ >= sum (p - t)_+, by comparing t with nu. It is the largest of all of them at once.
- **smallest**, where upper ends are ordered as lower ones: filling from the largest box down majorizes every other
  element, since the j largest of any q sum to at most min(sum_(i<=j) upper_i, 1 - sum_(i>j) lower_i).
- **smallest**, otherwise: a separable concave function has its minimum at a vertex, all but one coordinate at a bound.
  Its chords on the box give a lower bound by filling in the order of their slopes (a fractional knapsack), which is
  the truth but for the one coordinate that is not at a bound; branching there closes the gap.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Mask

Term = Callable[[Floats], Floats]
"""What each coordinate (..., k) adds to a separable concave function."""

TOLERANCE = 1e-11
"""Sums of bounds this near to 1 count as 1, and minima this near to each other as one."""

NODES = 500
"""Boxes a search for a minimum looks into at most; a dozen are enough for ten classes."""


@dataclass(frozen=True)
class SimplexBox:
    """Boxes around probability vectors, no wider than the simplex allows.

    Attributes:
        lower: (n, k) lower ends.
        upper: (n, k) upper ends.
        rest: Classes the last column is the sum of; 1 where it is a class like the others.
    """

    lower: Floats
    upper: Floats
    rest: int = 1

    @classmethod
    def read(cls, lower: ArrayLike, upper: ArrayLike, rest: int = 1) -> Self:
        """Return the boxes, tightened: each end by what the ends of the others leave.

        A box without a probability vector shows that a bound in it is wrong. Nothing is then claimed: it becomes
        [0, 1] in every column.

        Raises:
            ValueError: Not two matrices of one shape with 0 <= lower <= upper <= 1, or ``rest`` is below 1.

        >>> box = SimplexBox.read([[0.7, 0.0, 0.0]], [[0.9, 0.5, 0.1]])
        >>> box.upper.round(9).tolist(), box.lower.round(9).tolist()
        ([[0.9, 0.3, 0.1]], [[0.7, 0.0, 0.0]])
        """
        low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if low.ndim != 2 or low.shape != high.shape or low.shape[1] < 1 or rest < 1:
            raise ValueError(f"lower and upper must be (n, k) and rest at least 1: {low.shape}, {high.shape}, {rest=}")
        if not bool(np.all((low >= 0) & (low <= high) & (high <= 1))):
            raise ValueError("every box must have 0 <= lower <= upper <= 1")
        least, most = low.sum(1, keepdims=True), high.sum(1, keepdims=True)
        is_empty = (least > 1 + TOLERANCE) | (most < 1 - TOLERANCE)
        # Rounding may put one end a hair beyond the other where they meet.
        tight_low = np.clip(1 - (most - high), low, high)
        tight_high = np.clip(1 - (least - low), tight_low, high)
        return cls(np.where(is_empty, 0.0, tight_low), np.where(is_empty, 1.0, tight_high), rest)

    @property
    def copies(self) -> Floats:
        """How many classes each column (k,) stands for."""
        found = np.ones(self.lower.shape[1])
        found[-1] = self.rest
        return found


def most_even(box: SimplexBox) -> Floats:
    """Return the probability vectors (n, k) that every other one in the boxes majorizes; O(k log k) each.

    Every Schur-concave function has its maximum there. A last column that stands for several classes is returned as
    the probability of each of them: they are most even where they are equal.

    >>> most_even(SimplexBox.read([[0.5, 0.0, 0.0]], [[0.9, 0.1, 1.0]])).round(9).tolist()
    [[0.5, 0.1, 0.4]]
    """
    lower, upper = box.lower / box.copies, box.upper / box.copies
    n, k = lower.shape
    points = np.concatenate([lower, upper], axis=1)
    order = np.argsort(points, axis=1, kind="stable")
    points = np.take_along_axis(points, order, axis=1)
    bends = np.broadcast_to(np.concatenate([box.copies, -box.copies]), (n, 2 * k))
    slopes = np.cumsum(np.take_along_axis(bends, order, axis=1), axis=1)
    # The sum of clip(level, lower, upper) at each breakpoint: linear in between.
    sums = (lower * box.copies).sum(1, keepdims=True) + np.concatenate(
        [np.zeros((n, 1)), np.cumsum(slopes[:, :-1] * np.diff(points, axis=1), axis=1)], axis=1
    )
    row = np.arange(n)
    at = np.clip((sums < 1).sum(1), 1, 2 * k - 1)
    before, after = sums[row, at - 1], sums[row, at]
    share = np.clip((1 - before) / np.where(after > before, after - before, 1), 0, 1)
    level = points[row, at - 1] + (points[row, at] - points[row, at - 1]) * share
    found: Floats = np.clip(level[:, None], lower, upper)
    return found


def is_ordered_alike(box: SimplexBox) -> Mask:
    """Return (n,) whether some order of the columns sorts lower and upper ends at once."""
    order = np.lexsort((box.upper, box.lower), axis=1)
    alike: Mask = np.all(np.diff(np.take_along_axis(box.upper, order, axis=1), axis=1) >= 0, axis=1)
    return alike


def most_uneven(box: SimplexBox) -> Floats:
    """Return vectors (n, k), largest first, that majorize every one in the boxes: filled from the largest box down.

    In a box itself where :func:`is_ordered_alike`; otherwise lower and upper ends are sorted each by themselves, and
    a Schur-concave function is smaller there than anywhere in the box, not its minimum. A last column that stands for
    several classes counts as one: their probability is least even where one of them has it all.

    >>> most_uneven(SimplexBox.read([[0.2, 0.1, 0.0]], [[0.6, 0.5, 0.4]])).round(9).tolist()
    [[0.6, 0.4, 0.0]]
    """
    lower, upper = -np.sort(-box.lower, axis=1), -np.sort(-box.upper, axis=1)
    room = upper - lower
    free = 1 - lower.sum(1, keepdims=True)
    before = np.cumsum(room, axis=1) - room
    filled: Floats = lower + np.clip(free - before, 0, room)
    return filled


@dataclass(frozen=True)
class Minimum:
    """The minimum of a function in every box.

    Attributes:
        value: (n,) no more than the function anywhere in the box.
        is_exact: (n,) whether it is reached there.
    """

    value: Floats
    is_exact: Mask


def smallest(box: SimplexBox, term: Callable[[int], Term], nodes: int = NODES) -> Minimum:
    """Return the minimum of a separable concave function over the probability vectors of every box.

    Guarantee: never above the minimum by more than rounding, stopped early or not; ``is_exact`` where it is the
    minimum.

    Args:
        box: The boxes; the function is of their columns, however many classes the last one stands for.
        term: The number of a box to what each coordinate (..., k) adds there, concave in each.
        nodes: Boxes to look into at most, for each.

    >>> box = SimplexBox.read([[0.2, 0.2]], [[0.9, 0.8]])
    >>> smallest(box, lambda row: lambda p: p * (1 - p)).value.round(9).tolist()
    [0.32]
    """
    values, exact = np.empty(len(box.lower)), np.empty(len(box.lower), dtype=bool)
    for row, (lower, upper) in enumerate(zip(box.lower, box.upper, strict=True)):
        values[row], exact[row] = _branch(lower, upper, term(row), nodes)
    return Minimum(values, exact)


def _branch(lower: Floats, upper: Floats, term: Term, nodes: int) -> tuple[float, bool]:
    """Return a lower bound of the minimum in one box, and whether it is the minimum."""
    bound, point, gaps = _chord(lower, upper, term)
    best = float(term(point).sum())
    number = count()
    waiting = [(bound, next(number), lower, upper, point, gaps)]
    left = best
    for _ in range(nodes):
        if not waiting or waiting[0][0] >= best - TOLERANCE:
            break
        _, _, lower, upper, point, gaps = heapq.heappop(waiting)
        widest = int(gaps.argmax())
        for side in (0, 1):
            low, high = lower.copy(), upper.copy()
            (high if side == 0 else low)[widest] = point[widest]
            if low.sum() > 1 + TOLERANCE or high.sum() < 1 - TOLERANCE:
                continue
            parts = SimplexBox.read(low[None], high[None])
            found, at, inner = _chord(parts.lower[0], parts.upper[0], term)
            best = min(best, float(term(at).sum()))
            if found < best - TOLERANCE:
                heapq.heappush(waiting, (found, next(number), parts.lower[0], parts.upper[0], at, inner))
            else:
                left = min(left, found)
    is_exact = not waiting or waiting[0][0] >= best - TOLERANCE
    return min([best, left, *(one[0] for one in waiting[:1])]), is_exact


def _chord(lower: Floats, upper: Floats, term: Term) -> tuple[float, Floats, Floats]:
    """Return the minimum of the chords on a box, where it is (k,), and by how much they are below there (k,)."""
    width = upper - lower
    floor, top = term(lower), term(upper)
    is_wide = width > 0
    slope = np.where(is_wide, (top - floor) / np.where(is_wide, width, 1), 0)
    order = np.argsort(slope, kind="stable")
    room = width[order]
    filled = np.clip(1 - lower.sum() - (np.cumsum(room) - room), 0, room)
    point = lower.copy()
    point[order] += filled
    line = floor + slope * (point - lower)
    return float(line.sum()), point, term(point) - line
