"""Agreement of two raters beyond chance."""

from dataclasses import dataclass

import numpy as np

from seatrial.statistics.arrays import Ints

NINETY_FIVE = 1.959963984540054


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa with its 95 % interval.

    Attributes:
        value: In [-1, 1]; 0 is what chance would have with the same shares of each class.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float


def cohens_kappa(first: Ints, second: Ints) -> Kappa | None:
    """Return the agreement beyond chance of two decisions about each of n examples, with jackknife standard errors.

    Args:
        first: (n,) classes.
        second: (n,) classes.

    Returns:
        None where it is not defined: fewer than three examples, or both always decide for one and the same class.

    Source: J. Cohen, "A Coefficient of Agreement for Nominal Scales" (1960); the standard error is Tukey's (1958).
    """
    count = len(first)
    value = _kappa(first, second) if count >= 3 else None
    if value is None:
        return None
    left_out = [_kappa(np.delete(first, row), np.delete(second, row)) for row in range(count)]
    known = np.array([value if one is None else one for one in left_out])
    error = float(np.sqrt((count - 1) / count * ((known - known.mean()) ** 2).sum()))
    return Kappa(value, value - NINETY_FIVE * error, value + NINETY_FIVE * error)


def _kappa(first: Ints, second: Ints) -> float | None:
    classes = np.union1d(first, second)
    by_chance = float(sum((first == one).mean() * (second == one).mean() for one in classes))
    return None if by_chance >= 1 else (float((first == second).mean()) - by_chance) / (1 - by_chance)
