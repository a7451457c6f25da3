"""Intervals of what compares a model with itself: with and without noise, and under one attacker and another.

Everything is over the same examples, and leaves room for one that was not seen (:mod:`seatrial.statistics.bounded`):
right without noise and wrong in all its decisions under it, or the other way round.
"""

from collections.abc import Sequence

import numpy as np

from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.bounded import chance_above_zero, ratio_interval, typical_size
from seatrial.statistics.estimating import ALPHA
from seatrial.statistics.intervals import Interval


def kept_interval(after: Floats, before: Floats, decisions: Floats) -> Interval | None:
    """Return the interval of right decisions under noise over right ones without, each summed over examples (n,).

    None with fewer than 2 examples, or none right without noise.
    """
    if len(after) < 2:
        return None
    size = typical_size(decisions)
    return ratio_interval(after, before, (0.0, size), (size, 0.0))


def drop_interval(after: Floats, before: Floats, decisions: Floats) -> Interval | None:
    """Return the interval of right decisions lost, over all decisions, each summed over examples (n,)."""
    if len(after) < 2:
        return None
    size = typical_size(decisions)
    return ratio_interval(before - after, decisions, (-size, size), (size, size))


def surely_below(after: Sequence[Floats], decisions: Floats) -> Mask:
    """Return (k, k) whether the first of two attackers surely leaves less than the second, as ranks want it.

    Args:
        after: Right decisions under each of k attackers, summed over examples (n,).
        decisions: (n,).
    """
    size, tail = typical_size(decisions), shared_tail(len(after))
    found = np.zeros((len(after), len(after)), dtype=bool)
    for first, one in enumerate(after):
        for second, other in enumerate(after):
            if first != second:
                found[first, second] = chance_above_zero(np.append(one - other, size)) < tail
    return found


def correlation_interval(
    drawn_x: Floats, drawn_y: Floats, n: int, seed: list[int], *, alpha: float = ALPHA
) -> Interval | None:
    """Return an interval of the correlation of points that are measured themselves, from their resamples.

    Guarantee, up to the resampling's approximations: it misses the truth with probability at most alpha. The
    correlation is the cosine of the angle between the two sets of points, each less its mean, and an error of norm e
    turns a set of norm r by at most arcsin(e / r). A percentile of resampled correlations is always wrong where the
    truth is near 1 or -1: errors only ever bring it nearer to 0. Price: about twice as wide elsewhere.

    Args:
        drawn_x: (1 + resamples, points) means over examples, row 0 the sample's; an example adds at most about 1.
        drawn_y: The same of the other.
        n: Examples.
        seed: Of how much an example that was not seen weighs.
        alpha: Probability of missing the truth.

    Returns:
        None where either set has no spread; from -1 to 1 where an error may exceed it.
    """
    unseen = np.random.default_rng(seed).beta(1, n, len(drawn_x) - 1)
    x, y = (drawn - drawn.mean(axis=1, keepdims=True) for drawn in (drawn_x, drawn_y))
    norms = [float(np.linalg.norm(one[0])) for one in (x, y)]
    if min(norms) <= 0:
        return None
    angle, turned = float(np.arccos(np.clip(x[0] @ y[0] / norms[0] / norms[1], -1.0, 1.0))), 0.0
    for one, norm in zip((x, y), norms, strict=True):
        errors = np.linalg.norm(one[1:] - one[0], axis=1) + unseen
        error = float(np.quantile(errors[np.isfinite(errors)], 1 - alpha / 2)) / norm
        if error >= 1:
            return -1.0, 1.0
        turned += float(np.arcsin(error))
    return float(np.cos(min(np.pi, angle + turned))), float(np.cos(max(0.0, angle - turned)))


def shared_tail(attackers: int) -> float:
    """Return the probability with which one of the comparisons behind an end of a rank may be wrong."""
    return ALPHA / 2 / max(1, attackers - 1)
