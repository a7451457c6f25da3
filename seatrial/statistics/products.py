"""A product of two shares, one of those that are left of the other."""

import math
from typing import NamedTuple

from seatrial.statistics.intervals import Interval


class Phases(NamedTuple):
    """What came of two phases.

    Attributes:
        standing: Examples that passed the first.
        n: Examples in it.
        held: Those that passed the second.
        attacked: Examples in it, of those standing.
    """

    standing: int
    n: int
    held: int
    attacked: int


def product_interval(p: float, of_p: Interval, q: float, of_q: Interval) -> Interval:
    """Return the interval of p q from those of two independent estimates (MOVER: Donner and Zou, 2012, eq. 7).

    >>> [round(end, 4) for end in product_interval(0.5, (0.49, 0.51), 0.9, (0.87, 0.92))]
    [0.4325, 0.4635]
    """
    below, above = (p - of_p[0], q - of_q[0]), (of_p[1] - p, of_q[1] - q)
    low = math.hypot(p * below[1], q * below[0])
    low = math.sqrt(max(0.0, low**2 - (below[0] * below[1]) ** 2))
    high = math.sqrt((p * above[1]) ** 2 + (q * above[0]) ** 2 + (above[0] * above[1]) ** 2)
    return max(0.0, p * q - low), min(1.0, p * q + high)
