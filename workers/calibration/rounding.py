"""Probabilities that were rounded before anybody saw them: to how many digits, and what temperature they still tell.

A probability written as 0.00 is one of [0, 0.005]. Taken for the smallest number there is, it makes the likelihood of
its label fall without end, and the fitted temperature rise by decades; taken for the interval it stands for, it says
what it knows.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from seatrial.statistics.arrays import Floats, Ints
from workers.calibration.scaling import TEMPERATURES, FittedTemperature, fit_temperature

MOST_DIGITS = 6
"""Finer rounding moves no temperature that a few hundred examples know."""

FEWEST = 20
"""Probabilities from which on it is no chance that all have few digits."""

NODES = 32
"""Points of an interval at which a likelihood is taken."""

SEARCHED = (-3.0, 4.0)
"""Logarithms to base 10 of the temperatures searched; beyond them a likelihood knows no maximum."""

GRID = 71
DIGITS = 6
"""Significant digits of a temperature found here."""


def detect_digits(logits: Floats) -> int | None:
    """Return to how many digits the probabilities behind logarithms (n, classes) were rounded; None where not to few.

    >>> detect_digits(np.log(np.tile([[0.25, 0.75], [0.99, 0.01]], (8, 1))))
    2
    """
    chances = np.exp(logits)
    # Probabilities sum to 1 as far as their rounding lets them; logits do not.
    if chances.size < FEWEST or np.abs(chances.sum(axis=1) - 1).max() > 0.05 * chances.shape[1]:
        return None
    for digits in range(1, MOST_DIGITS + 1):
        whole = chances * 10.0**digits
        if np.abs(whole - np.round(whole)).max() < 1e-6:
            return digits
    return None


def fit_rounded_temperature(
    logits: Floats, labels: Ints, digits: int, *, limits: tuple[float, float] = TEMPERATURES
) -> FittedTemperature:
    """Return the temperature of most likelihood where each probability is one of those that round to it.

    The likelihood of a label is its mean over the box of intervals that a row stands for, taken at ``NODES`` points.
    Failure: where that has no maximum, what :func:`~workers.calibration.scaling.fit_temperature` says of the numbers as
    they stand.

    Args:
        logits: (n, classes) logarithms of rounded probabilities.
        labels: (n,) class numbers.
        digits: To how many they were rounded.
        limits: Least and largest T returned.
    """
    plain = fit_temperature(logits, labels, limits=limits)
    if plain.degenerate in ("no_examples", "constant_logits"):
        return plain
    latent = _points(logits, digits)
    rows = np.arange(len(labels))

    def loss(power: float) -> float:
        likely = log_softmax(latent / 10.0**power, axis=2)[:, rows, labels]
        return -float(np.mean(logsumexp(likely, axis=0)))

    grid = np.linspace(*SEARCHED, GRID)
    losses = [loss(power) for power in grid]
    best = int(np.argmin(losses))
    if best in (0, GRID - 1):
        return plain
    found = minimize_scalar(loss, bounds=(grid[best - 1], grid[best + 1]), method="bounded", options={"xatol": 1e-9})
    temperature = float(f"{10.0 ** float(found.x):.{DIGITS}g}")
    clipped = min(max(temperature, limits[0]), limits[1])
    return FittedTemperature(clipped, None if clipped == temperature else "beyond_range")


def middle_of_intervals(logits: Floats, digits: int) -> Floats:
    """Return logits in which each probability is the middle of the interval it stands for: those of 0 and 1 move.

    >>> np.exp(middle_of_intervals(np.log([[0.5, 1e-300]]), 2)).round(6).tolist()
    [[0.5, 0.0025]]
    """
    low, high = _ends(logits, digits)
    middle: Floats = np.log((low + high) / 2)
    return middle


def _ends(logits: Floats, digits: int) -> tuple[Floats, Floats]:
    half = 0.5 * 10.0**-digits
    chances = np.exp(logits)
    return np.maximum(chances - half, 0.0), np.minimum(chances + half, 1.0)


def _points(logits: Floats, digits: int) -> Floats:
    """Return (nodes, n, classes) logarithms of probabilities that round to those given, the same ones every time."""
    low, high = _ends(logits, digits)
    # Multiples of the golden ratio and its like fill a box evenly (Kronecker's sequence).
    steps = np.sqrt(np.arange(2, 2 + logits.shape[1]) + 0.25)
    within = (0.5 + np.arange(1, NODES + 1)[:, None] * steps) % 1.0
    points: Floats = np.log(low + np.maximum(within[:, None, :], 1e-3) * (high - low))
    return points
