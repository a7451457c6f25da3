"""How far from its estimate a check may end: what earlier checks took says so, and the present one as it runs.

An estimate is of the most passes there may be, at the speed at which the model was checked. Attacks that succeed early
take fewer; a machine that was busy then, or is now, is slower: estimates were seen 6 times too low and 17 times too
high. Earlier checks of the family tell what the ratio is here.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

COVERAGE = 0.8
"""Share of checks that end inside of their range, once enough have ended."""

UNTIMED = (1 / 8, 8.0)
"""Ratios of what checks took to what was estimated where few have ended: what was seen on idle and on busy machines."""

FIRST_BATCHES = 2.0
"""How many times longer, or shorter, what is left may take than the first batches say; less the more is done."""


class Spread(NamedTuple):
    """Between which multiples of an estimate a check is expected to end."""

    low: float
    high: float


def spread_of(ratios: Sequence[float]) -> Spread:
    """Return the range the next ratio falls into at least 80 % of the time, if it is like those before.

    The k-th smallest and the k-th largest of n exchangeable ratios have the next one between them with probability
    (n + 1 - 2 k) / (n + 1) (Vovk, Gammerman and Shafer 2005, section 2.2). Below nine there are no such two: then what
    was seen only widens :data:`UNTIMED`.

    Args:
        ratios: Seconds earlier checks took over those estimated.

    >>> spread_of([]), spread_of([0.5, 0.05]), spread_of([n / 10 for n in range(1, 20)])
    (Spread(low=0.125, high=8.0), Spread(low=0.05, high=8.0), Spread(low=0.2, high=1.8))
    """
    known = sorted(ratio for ratio in ratios if 0 < ratio < math.inf)
    rank = math.floor((len(known) + 1) * (1 - COVERAGE) / 2 + 1e-9)
    if rank < 1:
        return Spread(min(UNTIMED[0], *known, 1.0), max(UNTIMED[1], *known, 1.0))
    return Spread(known[rank - 1], known[-rank])


def range_left(left_s: float, spread: Spread, done: float | None) -> tuple[float, float]:
    """Return between which seconds what is left of a check should take.

    Args:
        left_s: What it should take.
        spread: Of the estimate, which is all there is before the first batches.
        done: Share of its present stage that is done, and whose speed ``left_s`` follows; None before any is.

    >>> range_left(10.0, Spread(0.5, 4.0), None), range_left(10.0, Spread(0.5, 4.0), 0.5)
    ((5.0, 40.0), (7.1, 14.1))
    """
    if done is None:
        return round(left_s * spread.low, 1), round(left_s * spread.high, 1)
    times = FIRST_BATCHES ** (1 - done)
    return round(left_s / times, 1), round(left_s * times, 1)
