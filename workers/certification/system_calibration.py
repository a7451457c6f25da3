"""The calibration error of a whole system: certified examples, and others an adversary may do as it likes with.

An example that is not certified at a radius may come out right or wrong there, with any confidence a top class can
have. All such examples are alike, so that for given signs of the errors (see ``worst_calibration``) one choice suits
them all: *all wrong*, in the last plus bin, or *all right*, in the first minus bin. The largest error is therefore the
larger of two plain certified calibration errors, at O(n + bins^2) like them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from seatrial.statistics.arrays import Floats
from workers.certification.worst_calibration import (
    Intervals,
    WorstCase,
    best_signs,
    checked_weights,
    gains_of,
    resampled_errors,
    slices,
    weighted,
    worst_calibration_error,
)

TOLERANCE = 1e-12
"""Gains this close together are one."""


def system_calibration_error(
    lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, *, free: int, least: float, bins: int = 15
) -> WorstCase:
    """Return the largest ECE over certified examples and ``free`` others, and what has it.

    Guarantee: if every certified example keeps its correctness and stays in its interval, no perturbation gives the
    sample a larger ECE, whatever becomes of the others. It fails where an interval fails.

    Args:
        lower: (n,) lower ends of certified confidence intervals, in [0, 1].
        upper: (n,) upper ends, at least ``lower``.
        correct: (n,) whether the certified class is the label.
        free: Examples that may be right or wrong with any confidence from ``least`` to 1.
        least: The least confidence of a prediction, 1 / classes.
        bins: Equal-width bins.

    Returns:
        The worst case of all n + free examples, the free ones last; value None if there are none.

    Raises:
        ValueError: As :func:`worst_calibration_error`, ``free`` is negative or ``least`` outside [0, 1].

    >>> round(system_calibration_error([0.8], [0.9], [True], free=1, least=0.5, bins=2).value, 3)
    0.45
    """
    sample = _read(lower, upper, correct, free, least, bins)
    cases = [worst_calibration_error(*_joined(sample, free, least, hit), bins) for hit in (False, True)]
    return max(cases, key=lambda case: case.value or 0.0)


def resampled_system_errors(
    lower: ArrayLike,
    upper: ArrayLike,
    correct: ArrayLike,
    weights: ArrayLike,
    *,
    free: int,
    least: float,
    bins: int = 15,
) -> Floats:
    """Return max over signs s of (1 / (n + free)) sum_i w_i h_s(i) for many weight vectors w, (resamples,).

    h_s(i) is the most that example i adds under signs s, of a free one over right and wrong. With weights of 1 it is
    the system's calibration error. NaN for an empty sample. Rows that give the free examples a negative weight in all
    cost about bins / 2 times as much.

    Args:
        lower: (n,) lower ends.
        upper: (n,) upper ends.
        correct: (n,) whether the certified class is the label.
        weights: (resamples, n + free) of any sign, the free examples' last.
        free: Examples that may be right or wrong with any confidence from ``least`` to 1.
        least: The least confidence of a prediction, 1 / classes.
        bins: Equal-width bins.

    Raises:
        ValueError: As :func:`system_calibration_error`, or the weights are not one finite row per resample.
    """
    sample = _read(lower, upper, correct, free, least, bins)
    n = len(sample.lower)
    rows = checked_weights(weights, n + free)
    if free == 0:
        return resampled_errors(lower, upper, correct, rows, bins)
    # Free examples are alike: only what they weigh together matters, as one example more that comes last.
    together = rows[:, n:].sum(axis=1)
    found = np.empty(len(rows))
    gained, lost = np.flatnonzero(together >= 0), np.flatnonzero(together < 0)
    cases = [Intervals.read(*_joined(sample, 1, least, hit), bins).entries[:, [n]] for hit in (False, True)]
    for part in slices(len(gained), n, bins):
        at = gained[part]
        sums = weighted(sample.entries, rows[at, :n])
        errors = [_with_one_more(sample, sums, case, together[at]) / (n + 1) for case in cases]
        found[at] = np.maximum(*errors) * (n + 1) / (n + free)
    for part in slices(len(lost), n, bins):
        at = lost[part]
        found[at] = _least_gain(sample, weighted(sample.entries, rows[at, :n]), together[at], least) / (n + free)
    return found


def _with_one_more(sample: Intervals, sums: Floats, entries: csc_array, weight: Floats) -> Floats:
    """Return the largest sum over signs (resamples,) of ``sums`` and one example more (rows, 1), by its weight."""
    joined = sums.copy()
    joined[entries.indices] += entries.data[:, None] * weight
    return best_signs(*gains_of(sample.edges, joined))[0]


def _read(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, free: int, least: float, bins: int) -> Intervals:
    if free < 0 or not 0 <= least <= 1:
        raise ValueError(f"free must be at least 0 and least in [0, 1]: {free=}, {least=}")
    return Intervals.read(lower, upper, correct, bins)


def _joined(sample: Intervals, free: int, least: float, hit: bool) -> tuple[Floats, Floats, Floats]:
    """Return lower, upper and correct with ``free`` examples more that may have any confidence from ``least`` on."""
    return (
        np.append(sample.lower, np.full(free, least)),
        np.append(sample.upper, np.ones(free)),
        np.append(sample.correct.astype(np.float64), np.full(free, float(hit))),
    )


def _least_gain(sample: Intervals, sums: Floats, free_weight: Floats, least: float) -> Floats:
    """Return the largest sum over signs (resamples,) where the free examples' weight is negative.

    Its gain is then to be small, and being a maximum, it is below a limit when all that it is the maximum of is: bins
    whose top exceeds the limit must not be plus, and bins whose bottom falls short of 1 by more must not be minus. So
    every limit is one problem with bars.
    """
    is_reachable = sample.edges[1:] >= least
    as_plus = np.where(is_reachable, sample.edges[1:], 0.0)
    as_minus = np.where(is_reachable, 1 - np.maximum(least, sample.edges[:-1]), 0.0)
    found = np.full(len(free_weight), -np.inf)
    plus, minus = gains_of(sample.edges, sums)
    for limit in _limits(as_plus, as_minus):
        plus[:-1][as_plus > limit + TOLERANCE] = -np.inf
        minus[:-1][as_minus > limit + TOLERANCE] = -np.inf
        found = np.maximum(found, best_signs(plus, minus)[0] + free_weight * limit)
    return found


def _limits(as_plus: Floats, as_minus: Floats) -> Iterator[float]:
    """Yield the gains a free example can have, from the largest down, as long as some signs give it no more."""
    least = float(np.minimum(as_plus, as_minus).max())
    for limit in np.unique(np.round(np.append(as_plus, as_minus), 12))[::-1]:
        if limit + TOLERANCE < least:
            return
        yield float(limit)
