"""Answering only where the model is sure: risk against coverage, and sets of classes that hold the label."""

import math

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.intervals import Interval, exponentials, resample, unseen_interval


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    """Return coverage and risk (thresholds,) each: the share answered, and the share of these that is wrong.

    One threshold for each confidence that occurs, the highest first.

    >>> [curve.tolist() for curve in risk_coverage([0.9, 0.8, 0.8, 0.4], [True, True, False, False])]
    [[0.25, 0.75, 1.0], [0.0, 0.3333333333333333, 0.5]]
    """
    values, wrong = _sample(confidence, correct)
    order, ends = _ordered(values)
    answered = ends + 1
    return answered / len(values), np.cumsum(wrong[order])[ends] / answered


def aurc(
    confidence: ArrayLike, correct: ArrayLike, *, seed: int | list[int], alpha: float = 0.05
) -> tuple[float, Interval | None]:
    """Return the area under the risk-coverage curve with its interval (Geifman et al. 2019).

    The mean, over examples, of the risk at their own confidence, so that equal confidences count alike: of distinct
    ones it is the mean of the risks of the 1, 2, ... surest. The interval is of random weights that leave room for an
    example not seen (:func:`~seatrial.statistics.intervals.unseen_interval`), which does most where it is the surest of
    all: wrong there it raises every risk, right it lowers all.

    Args:
        confidence: (n,), at least one.
        correct: (n,) whether each is right.
        seed: The same seed gives the same interval.
        alpha: Probability of missing the truth.

    >>> round(aurc([0.9, 0.8, 0.7], [True, False, True], seed=0)[0], 4)
    0.2778
    """
    values, wrong = _sample(confidence, correct)
    value = float(_area(values, wrong, np.ones((1, len(values))))[0])
    if len(values) < 2:
        return value, None
    sure = np.append(values, np.inf)

    def areas(weights: Floats) -> Floats:
        return np.stack([_area(sure, np.append(wrong, unseen), weights) for unseen in (0.0, 1.0)], axis=1)

    drawn = resample(areas, [len(sure)], seed=seed, draw=exponentials)
    return value, unseen_interval(value, drawn[:, 0], drawn[:, 1], alpha=alpha)


def conformal_threshold(scores: ArrayLike, miss: float) -> float:
    """Return the largest 1 - p at which a class is in the set, by split conformal prediction (Vovk et al. 2005).

    Guarantee: a set {k: 1 - p_k <= threshold} of another example of the same distribution holds its label with
    probability at least 1 - ``miss``, over the draw of both. It is the ceil((n + 1)(1 - miss))-th smallest score, and
    infinite, every class being in every set, where there are fewer.

    Args:
        scores: (n,) 1 less the probability of the label, of examples to calibrate on.
        miss: Share of sets that may miss their label.

    >>> conformal_threshold([0.1, 0.2, 0.3, 0.9], 0.4), conformal_threshold([0.1], 0.1)
    (0.3, inf)
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    # 0.9 times 10 is 9.000000000000002 in doubles where it comes of 1 - 0.1.
    place = math.ceil((len(ordered) + 1) * (1 - miss) - 1e-9)
    return float(ordered[place - 1]) if place <= len(ordered) else math.inf


def _area(values: Floats, wrong: Floats, weights: Floats) -> Floats:
    order, ends = _ordered(values)
    total = np.cumsum(weights[:, order], axis=1)[:, ends]
    missed = np.cumsum((weights * wrong)[:, order], axis=1)[:, ends]
    of_run = np.diff(total, axis=1, prepend=0.0)
    area: Floats = (of_run * missed / total).sum(axis=1) / total[:, -1]
    return area


def _ordered(values: Floats) -> tuple[Ints, Ints]:
    """Return the order of falling confidence, and where in it each run of equal ones ends."""
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    return order, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))


def _sample(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    values, hits = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != hits.shape or not len(values):
        raise ValueError(f"confidence and correct must be two vectors of one length: {values.shape}, {hits.shape}")
    return values, 1 - hits
