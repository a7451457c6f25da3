"""Certified scores and calibration of all classes, from certified intervals of every class's mean score.

Labels do not change under an attack: what is asked of class k is whether the label is k, whatever class is predicted.
So nobody abstains, and these numbers are over every example, certified at a radius or not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from workers.certification.simplex_box import SimplexBox, Term, smallest
from workers.certification.worst_calibration import resampled_errors, worst_calibration_error

FLOOR = 1e-6
"""A score below it counts as this much in a logarithm, as libraries do: one example has a logarithm of 13.8 at most."""


def worst_log_loss(lower: ArrayLike) -> Floats:
    """Return the largest negative log likelihood (n,), from the lower end of the label's score (n,).

    Guarantee: wherever the score is at least its lower end, -log(max(score, FLOOR)) is no larger; it is where the score
    is at the end.

    Raises:
        ValueError: An end is not in [0, 1].

    >>> worst_log_loss([1.0, 0.5, 0.0]).round(3).tolist()
    [0.0, 0.693, 13.816]
    """
    ends = np.asarray(lower, dtype=np.float64)
    if not bool(np.all((ends >= 0) & (ends <= 1))):
        raise ValueError("lower ends of scores must be in [0, 1]")
    losses: Floats = np.abs(np.log(np.maximum(ends, FLOOR)))
    return losses


def worst_brier(box: SimplexBox, labels: Ints) -> Floats:
    """Return the largest Brier score sum_k (p_k - [k is the label])^2 of any vector in the boxes (n,), in [0, 2].

    Guarantee: no probability vector in the box has more. Attained in the box, but where a search is stopped early. It
    is convex, so it is largest at a vertex. (Brier 1950: the sum over classes; the top-label score is another number.)

    Args:
        box: (n, k); a last column that stands for several classes counts most where one of them has it all.
        labels: (n,) the column of each label, which must not stand for several classes.

    Raises:
        ValueError: A label has no column of its own.

    >>> worst_brier(SimplexBox.read([[0.5, 0.2]], [[0.8, 0.5]]), np.array([0])).round(9).tolist()
    [0.5]
    """
    k = box.lower.shape[1]
    single = k if box.rest == 1 else k - 1
    if not bool(np.all((labels >= 0) & (labels < single))):
        raise ValueError(f"every label needs a column of its own, of {single}")

    def term(row: int) -> Term:
        twice = 2.0 * (np.arange(k) == labels[row])
        return lambda scores: scores * (twice - scores)

    least = smallest(box, term).value
    found: Floats = np.clip(1 - least, 0, 2)
    return found


@dataclass(frozen=True)
class WorstClasswise:
    """The worst classwise calibration within the intervals.

    Attributes:
        value: Mean over classes of their errors; None for no examples.
        errors: (classes,) the worst error of each class.
        terms: (n,) what each example adds, of mean ``value``.
    """

    value: float | None
    errors: Floats
    terms: Floats


def worst_classwise(lower: ArrayLike, upper: ArrayLike, labels: ArrayLike, bins: int = 15) -> WorstClasswise:
    """Return the largest classwise ECE that any scores within the intervals have (Kull et al. 2019; marginal ECE).

    Guarantee: no scores within the intervals have a larger mean, over classes, of ECEs in equal-width bins. Exact for
    the intervals: classes share no bin, so each has its own worst case. That scores add up to 1 is not made use of.

    Args:
        lower: (n, classes) lower ends.
        upper: (n, classes) upper ends.
        labels: (n,).
        bins: Equal-width bins.

    Raises:
        ValueError: As :meth:`~workers.certification.worst_calibration.Intervals.read`, for a class.

    >>> worst_classwise([[0.6, 0.2]], [[0.8, 0.4]], [0], bins=2).errors.tolist()
    [0.4, 0.4]
    """
    low, high, right = np.asarray(lower), np.asarray(upper), np.asarray(labels)
    n, classes = low.shape
    if n == 0:
        return WorstClasswise(None, np.full(classes, np.nan), np.empty(0))
    errors, terms = np.empty(classes), np.zeros(n)
    for k in range(classes):
        worst = worst_calibration_error(low[:, k], high[:, k], right == k, bins)
        errors[k] = worst.value
        terms += worst.terms / classes
    return WorstClasswise(float(errors.mean()), errors, terms)


def resampled_classwise(
    lower: ArrayLike, upper: ArrayLike, labels: ArrayLike, weights: Floats, bins: int = 15
) -> Floats:
    """Return the mean over classes of :func:`~workers.certification.worst_calibration.resampled_errors` (resamples,).

    Args:
        lower: (n, classes) lower ends.
        upper: (n, classes) upper ends.
        labels: (n,).
        weights: (resamples, n).
        bins: Equal-width bins.

    Raises:
        ValueError: As there.
    """
    low, high, right = np.asarray(lower), np.asarray(upper), np.asarray(labels)
    found = [resampled_errors(low[:, k], high[:, k], right == k, weights, bins) for k in range(low.shape[1])]
    mean: Floats = np.mean(found, axis=0)
    return mean
