"""What rounding excuses in probabilities that somebody wrote down: of a file, or of an endpoint's answer."""

from collections.abc import Sequence

SUM_TOLERANCE = 1e-3
"""Probabilities may miss a sum of 1 by this, and by half a unit in the last digit for each class where they were
rounded: four classes at three digits by 0.002."""
FEWEST_DIGITS, MOST_DIGITS = 1, 6
"""Digits to which probabilities are taken to have been rounded."""
RANGE_TOLERANCE = 1e-6
"""And each may miss [0, 1] by this, as a float32 softmax does."""


def is_in_range(row: Sequence[float]) -> bool:
    """Return whether numbers may be probabilities.

    >>> is_in_range([1.0000001, 0.0]), is_in_range([1.01, -0.01])
    (True, False)
    """
    return all(-RANGE_TOLERANCE <= value <= 1 + RANGE_TOLERANCE for value in row)


def sum_tolerance(row: Sequence[float]) -> float:
    """Return by how much probabilities may miss a sum of 1, judged by their number and digits.

    >>> sum_tolerance([0.333, 0.333, 0.332]), sum_tolerance([0.25] * 4), sum_tolerance([0.2] * 4)
    (0.001500001, 0.020000001, 0.200000001)
    """
    for digits in range(FEWEST_DIGITS, MOST_DIGITS + 1):
        if all(abs(value * 10**digits - round(value * 10**digits)) < 1e-6 for value in row):
            # Sums of what was rounded hold the error of their own last bits.
            return max(SUM_TOLERANCE, min(0.5, 0.5 * len(row) * 10.0**-digits + 1e-9))
    return SUM_TOLERANCE
