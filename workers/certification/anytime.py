"""Certification that may stop early and stays valid: when to look at the draws, and what each look may err with.

A bound made at several looks is as good as one made at a look fixed beforehand only if all of them hold at once. Here
they do, by a union bound: the looks share alpha. That makes the largest of the lower bounds so far a lower bound too,
and one at whatever look the draws end, for whatever reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper


@dataclass(frozen=True)
class Schedule:
    """When to look, and what each look may err with; every tuple has one entry per look.

    Guarantee: all lower bounds hold at once with probability at least 1 - sum(lower_alphas), all upper ones with
    1 - sum(upper_alphas), all of both with 1 - both sums, and one thing made of scores wherever the draws end with
    1 - sum(score_alphas).

    Attributes:
        checkpoints: Draws in all at each look, ascending; the last is the most that are taken.
        lower_alphas: Error of the one-sided lower bound. The last is no smaller than any other, so that no look can
            give a better bound to an example whose remaining draws all succeed: this is what shows a radius out of
            reach.
        upper_alphas: Error of the one-sided upper bound; 0 makes none.
        score_alphas: Error of one thing made of an example's scores or classes where its draws ended, both sides
            together: an interval of the mean or a band around the distribution (Hoeffding, DKW), or PREDICT.

    Raises:
        ValueError: The looks do not ascend, or the alphas are none.
    """

    checkpoints: tuple[int, ...]
    lower_alphas: tuple[float, ...]
    upper_alphas: tuple[float, ...]
    score_alphas: tuple[float, ...]

    def __post_init__(self) -> None:
        looks = len(self.checkpoints)
        if looks == 0 or sorted({0, *self.checkpoints}) != [0, *self.checkpoints]:
            raise ValueError(f"checkpoints must ascend from at least 1, got {self.checkpoints}")
        for name in ("lower_alphas", "upper_alphas", "score_alphas"):
            alphas: tuple[float, ...] = getattr(self, name)
            if len(alphas) != looks or not all(0 <= alpha < 1 for alpha in alphas):
                raise ValueError(f"{name} must be {looks} numbers in [0, 1), got {alphas}")
        if min(self.lower_alphas) == 0 or min(self.score_alphas) == 0:
            raise ValueError("lower_alphas and score_alphas must be above 0")
        if max(self.lower_alphas) > self.lower_alphas[-1]:
            raise ValueError(f"the last of lower_alphas must be the largest, got {self.lower_alphas}")

    @property
    def n(self) -> int:
        """The most draws that are taken."""
        return self.checkpoints[-1]


def fixed_schedule(n: int, alpha: float) -> Schedule:
    """Return the schedule of one look at ``n`` draws: CERTIFY of Cohen et al., bit for bit.

    Each side holds with probability at least 1 - alpha, hence both only with 1 - 2 alpha: no certificate rests on the
    upper bound, which is there to be read.
    """
    return Schedule((n,), (alpha,), (alpha,), (alpha,))


def geometric_schedule(n: int, alpha: float, *, first: int = 200, factor: float = 1.25, multiple: int = 50) -> Schedule:
    """Return a schedule whose bounds, of both sides and at all looks, hold at once with probability at least 1 - alpha.

    Half of alpha goes to the lower bound at ``n``, so that an example drawn to the end is certified at nearly the
    radius of the fixed schedule: at most 3.79 sigma in place of 3.81 with 100,000 draws and an alpha of 0.001. The
    other half goes to the earlier looks evenly, split between their two sides; the last look needs no upper bound.
    Scores get alpha the same way.

    At those, with sigma 0.25 and radii up to 0.75, a class that noise never changes takes 8,700 draws, one that it
    changes once in 10,000 draws 11,300, and one of probability 0.45 takes 2,100; next to a probability at which a
    radius is decided all are taken. Of what examples that can stop early take, factors from 1.1 to 1.5 differ by 10 %
    and 2 takes 20 to 40 % more. Uneven spending saved 10 % at most, and most where it gave up radius at ``n``.

    Args:
        n: Draws at the last look.
        alpha: Probability that any bound is wrong.
        first: Draws at the first look, about; with no more than that in all there is one look, and the schedule is
            the fixed one, whose two sides hold with probability 1 - alpha each.
        factor: From look to look, about; above 1.
        multiple: Every look but the last is at a multiple of it.

    Raises:
        ValueError: What :class:`Schedule` refuses, or a factor that does not grow.
    """
    if factor <= 1 or first < 1 or multiple < 1:
        raise ValueError(f"looks must grow from at least 1: {first=}, {factor=}, {multiple=}")
    steps = max(1, round(math.log(n / first) / math.log(factor))) if n > first else 0
    near = [first * (n / first) ** (step / steps) for step in range(steps)]
    rounded = {max(1, math.floor(draws / multiple)) * multiple for draws in near}
    early = sorted(draws for draws in rounded if draws < n)
    if not early:
        return fixed_schedule(n, alpha)
    share = alpha / 2 / len(early)
    sides = (share / 2,) * len(early)
    return Schedule((*early, n), (*sides, alpha / 2), (*sides, 0.0), (*[share] * len(early), alpha / 2))


class ConfidenceSequence:
    """Bounds of each example's probability that hold wherever its draws end, and whether they need go on.

    Guarantee, for each example: at no look is ``lower`` above its probability but with probability sum(lower_alphas)
    of the schedule. The certificate rests on nothing else: a wrong upper bound or a wrong end of the draws only costs
    radius. Over the whole sequence the probability is between ``lower`` and ``upper`` but with probability
    sum(lower_alphas) + sum(upper_alphas).

    It holds however the end of the draws is decided, in view of whatever, so long as it is at a look. It fails if the
    class was selected on the draws that are counted here. A ``lower`` that ended early decides at the probabilities
    asked for; between them, more draws would have given a larger one.

    Attributes:
        lower: (batch,) the largest lower bound so far, 0 before the first look. Valid because all hold at once.
        upper: (batch,) the smallest upper bound so far and never below ``lower``, 1 before the first look.
        stopped_at: (batch,) the last look, -1 before the first.
    """

    def __init__(self, schedule: Schedule, batch: int, probabilities: ArrayLike, *, distance: float = 0.0) -> None:
        """Start with no draws.

        Args:
            schedule: At how many draws to look.
            batch: Examples.
            probabilities: (k,) those at which something is decided, :func:`~workers.certification.bernoulli.
                probability_needed` of the radii; 1/2, where it abstains, always is.
            distance: How far, in total variation, the law of the draws may be from the one the probability is under;
                every bound is wider by it.

        Raises:
            ValueError: A probability or the distance is outside [0, 1].
        """
        self._schedule = schedule
        self._distance = distance
        self._needed = np.union1d(np.asarray(probabilities, dtype=np.float64), 0.5)
        if not bool(np.all((self._needed >= 0) & (self._needed <= 1))) or not 0 <= distance <= 1:
            raise ValueError(f"probabilities must be in [0, 1], got {self._needed}, {distance=}")
        self.lower: Floats = np.zeros(batch)
        self.upper: Floats = np.ones(batch)
        self.stopped_at: Ints = np.full(batch, -1, dtype=np.int64)

    def look(self, index: int, indices: Sequence[int] | NDArray[np.int64], successes: ArrayLike) -> Mask:
        """Take in the successes of some examples at a look; return which of them are settled now (indices,).

        Settled at a probability: shown to be reached, shown not to be, or out of reach even if all remaining draws
        were successes. The last look settles all.

        Args:
            index: Index of the look.
            indices: Examples looked at.
            successes: (indices,) successes among all draws up to the checkpoint.

        Raises:
            ValueError: The successes are no sample of as many draws, or an example had this look or a later one before.
        """
        which, schedule = np.asarray(indices, dtype=np.int64), self._schedule
        if bool(np.any(self.stopped_at[which] >= index)):
            raise ValueError(f"look {index} is not after the last one of every example")
        counted, drawn = np.asarray(successes, dtype=np.int64), schedule.checkpoints[index]
        found = clopper_pearson_lower(counted, drawn, alpha=schedule.lower_alphas[index])
        lower = np.maximum(self.lower[which], found - self._distance)
        upper = self.upper[which]
        if schedule.upper_alphas[index] > 0:
            most = clopper_pearson_upper(counted, drawn, alpha=schedule.upper_alphas[index])
            upper = np.minimum(upper, most + self._distance)
        # Where they cross, one of them is wrong: to widen the interval is always allowed.
        upper = np.maximum(upper, lower)
        # At the last look this is the bound itself, so that everything is decided there.
        best = clopper_pearson_lower(counted + (schedule.n - drawn), schedule.n, alpha=schedule.lower_alphas[-1])
        best = np.minimum(upper, best - self._distance)
        is_decided = (lower[:, None] >= self._needed) | (best[:, None] < self._needed)
        settled = np.asarray(np.all(is_decided, axis=1))
        self.lower[which], self.upper[which] = lower, upper
        self.stopped_at[which] = index
        return settled
