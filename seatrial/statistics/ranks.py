"""Places of several things measured on the same examples, and how sure they are."""

import numpy as np
from scipy.stats import rankdata

from seatrial.statistics.arrays import Floats
from seatrial.statistics.intervals import Interval


def places(values: Floats) -> Floats:
    """Return the places of values in each row, from the lowest, which is 1: (rows, k) to (rows, k).

    Those that tie share the mean of their places; a row with an undefined value has none.

    >>> places(np.array([[0.5, 0.1, 0.5]])).tolist()
    [[2.5, 1.0, 2.5]]
    """
    if not values.size:
        return np.empty(values.shape)
    found: Floats = rankdata(values, axis=1, nan_policy="propagate").astype(np.float64)
    return found


def place_interval(drawn: Floats, *, alpha: float = 0.05) -> Interval | None:
    """Return the percentile interval of a place (1 + resamples,), row 0 the sample's, widened to hold it.

    Guarantee: its ends are places that occurred, and at least 1 - alpha of the resamples lie between them. Approximate
    for what is resampled: places move in steps, and resampling parts what truly ties, so the interval of two equals
    covers both places more often than 1 - alpha asks for.

    Returns:
        None where the place is undefined, or is in half the resamples.

    >>> place_interval(np.array([1.0, 1.0, 1.0, 1.0, 3.0]))
    (1.0, 3.0)
    """
    value, defined = float(drawn[0]), drawn[1:][np.isfinite(drawn[1:])]
    if not np.isfinite(value) or len(defined) * 2 < len(drawn) - 1 or not len(defined):
        return None
    # Outward: nobody can come in at place 3.5125.
    low, high = np.quantile(defined, alpha / 2, method="lower"), np.quantile(defined, 1 - alpha / 2, method="higher")
    return min(float(low), value), max(float(high), value)
