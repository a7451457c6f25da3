"""What a smoothed classifier's confidence can become within a radius (Kumar et al. 2020).

The score X in [0, 1] of a class is a function of a noisy image; n draws of it are seen, and the confidence is E X. A
perturbation of l_2 norm r takes an event of probability p to one between Phi(Phi^-1(p) - r / sigma) and
Phi(Phi^-1(p) + r / sigma) (Neyman-Pearson; Cohen et al. 2019, Lemma 4). Both grow with p. Applied to {X > t} for each
t, they bound the confidence, which is the integral of P(X > t) over t in [0, 1]. So a certificate needs a band around
t -> P(X > t), of which there are two, or a bound of the mean:

- **dkw**: the share of draws above t is off by at most eps = :func:`slack`, for all t at once (Massart 1990). As
  published: :func:`dkw_bounds`. Integrated over t it says that the mean is off by at most eps: :func:`standard_bounds`,
  which holds on the same event and is never tighter.
- **cdf**: that band at alpha / 2, cut with one that is exact in the tails, where it matters
  (:mod:`workers.certification.band`), at alpha / 2: :func:`cdf_bounds`. Where scores are saturated a tenth of the draws
  gives less width than dkw does with all; at worst (half of the scores 0, half 1) it is 4.5 % wider at radius 0.

Each holds at all radii at once, at one alpha. All may be widened by how far the law of the draws is from that of the
noise (:func:`workers.certification.grid.law_distance`).

**From a histogram.** Cell j of a score is ``min(floor(score * LEVELS), LEVELS - 1)``: it holds [j, j + 1) / LEVELS, the
last one 1 too. The bounds take the lower bound of the scores moved down to where their cell starts, and the
upper one of the scores moved up to where it ends. This is

- sound: moving scores down lowers the share above every t, and with it the lower bound; likewise above;
- as tight as counts allow: scores may have been where a cell starts, or as near to its end as one likes;
- within 1 / LEVELS of what all order statistics give: the share above t after the move is no less than that above
  t + 1 / LEVELS before, so that the integral loses at most an interval of that length, on which it is at most 1.

Every share is a true count over n. The published code keeps each gap-th order statistic and takes the i-th of m kept
for exceeded by (m - i) / m of the draws. That overstates (n - i gap) / n unless gap divides n: no lower bound then.

The scores are what the model returns. Their distance to the real softmax, about 1e-7 in float32, is far below
1 / LEVELS, and is no part of the certificate.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from seatrial.statistics.arrays import Floats, Integers, Ints
from workers.certification.band import Shares, tail_exact

Bounds = tuple[Floats, Floats]

LEVELS = 2**14
"""Cells of a histogram of scores. A power of two: ``score * LEVELS`` is exact in float16, float32 and float64."""

ROUNDING = 1e-9
"""Every interval is wider by this on both sides, which covers float64's rounding.

The slope of Phi(Phi^-1(p) - shift) is at most exp(z^2 / 2) at z = Phi^-1(p) > 0, and 1 - p at most exp(-z^2 / 2) / 2:
an error of a probability that is at least d below 1 is multiplied by at most 1 / (2 d). With 100,000 draws no bound of
a share is nearer to 1 than 1e-4, and there is room for 2e-13 of error; with ten million, 1e-6 and 2e-15.
"""


def slack(draws: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return eps, by which a mean or a distribution function of draws in [0, 1] may be off: sqrt(ln(2 / alpha) / 2n).

    Guarantee: with probability at least 1 - alpha over ``draws`` independent draws, no value of their distribution
    function is off by more than eps (Massart 1990), and then neither is their mean. Two-sided, unlike the published
    code, which bounds from below only and takes ln(1 / alpha).

    Args:
        draws: Draws, at least 1; any shape.
        alpha: Probability of missing, in (0, 1); broadcast against ``draws``.

    Raises:
        ValueError: Out of range.

    >>> round(float(slack(100_000, 0.001)), 6)
    0.006165
    """
    taken, missed = np.asarray(draws, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    if not (np.all(taken >= 1) and np.all((missed > 0) & (missed < 1))):
        raise ValueError(f"draws must be at least 1 and alpha in (0, 1): {draws=}, {alpha=}")
    eps: Floats = np.sqrt(np.log(2 / missed) / (2 * taken))
    return eps


def standard_bounds(mean: Floats, eps: Floats, shifts: Floats) -> Bounds:
    """Return between what the confidence stays within each radius, from the mean score (Emde et al., eq. 12).

    Guarantee: where the mean of the draws is within ``eps`` of the confidence, every image no further away than
    shift * sigma has a confidence in [lower, upper]. At a larger shift the interval contains that at a smaller one.
    Holds together with :func:`dkw_bounds`, which is tighter.

    Args:
        mean: (batch,) mean scores of a class fixed beforehand, in [0, 1], computed in float64; NaN where there is none,
            of which nothing is certified: [0, 1].
        eps: (batch,) from :func:`slack`.
        shifts: (k,) radii over sigma.

    Returns:
        lower (batch, k) and upper (batch, k), in [0, 1].

    Raises:
        ValueError: Shapes or values are not as said.

    >>> lower, upper = standard_bounds(np.array([0.9]), np.array([0.01]), np.array([0.0, 0.5]))
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([[0.89, 0.766]], [[0.91, 0.967]])
    """
    means = np.asarray(mean, dtype=np.float64)
    if means.ndim != 1 or np.any((means < 0) | (means > 1)):
        raise ValueError(f"means must be a vector of numbers in [0, 1], got {means}")
    radii, off = _checked_shifts(shifts), _checked_eps(eps, len(means))
    # Of NaN and a number, fmax and fmin take the number.
    lowest = ndtri(np.fmax(means - off, 0))[:, None]
    highest = ndtri(np.fmin(means + off, 1))[:, None]
    return _widened(ndtr(lowest - radii), ndtr(highest + radii), radii)


def cdf_bounds(histogram: Integers, alpha: ArrayLike, shifts: Floats, *, distance: float = 0.0) -> Bounds:
    """Return between what the confidence stays within each radius, by a band that is narrow in the tails.

    Guarantee: with probability at least 1 - alpha over the draws, every image no further away than shift * sigma has a
    confidence in [lower, upper], at all radii at once. At a larger shift the interval contains that at a smaller one.

    Args:
        histogram: (batch, LEVELS) counts of scores of a class fixed beforehand; where there are none, nothing is
            certified: [0, 1].
        alpha: (batch,) probability of missing, in (0, 1), or one for all; half of it for each band.
        shifts: (k,) radii over sigma.
        distance: Of the law of the draws from that of the noise, in total variation.

    Returns:
        lower (batch, k) and upper (batch, k), in [0, 1].

    Raises:
        ValueError: Shapes or values are not as said.

    >>> histogram = np.zeros((1, LEVELS), dtype=np.int64)
    >>> histogram[0, [LEVELS // 2, LEVELS - 1]] = 100, 900
    >>> lower, upper = cdf_bounds(histogram, 0.001, np.array([0.0, 0.5]))
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([[0.916, 0.828]], [[0.974, 0.992]])
    """
    counts = _checked_counts(histogram)
    missed = np.asarray(alpha, dtype=np.float64)
    if missed.shape not in ((), (len(counts),)) or not np.all((missed > 0) & (missed < 1)):
        raise ValueError(f"alpha must be in (0, 1), one for all or one for each of {len(counts)}, got {missed}")
    each = np.broadcast_to(missed, (len(counts),))

    def shares(row: int, above: Integers, draws: int) -> Shares:
        half = float(each[row]) / 2
        least, most = tail_exact(above, draws, half)
        eps = float(slack(draws, half))
        return np.maximum(least, above / draws - eps) - distance, np.minimum(most, above / draws + eps) + distance

    return _bounds(counts, shares, _checked_shifts(shifts))


def dkw_bounds(histogram: Integers, eps: Floats, shifts: Floats) -> Bounds:
    """Return between what the confidence stays within each radius, by a band of one width (Emde et al., eq. 13).

    Guarantee: where the distribution function of the draws is nowhere off by more than ``eps``, every image no further
    away than shift * sigma has a confidence in [lower, upper]. At a larger shift the interval contains that at a
    smaller one. Wider than :func:`dkw_bounds_of_scores` by at most 1 / LEVELS on each side; the module says why.

    Args:
        histogram: (batch, LEVELS) counts, as for :func:`cdf_bounds`.
        eps: (batch,) from :func:`slack`.
        shifts: (k,) radii over sigma.

    Returns:
        lower (batch, k) and upper (batch, k), in [0, 1].

    Raises:
        ValueError: Shapes or values are not as said.

    >>> histogram = np.zeros((1, LEVELS), dtype=np.int64)
    >>> histogram[0, [LEVELS // 2, LEVELS - 1]] = 100, 900
    >>> lower, upper = dkw_bounds(histogram, np.array([0.01]), np.array([0.0, 0.5]))
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([[0.94, 0.866]], [[0.955, 0.984]])
    """
    counts = _checked_counts(histogram)
    radii, off = _checked_shifts(shifts), _checked_eps(eps, len(counts))
    return _bounds(counts, lambda row, above, draws: _within(above / draws, float(off[row])), radii)


def dkw_bounds_of_scores(scores: Floats, eps: float, shifts: Floats) -> Bounds:
    """Return what :func:`dkw_bounds` does for one example, from all of its order statistics.

    Guarantee: as there. Contained in :func:`standard_bounds` of the same ``eps``: p -> Phi(Phi^-1(p) - shift) is
    convex, with + shift concave, and Jensen's inequality applies. Between order statistics s_i and s_(i+1) the share
    above is that of scores above s_i; the published upper bound counts s_i itself too, and is looser by about 1 / n.

    Args:
        scores: (n,) draws of the score of a class fixed beforehand, in [0, 1].
        eps: From :func:`slack`.
        shifts: (k,) radii over sigma.

    Returns:
        lower (k,) and upper (k,), in [0, 1].

    Raises:
        ValueError: Shapes or values are not as said, NaN included.

    >>> lower, upper = dkw_bounds_of_scores(np.repeat([0.5, 1.0], [100, 900]), 0.01, np.array([0.0, 0.5]))
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.94, 0.866], [0.955, 0.984])
    """
    drawn = np.asarray(scores, dtype=np.float64)
    if drawn.ndim != 1 or len(drawn) == 0 or not np.all((drawn >= 0) & (drawn <= 1)):
        raise ValueError("scores must be a vector of at least one number, all in [0, 1]")
    radii, margin = _checked_shifts(shifts), float(_checked_eps(eps, 1)[0])
    values, counts = np.unique(drawn, return_counts=True)
    shares = _within(_above(counts) / len(drawn), margin)
    return _widened(*_integrals(values, values, shares, radii), radii)


def _bounds(counts: Integers, shares: Callable[[int, Integers, int], Shares], shifts: Floats) -> Bounds:
    """Return the bounds of histograms (batch, LEVELS), from bands around their shares: of row, draws above, draws."""
    lower, upper = np.zeros((len(counts), len(shifts))), np.ones((len(counts), len(shifts)))
    for row in np.flatnonzero(counts.any(axis=1)):
        filled = np.flatnonzero(counts[row])
        above = _above(counts[row, filled])
        band = shares(int(row), above, int(above[0]))
        lower[row], upper[row] = _integrals(filled / LEVELS, (filled + 1) / LEVELS, band, shifts)
    return _widened(lower, upper, shifts)


def _above(counts: Integers) -> Ints:
    """Return how many scores are above t (m + 1,), for t below the first of ``counts`` (m,) to t above the last."""
    total = np.cumsum(counts, dtype=np.int64)
    above: Ints = total[-1] - np.concatenate([[0], total])
    return above


def _within(share: Floats, eps: float) -> Shares:
    return share - eps, share + eps


def _integrals(lowest: Floats, highest: Floats, band: Shares, shifts: Floats) -> Bounds:
    """Return lower (k,) and upper (k,), for scores of which each was in [lowest, highest] (m,).

    Both ends ascend, without ties; ``band`` bounds the share above t (m + 1,), between one value and the next, where it
    does not change.
    """
    down, up = np.diff(lowest, prepend=0.0, append=1.0), np.diff(highest, prepend=0.0, append=1.0)
    least, most = ndtri(np.maximum(band[0], 0)), ndtri(np.minimum(band[1], 1))
    # One shift after the other: memory is that of the scores, however many radii there are.
    lower = np.array([np.sum(down * ndtr(least - shift)) for shift in shifts])
    upper = np.array([np.sum(up * ndtr(most + shift)) for shift in shifts])
    return lower, upper


def _widened(lower: Floats, upper: Floats, shifts: Floats) -> Bounds:
    """Return the intervals (..., k) wider by ``ROUNDING``, those of smaller shifts within those of larger ones."""
    order = np.argsort(shifts, kind="stable")
    back = np.argsort(order, kind="stable")
    # They are nested but for the last bit, in which ndtr is not monotone.
    below = np.minimum.accumulate(lower[..., order], axis=-1)[..., back]
    above = np.maximum.accumulate(upper[..., order], axis=-1)[..., back]
    return np.maximum(below - ROUNDING, 0), np.minimum(above + ROUNDING, 1)


def _checked_counts(histogram: Integers) -> Integers:
    counts = np.asarray(histogram)
    if counts.ndim != 2 or counts.shape[1] != LEVELS or counts.dtype.kind not in "iu":
        raise ValueError(f"a histogram must be (batch, {LEVELS}) integers, got {counts.shape} {counts.dtype}")
    if np.any(counts < 0):
        raise ValueError("a histogram must not count anything less than 0 times")
    return counts


def _checked_shifts(shifts: ArrayLike) -> Floats:
    radii = np.asarray(shifts, dtype=np.float64)
    if radii.ndim != 1 or not np.all((radii >= 0) & np.isfinite(radii)):
        raise ValueError(f"shifts must be a vector of finite numbers of at least 0, got {radii}")
    return radii


def _checked_eps(eps: ArrayLike, examples: int) -> Floats:
    off = np.asarray(eps, dtype=np.float64)
    if off.shape not in ((), (examples,)) or not np.all(off >= 0):
        raise ValueError(f"eps must be one number of at least 0 for each of {examples} examples, got {off}")
    return np.broadcast_to(off, (examples,))
