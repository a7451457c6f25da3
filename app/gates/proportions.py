"""The interval of a difference of paired proportions."""

import math

from app.gates.evidence import Range, Z

CORRECTION = 1.0
"""Discordant pairs by which a difference of proportions must be further off than the normal distribution asks."""

_HALVINGS = 60


def score_interval(b: float, c: float, n: int) -> Range:
    """Return a 95 % interval of a difference of paired proportions, (b - c) / n.

    Tango's score interval (1998, eq. 4 to 7), McNemar's test inverted, with that test's continuity correction (Edwards
    1948): each end is wrong with probability at most 2.5 %, also for few discordant pairs and for none. It is the
    interval workers publish gaps with (:func:`seatrial.statistics.paired.score_interval`), which says why that one.

    Args:
        b: Examples on which the first alone has it.
        c: Examples on which the second alone has it.
        n: Examples in all, at least 1.

    >>> [round(end, 3) for end in score_interval(9, 1, 20)]
    [0.046, 0.672]
    """
    return _end(b, c, n, -1), _end(b, c, n, 1)


def _end(b: float, c: float, n: int, side: int) -> float:
    """Return the end on one side: where the score statistic is as far as the level says, by bisection."""

    def is_beyond(difference: float) -> bool:
        first = (2 * n - b + c) * difference - b - c
        second = -c * difference * (1 - difference)
        # Of those that leave the difference as given, the likeliest rate of the second alone (eq. 5).
        rate = (math.sqrt(max(first**2 - 8 * n * second, 0.0)) - first) / (4 * n)
        spread = math.sqrt(max(n * (2 * rate + difference * (1 - difference)), 0.0))
        return side * (n * difference - (b - c)) - CORRECTION > Z * spread

    inside, outside = (b - c) / n, float(side)
    if not is_beyond(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if is_beyond(middle) else (middle, outside)
    return outside
