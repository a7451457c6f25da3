"""Populations that the intervals of published metrics are simulated on: ordinary ones, and such with rare errors.

Each draws examples (n,) or arrays of them; truths that have no closed form are taken from ``MANY`` examples.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from seatrial.statistics.arrays import Floats

Draw = Callable[[np.random.Generator, int], Any]

MANY = 1_000_000
SPARSE = (0.01, 0.02, 0.05)
"""Shares of the examples that are unlike the others."""

NATS = math.log(10)


def rare(share: float, ordinary: tuple[float, float], odd: tuple[float, float]) -> Draw:
    """Return a draw of values that are mostly uniform in one range, and rarely in another."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        return np.where(rng.random(n) < share, rng.uniform(*odd, n), rng.uniform(*ordinary, n))

    return draw


MEANS: dict[str, Draw] = {
    "even": lambda rng, n: rng.beta(2, 4, n),
    "lopsided": lambda rng, n: rng.beta(0.3, 3, n),
    **{f"{share:.0%} wide": rare(share, (0.0, 0.02), (0.8, 1.0)) for share in SPARSE},
    **{f"{share:.0%} narrow": rare(share, (0.97, 1.0), (0.0, 0.4)) for share in SPARSE},
    "half nothing": lambda rng, n: (rng.random(n) < 0.5) * rng.random(n),
}
"""Values in [0, 1]: spans and entropies over log C, confidences, shares, Brier scores."""

SIGNED: dict[str, Draw] = {
    "even": lambda rng, n: 2 * rng.beta(3, 3, n) - 1,
    **{f"{share:.0%} wrong": rare(share, (0.0, 0.01), (-1.0, -0.98)) for share in SPARSE},
    **{f"{share:.0%} turned": rare(share, (0.6, 1.0), (-1.0, 0.0)) for share in SPARSE},
}
"""Values in [-1, 1]: signed errors, correlations, differences."""

UNBOUNDED: dict[str, Draw] = {
    "even": lambda rng, n: rng.gamma(8, 10, n),
    "exponential": lambda rng, n: rng.exponential(80, n),
    "log-normal": lambda rng, n: rng.lognormal(4, 0.6, n),
    **{f"{share:.0%} threefold": rare(share, (40, 80), (150, 210)) for share in SPARSE},
}
"""Values from 0 on whose largest nobody knows: queries, characters changed."""


def _answers(confidence: Callable[[np.random.Generator, int], Floats], excess: float = 0.0) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        sure = confidence(rng, n)
        return sure, (rng.random(n) < sure - excess).astype(np.float64)

    return draw


def _saturated(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        return rng.uniform(0.998, 1, n), (rng.random(n) >= share).astype(np.float64)

    return draw


def _hidden(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Two in a hundred are unsure and wrong where they say half: all others are right and sure."""
    is_odd = rng.random(n) < 0.02
    right = np.where(is_odd, rng.random(n) < 0.1, rng.random(n) < 0.999)
    return np.where(is_odd, 0.55, rng.uniform(0.998, 1, n)), right.astype(np.float64)


CONFIDENCES: dict[str, Draw] = {
    "calibrated": _answers(lambda rng, n: 0.5 + 0.5 * rng.beta(4, 2, n)),
    "over-confident": _answers(lambda rng, n: 0.5 + 0.5 * rng.beta(4, 2, n), 0.1),
    "everywhere": _answers(lambda rng, n: 0.1 + 0.9 * rng.random(n)),
    "under-confident": lambda rng, n: (rng.uniform(0.9, 0.94, n), (rng.random(n) >= 0.02).astype(np.float64)),
    **{f"{share:.0%} wrong": _saturated(share) for share in SPARSE},
    "2% unsure": _hidden,
}
"""Top-label confidences and whether they are right."""


def _spoilt(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        inliers = np.where(rng.random(n) < share, rng.random(n), 0.001 * rng.random(n))
        outliers = np.where(rng.random(n) < share, 0.001 * rng.random(n), rng.uniform(0.5, 1, n))
        return NATS * inliers, NATS * outliers

    return draw


def _tied(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    inliers, outliers = (np.where(rng.random(n) < sure, 0.0, rng.random(n)) for sure in (0.8, 0.1))
    return NATS * inliers, NATS * outliers


SCORES: dict[str, Draw] = {
    "even": lambda rng, n: (NATS * rng.beta(2, 6, n), NATS * rng.beta(4, 3, n)),
    "tied": _tied,
    **{f"{share:.0%} spoilt": _spoilt(share) for share in SPARSE},
}
"""Entropies of as many inliers as outliers."""


def _texts(wrong: float, lost: tuple[float, ...]) -> Draw:
    """Return a draw of who is right without noise, and under each of several attackers (n, attackers)."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        before = rng.random(n) >= wrong
        # What an attacker breaks others tend to break: half of the luck is the text's.
        luck = 0.5 * rng.random((n, 1)) + 0.5 * rng.random((n, len(lost)))
        order = np.array([np.sqrt(one / 2) if one <= 0.5 else 1 - np.sqrt((1 - one) / 2) for one in lost])
        return before.astype(np.float64), (before[:, None] & (luck >= order)).astype(np.float64)

    return draw


NOISE: dict[str, Draw] = {
    "even": _texts(0.15, (0.1, 0.25, 0.4, 0.4)),
    "alike": _texts(0.05, (0.2, 0.2, 0.2, 0.2)),
    **{f"{share:.0%} lost": _texts(0.02, (share, share / 2, 0.0, 2 * share)) for share in SPARSE},
}
"""Right answers without noise and under four attackers."""


def _sentences(rng: np.random.Generator, n: int) -> Floats:
    return np.maximum(1, rng.gamma(2, 5, n).astype(np.int64)).astype(np.float64)


def _tags(wrong: Callable[[np.random.Generator, Floats], Floats]) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        sizes = _sentences(rng, n)
        return sizes - wrong(rng, sizes), sizes

    return draw


TAGS: dict[str, Draw] = {
    "even": _tags(lambda rng, sizes: rng.binomial(sizes.astype(int), 0.1).astype(np.float64)),
    **{
        f"{share:.0%} of sentences": _tags(lambda rng, sizes, share=share: sizes * (rng.random(len(sizes)) < share))
        for share in SPARSE
    },
    "long ones": _tags(lambda rng, sizes: sizes * (rng.random(len(sizes)) < np.minimum(1, 0.02 * sizes / 10))),
}
"""Right tags, and tags, of sentences of unequal length."""
