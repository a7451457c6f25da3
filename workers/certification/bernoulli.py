"""The probability of a class under noise: exact bounds of it, the radius they certify, and PREDICT.

Everything takes arrays of counts, one entry per example, and returns arrays of the same shape.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr, ndtri

from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.exact import clopper_pearson_lower

ABSTAIN = -1
"""Stands where a class would, when the procedure abstains (Cohen et al. 2019)."""

ULPS = 16
"""Floats looked at on each side of a threshold: SciPy's Phi and Phi^-1 were seen to err by 3 at most."""


@dataclass(frozen=True)
class Certificates:
    """What CERTIFY returns; every array has one entry per example.

    Attributes:
        p_lower: Lower bound of the probability of the class under noise.
        abstained: bool, it is not shown to be at least 1/2.
        radius: l_2 radius within which the class cannot change, in the unit of sigma; 0 where abstained.
    """

    p_lower: Floats
    abstained: Mask
    radius: Floats


def certify(successes: ArrayLike, trials: ArrayLike, *, alpha: float, sigma: float) -> Certificates:
    """Return radii, each right with probability at least 1 - alpha over the draws (Cohen et al. 2019, CERTIFY).

    Right: the smoothed classifier predicts the class at every point closer than the radius. It is not, if the class was
    selected on the same draws it was counted in. The guarantee is each example's own, not all examples' at once.

    Args:
        successes: Draws in which the model predicted the class.
        trials: Draws in all, a number fixed before the first of them.
        alpha: Probability that a radius is wrong, in (0, 1).
        sigma: Standard deviation of the noise.

    Raises:
        ValueError: The numbers do not describe a sample, or sigma is not positive.

    >>> certify([100_000, 99_000, 50_000], 100_000, alpha=0.001, sigma=0.25).radius.round(3).tolist()
    [0.953, 0.572, 0.0]
    """
    p_lower = clopper_pearson_lower(successes, trials, alpha=alpha)
    return Certificates(p_lower, abstains(p_lower), certified_radius(p_lower, sigma))


def predict(counts: ArrayLike, *, alpha: ArrayLike) -> Ints:
    """Return classes (batch,), each the smoothed classifier's or ``ABSTAIN`` with probability at least 1 - alpha.

    The test is of the two classes that came most often, which the draws themselves chose; it is valid nevertheless
    (Cohen et al. 2019, PREDICT and Proposition 1; Hung and Fithian 2019). It abstains where the exact two-sided
    binomial test of their counts at 1/2 has p > alpha, always so where they came equally often.

    Args:
        counts: (batch, classes) how often each class was predicted, at least 2 classes.
        alpha: Probability of a wrong class, in (0, 1); one for all or (batch,).

    Raises:
        ValueError: Counts are negative or of another shape, or alpha is none.

    >>> predict([[60, 30, 10], [52, 0, 48]], alpha=0.01).tolist()
    [0, -1]
    """
    table, level = np.asarray(counts, dtype=np.int64), np.asarray(alpha, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or bool(np.any(table < 0)):
        raise ValueError(f"counts must be (batch, classes >= 2) and not negative, got shape {table.shape}")
    if level.shape not in ((), (len(table),)) or not bool(np.all((level > 0) & (level < 1))):
        raise ValueError(f"alpha must be in (0, 1), one for all or one for each of {len(table)}, got {level}")
    second, first = np.partition(table, -2, axis=1)[:, -2:].T
    # At 1/2 the binomial is symmetric: both tails are the upper one twice; at equal counts they overlap.
    p_value = np.where(first > second, 2 * bdtrc(np.maximum(first - 1, 0), first + second, 0.5), 1.0)
    return np.where(p_value > level, ABSTAIN, table.argmax(axis=1)).astype(np.int64)


def abstains(p_lower: ArrayLike) -> Mask:
    """Return where no class is shown to have a probability of at least 1/2; exactly 1/2 is no abstention.

    >>> abstains([0.49, 0.5]).tolist()
    [True, False]
    """
    return np.asarray(np.asarray(p_lower, dtype=np.float64) < 0.5)


def certified_radius(p_lower: ArrayLike, sigma: float) -> Floats:
    """Return the l_2 radius sigma Phi^-1(p_lower) within which the class cannot change (Cohen et al. 2019, Theorem 1).

    It takes the runner-up's probability to be at most 1 - p_lower. 0 below 1/2, where :func:`abstains` says so, and
    at 1/2, where the class is certified at the image itself and no further.

    Args:
        p_lower: Lower bound of the class's probability under noise, in [0, 1). 1 is refused: no finite number of
            draws shows it, and its radius, infinity, is no number to store.
        sigma: Standard deviation of the noise; the radius has its unit.

    Raises:
        ValueError: A probability is outside [0, 1), or sigma is not positive.

    >>> certified_radius([0.3, 0.5, 0.8413447], 0.25).round(6).tolist()
    [0.0, 0.0, 0.25]
    """
    bounds = np.asarray(p_lower, dtype=np.float64)
    _require_noise(sigma)
    if not bool(np.all((bounds >= 0) & (bounds < 1))):
        raise ValueError(f"lower bounds must be in [0, 1), got {bounds[~((bounds >= 0) & (bounds < 1))].flat[0]}")
    return np.asarray(sigma * ndtri(np.maximum(bounds, 0.5)), dtype=np.float64)


def largest_radius(n: int, *, alpha: float, sigma: float) -> float:
    """Return the radius of n successes in n draws, sigma Phi^-1(alpha^(1/n)): no larger one can be certified.

    0 where even that does not certify, which is with n < log(alpha) / log(1/2).

    Raises:
        ValueError: As for :func:`certify`.

    >>> round(largest_radius(100_000, alpha=0.001, sigma=1.0), 3)
    3.811
    """
    return float(certify(n, n, alpha=alpha, sigma=sigma).radius)


def probability_needed(radii: ArrayLike, sigma: float) -> Floats:
    """Return the smallest p_lower that certifies each radius, Phi(radius / sigma); 1 where no float below 1 does.

    Certified at r means: not abstained, and ``certified_radius(p_lower, sigma) >= r`` in floats. That is the definition
    everywhere; a p_lower of at least the value returned here always meets it, and one that is smaller by more than
    ``ULPS`` floats never does. In between rounding decides: Phi and Phi^-1 are not inverse, nor increasing, to the last
    bit.

    Args:
        radii: l_2 radii, at least 0.
        sigma: Standard deviation of the noise, in the unit of the radii.

    Raises:
        ValueError: A radius is negative or not finite, or sigma is not positive.

    >>> probability_needed([0, 0.25, 0.75, 9], 0.25).round(5).tolist()
    [0.5, 0.84134, 0.99865, 1.0]
    """
    asked = np.asarray(radii, dtype=np.float64)
    _require_noise(sigma)
    if not bool(np.all((asked >= 0) & np.isfinite(asked))):
        raise ValueError(f"radii must be at least 0 and finite, got {asked}")
    spacing = np.spacing(0.5)
    nearby = ndtr(asked / sigma)[..., None] + spacing * np.arange(-ULPS, ULPS + 1)
    nearby = np.clip(nearby, 0.5, 1.0 - spacing)
    falls_short = certified_radius(nearby, sigma) < asked[..., None]
    # One above the last that falls short.
    return np.asarray(np.where(falls_short, nearby + spacing, nearby[..., :1]).max(axis=-1), dtype=np.float64)


def _require_noise(sigma: float) -> None:
    if not 0 < sigma < np.inf:
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
