"""Intervals of worst cases: of the largest mean of many functions of an example."""

from collections.abc import Callable

import numpy as np

from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import norm_interval
from seatrial.statistics.estimating import ALPHA
from seatrial.statistics.intervals import CELLS, Draw, Interval, counts, resample

FEW = 200
"""Resamples where a worst case takes long to solve."""


def worst_interval(
    own: Floats,
    errors: Callable[[Floats], Floats],
    by_chance: Callable[[Floats], Floats],
    confidence: Floats,
    seed: list[int],
    *,
    resamples: int | None = None,
    alpha: float = ALPHA,
) -> Interval | None:
    """Return an interval of a worst case over the population, which that of a sample overstates.

    Guarantee, up to the resampling's approximations: each end is wrong with probability at most alpha / 2. The worst
    case is the largest of the means of many functions of an example, one for each way the bins' errors can point. The
    upper end is that of the mean of the sample's own function, which leaves room for an example not seen
    (:mod:`seatrial.statistics.bounded`). The sample exceeds the population by no more than the largest deviation of any
    of these means: how large that gets is resampled, and simulated with outcomes drawn at the confidences without an
    attack, because resampling a model that made no mistake says nothing.

    Args:
        own: (n,) what each example adds to the worst case of the sample, in [-1, 1].
        errors: Weights (resamples, n) to the worst case of a sample so weighted (resamples,).
        by_chance: What outcomes exceed confidences by (resamples, n), to the largest deviation that causes.
        confidence: (n,) confidences without an attack; 1 for examples that by chance do nothing.
        seed: The same seed gives the same interval.
        resamples: As for :func:`seatrial.statistics.intervals.resample`.
        alpha: Probability of missing the truth.

    Returns:
        None for fewer than 2 examples.
    """
    n = len(confidence)
    if n < 2:
        return None

    def outcomes(rng: np.random.Generator, rows: int, size: int) -> Floats:
        drawn = rng.random((rows, size))
        return np.subtract(drawn < confidence, confidence, out=drawn)

    def draw(statistic: Callable[[Floats], Floats], how: Draw) -> Floats:
        # Fewer at a time than elsewhere: beside them their transpose is held, and of that what is solved for.
        return resample(
            lambda drawn: statistic(drawn)[:, None], [n], seed=seed, resamples=resamples, draw=how, cells=CELLS // 4
        )[:, 0]

    def further(rng: np.random.Generator, rows: int, size: int) -> Floats:
        found = counts(rng, rows, size)
        found -= 1
        return found

    drawn = draw(errors, further)
    return norm_interval(own, np.ones(n), drawn, draw(by_chance, outcomes), alpha=alpha)
