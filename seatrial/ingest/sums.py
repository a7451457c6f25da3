"""What rounding excuses in probabilities that somebody wrote down: of a file, or of an endpoint's answer."""

import math
from collections.abc import Sequence

SUM_TOLERANCE = 1e-3
"""Probabilities may miss a sum of 1 by this, and by half a unit in the last digit for each class where they were
rounded: four classes at three digits by 0.002."""
FEWEST_DIGITS, MOST_DIGITS = 1, 6
"""Digits to which probabilities are taken to have been rounded."""
SLACK = 1e-9
"""What sums of rounded numbers miss by the error of their own last bits."""
RANGE_TOLERANCE = 1e-6
"""And each may miss [0, 1] by this, as a float32 softmax does."""


def is_in_range(row: Sequence[float]) -> bool:
    """Return whether numbers may be probabilities.

    >>> is_in_range([1.0000001, 0.0]), is_in_range([1.01, -0.01])
    (True, False)
    """
    return all(-RANGE_TOLERANCE <= value <= 1 + RANGE_TOLERANCE for value in row)


def may_sum_to_one(row: Sequence[float]) -> bool:
    """Return whether probabilities miss a sum of 1 by no more than rounding excuses, by their number and digits.

    Half a unit for each, whichever way they were rounded. Of one digit that is much: there some distribution has to
    round to the row, of which no 0 was rounded up, and not one alone, all of whose numbers lie between two digits.

    >>> may_sum_to_one([0.333, 0.333, 0.333]), may_sum_to_one([0.25, 0.25, 0.25, 0.28])
    (True, False)
    >>> may_sum_to_one([0.3, 0.3, 0.3]), may_sum_to_one([0.6, 0.5]), may_sum_to_one([1.0, 0.5, *[0.0] * 8])
    (True, False, False)
    """
    total = math.fsum(row)
    if abs(total - 1) <= SUM_TOLERANCE:
        return True
    for digits in range(FEWEST_DIGITS, MOST_DIGITS + 1):
        if all(abs(value * 10**digits - round(value * 10**digits)) < 1e-6 for value in row):
            half = 0.5 * 10.0**-digits
            if digits > 1:
                return abs(total - 1) <= min(0.5, half * len(row)) + SLACK
            least, most = math.fsum(max(value - half, 0.0) for value in row), math.fsum(value + half for value in row)
            return least + SLACK < 1 < most - SLACK
    return False
