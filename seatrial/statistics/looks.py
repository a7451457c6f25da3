"""When an audit that stops as soon as it is decided is looked at, and what of the error rate each look may spend.

Group-sequential testing by an alpha-spending of fixed shares (Pocock 1977; Lan and DeMets 1983). Guarantee: where each
look's interval misses with probability at most its share, any of them misses with at most their sum, whatever makes the
looks end. Half is kept for the last look, so that a model near its bound loses little by having been looked at.
"""

import math
from typing import Any

from seatrial.contracts.stopping import Stopping

FIRST = (30, 60, 125, 250, 500, 1000)
"""Examples at the looks, which double from then on."""

LAST_SHARE = 0.5
"""Of the error rate, kept for the last look."""

NEAREST = 0.75
"""Share of all examples from which on a look would save too little to be worth its part of the error rate."""


def look_sizes(examples: int, grain: int = 1) -> list[int]:
    """Return the examples at each look, ended by all of them.

    Args:
        examples: That are audited at most, at least 1.
        grain: Examples that are computed together: every look but the last ends with whole ones, so that what was
            measured by then is, to the bit, what a whole run begins with.

    >>> look_sizes(1000), look_sizes(500, grain=64), look_sizes(20)
    ([30, 60, 125, 250, 500, 1000], [64, 128, 256, 500], [20])
    """
    if examples < 1 or grain < 1:
        raise ValueError(f"not something to look at: {examples=}, {grain=}")
    sizes: list[int] = []
    size = FIRST[0]
    while (reached := math.ceil(size / grain) * grain) <= NEAREST * examples:
        sizes.append(reached)
        size = next((one for one in FIRST if one > size), 2 * size)
    return [*dict.fromkeys(sizes), examples]


def planned_sizes(stopping: Stopping, params: Any, examples: int, batch_size: int) -> list[int]:
    """Return the examples at each look of a check that may stop; all of them alone where it is measured as a whole.

    Args:
        stopping: Of its family.
        params: Its parameters.
        examples: That are audited at most, at least 1.
        batch_size: Of the audit.
    """
    return [examples] if stopping.whole(params) else look_sizes(examples, stopping.grain or batch_size)


def spending(looks: int, *, alpha: float = 0.05) -> list[float]:
    """Return what of an error rate each of some looks may spend; they add up to it.

    >>> [round(one, 4) for one in spending(6)], spending(1)
    ([0.005, 0.005, 0.005, 0.005, 0.005, 0.025], [0.05])
    """
    if looks < 1:
        raise ValueError(f"there is at least one look, got {looks=}")
    if looks == 1:
        return [alpha]
    return [alpha * (1 - LAST_SHARE) / (looks - 1)] * (looks - 1) + [alpha * LAST_SHARE]
