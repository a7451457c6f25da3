"""Ranks of several things measured on the same examples, and how sure they are."""

import numpy as np

from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.intervals import Interval


def ranks(values: Floats) -> Floats:
    """Return the ranks of values in each row, from the lowest, which is 1: (rows, k) to (rows, k).

    Those that tie share the mean of their ranks; a row with an undefined value has none.

    >>> ranks(np.array([[0.5, 0.1, 0.5]])).tolist()
    [[2.5, 1.0, 2.5]]
    """
    if not values.size:
        return np.empty(values.shape)
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    at, last = np.arange(values.shape[1]), values.shape[1] - 1
    is_new = ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((len(values), 1), dtype=bool)
    # Of those that tie, where the first and the last stand.
    first = np.maximum.accumulate(np.where(np.hstack([edge, is_new]), at, 0), axis=1)
    final = np.minimum.accumulate(np.where(np.hstack([is_new, edge]), at, last)[:, ::-1], axis=1)[:, ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (first + final) / 2 + 1, axis=1)
    return np.where(np.isnan(values).any(axis=1, keepdims=True), np.nan, found)


def rank_interval(place: int, is_below: Mask) -> Interval:
    """Return the interval of a rank from comparisons of every two.

    Guarantee: where each comparison with one of the others is wrong with probability at most alpha / 2 / (k - 1), each
    end is wrong with probability at most alpha / 2 (Bonferroni); of those that truly tie the shared place is in it.

    Args:
        place: Whose rank, from 0.
        is_below: (k, k) whether the first is surely below the second.

    >>> rank_interval(0, np.array([[False, True, False], [False, False, False], [False, False, False]]))
    (1.0, 2.0)
    """
    return 1.0 + int(is_below[:, place].sum()), float(len(is_below) - int(is_below[place].sum()))
