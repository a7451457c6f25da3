"""Two answers to the same examples: is one right more often than the other, and by how much.

Only examples on which the two differ tell them apart: on ``b`` of them the first alone is right, on ``c`` the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.exact import mcnemar
from seatrial.statistics.intervals import Interval
from seatrial.statistics.proportions import score_end


def discordant(first: ArrayLike, second: ArrayLike) -> tuple[int, int, int]:
    """Return b, c and n of two vectors of successes on the same examples.

    Raises:
        ValueError: The two are not vectors of one length.

    >>> discordant([True, True, False], [True, False, False])
    (1, 0, 3)
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"paired successes must be two vectors of one length: {a.shape}, {b.shape}")
    return int(np.sum(a & ~b)), int(np.sum(~a & b)), len(a)


@dataclass(frozen=True)
class Gap:
    """How far a reference lies above the lowest of several others, on the same examples.

    Attributes:
        lowest: Which of the others is lowest in the sample; the first of those that tie.
        value: The reference's rate less that one's; negative where the reference is lowest.
        interval: At 95 %, of the true difference to the truly lowest.
        p: McNemar's exact two-sided p against ``lowest``; not corrected for having chosen it.
        reference_only: Examples the reference alone gets right.
        lowest_only: Examples the lowest alone gets right.
    """

    lowest: int
    value: float
    interval: Interval
    p: float
    reference_only: int
    lowest_only: int


def gap_to_lowest(reference: ArrayLike, others: Sequence[ArrayLike], *, alpha: float = 0.05) -> Gap | None:
    """Return the gap between a reference and the lowest of several others, with an interval that knows of the choice.

    Guarantee: each end is wrong with probability at most alpha / 2, as far as
    :func:`~seatrial.statistics.proportions.score_interval` holds, however
    many of the others tie. The quantity is the largest of the differences d_k. Lower end: the largest of the lower ends
    at alpha / 2K each, since it can exceed the largest d_k only if one of the K exceeds its own d_k (Bonferroni). Upper
    end: the largest of the upper ends at alpha / 2 each, since it is at least that of the largest d_k; no correction is
    due. The lowest one's own interval would be wrong below (it was chosen for being low), and a bootstrap that chooses
    again in each resample is centred above the sample, which is above the truth already, wherever others tie.

    Args:
        reference: (n,) successes.
        others: K vectors (n,) of successes.
        alpha: Probability of missing the truth.

    Returns:
        None without examples or without others.
    """
    pairs = [discordant(reference, other) for other in others]
    if not pairs or pairs[0][2] == 0:
        return None
    differences = [b - c for b, c, _ in pairs]
    # Python's index finds the first of those that tie.
    lowest = differences.index(max(differences))
    low = max(score_end(*pair, -1, alpha / 2 / len(pairs)) for pair in pairs)
    high = max(score_end(*pair, 1, alpha / 2) for pair in pairs)
    b, c, n = pairs[lowest]
    return Gap(lowest, (b - c) / n, (low, high), mcnemar(b, c), b, c)
