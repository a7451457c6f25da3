"""Ranks of several things measured on the same examples, and how sure they are."""

import numpy as np

from seatrial.statistics.arrays import Floats
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


def rank_interval(drawn: Floats, *, alpha: float = 0.05) -> Interval | None:
    """Return the percentile interval of a rank (1 + resamples,), row 0 the sample's, widened to hold it.

    Guarantee: its ends are ranks that occurred, and at least 1 - alpha of the resamples lie between them. Approximate
    for what is resampled: ranks move in steps, and resampling parts what truly ties, so the interval of two equals
    covers both ranks more often than 1 - alpha asks for.

    Returns:
        None where the rank is undefined, or is in half the resamples.

    >>> rank_interval(np.array([1.0, 1.0, 1.0, 1.0, 3.0]))
    (1.0, 3.0)
    """
    value, defined = float(drawn[0]), drawn[1:][np.isfinite(drawn[1:])]
    if not np.isfinite(value) or len(defined) * 2 < len(drawn) - 1 or not len(defined):
        return None
    # Outward: no rank is 3.5125.
    low, high = np.quantile(defined, alpha / 2, method="lower"), np.quantile(defined, 1 - alpha / 2, method="higher")
    return min(float(low), value), max(float(high), value)
