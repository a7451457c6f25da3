"""Standard deviations over examples."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from seatrial.statistics.intervals import Interval, exponentials, resample, unseen_interval


def deviation(values: ArrayLike) -> float | None:
    """Return the standard deviation (n - 1) of values (n,); None for fewer than 2.

    >>> deviation([1.0, 3.0]), deviation([1.0])
    (1.4142135623730951, None)
    """
    found = np.asarray(values, dtype=np.float64)
    return float(found.std(ddof=1)) if len(found) > 1 else None


def deviation_interval(
    values: ArrayLike, lowest: float, highest: float, *, seed: int | Sequence[int], alpha: float = 0.05
) -> Interval | None:
    """Return an interval of a standard deviation; None for fewer than 2 values.

    With random weights that leave room for an example not seen
    (:func:`~seatrial.statistics.intervals.unseen_interval`): at the end of the range that is farther from the mean for
    the upper end, and for the lower one at the mean, where it makes the others count less.

    Args:
        values: (n,).
        lowest: Least value an example can have.
        highest: Largest.
        seed: The same seed gives the same interval.
        alpha: Probability of missing the truth.
    """
    seen, value = np.asarray(values, dtype=np.float64), deviation(values)
    if value is None:
        return None
    n, mean = len(seen), float(seen.mean())
    least, most = min(lowest, float(seen.min())), max(highest, float(seen.max()))
    far = most if most - mean >= mean - least else least
    # Centred on the mean, so that squares lose no digits.
    ends = seen - mean, np.array([0.0, far - mean])

    def deviations(weights: Floats) -> Floats:
        examples, unseen = weights[:, :n], weights[:, n:]
        total = weights.sum(axis=1, keepdims=True)
        first = (examples @ ends[0])[:, None] + unseen * ends[1]
        second = (examples @ ends[0] ** 2)[:, None] + unseen * ends[1] ** 2
        found: Floats = np.sqrt(np.maximum(second / total - (first / total) ** 2, 0.0) * n / (n - 1))
        return found

    drawn = resample(deviations, [n + 1], seed=seed, draw=exponentials)
    low, high = unseen_interval(value, drawn[:, 0], drawn[:, 1], alpha=alpha)
    # No values in the range are farther apart than half of them at either end.
    return low, max(value, min(high, (most - least) / 2 * float(np.sqrt(n / (n - 1)))))
