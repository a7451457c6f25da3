"""What an interval says about a bound: decided or not, and how surely.

Intervals are stored at 95 %, so each end is wrong with probability 2.5 %: a metric exactly at its bound passes, or
fails, no more often than that. An estimate's own interval is what decides, the one that every page shows. Of an audit
that stopped when it was decided it is that of its look, at the error rate that look may spend: the looks' rates add up
to 5 %, and p values are divided by the look's share of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Outcome
from seatrial.judging.measured import ALPHA as ALPHA
from seatrial.statistics.binomial import binomial_cdf
from seatrial.statistics.normal import normal_quantile
from seatrial.statistics.products import Phases

LEAVING_ROOM = frozenset({"gaffke", "resampled", "widened"})
"""Methods whose intervals leave room for an example at the end of the metric's range that was not seen."""

Side = Literal["max", "min"]
Range = tuple[float, float]

Z = normal_quantile(1 - ALPHA / 2)


def critical(level: float) -> float:
    """Return how many standard errors the sides of a normal distribution's interval have at an error rate."""
    return Z if level == ALPHA else normal_quantile(1 - level / 2)


# Far below any p and any relative difference of means that decides, far above what sums are off by.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Evidence:
    """A number that is held against a bound.

    Attributes:
        judged: With the interval that decides; without one it decides nothing.
        is_fixed: Whether more examples would leave it as it is.
        why: What a reader has to know about the interval; empty where there is nothing.
        span: Least and largest value an example can have, where the interval leaves room for examples not seen.
        examples: Examples it rests on, where that is fewer than ``n``.
        discordant: Of paired proportions, examples on which the first alone has it, and the second alone.
        phases: Of a share measured in two phases, what came of them.
        level: Error rate of the interval, both ends together.
    """

    judged: Estimate
    is_fixed: bool = False
    why: str = ""
    span: Range | None = None
    examples: int | None = None
    discordant: tuple[int, int] | None = None
    phases: Phases | None = None
    level: float = ALPHA

    @property
    def interval(self) -> Range | None:
        """The interval that decides."""
        return ends(self.judged)


def ends(estimate: Estimate) -> Range | None:
    """Return an estimate's interval; None where it has none."""
    if estimate.method == "none" or estimate.low is None or estimate.high is None:
        return None
    return estimate.low, estimate.high


def decide(interval: Range, bound: float, side: Side) -> Outcome:
    """Return what an interval says: all of it on the right side, all of it on the wrong one, or neither.

    >>> decide((0.1, 0.2), 0.2, "max"), decide((0.1, 0.2), 0.15, "max"), decide((0.1, 0.2), 0.2, "min")
    ('passed', 'inconclusive', 'inconclusive')
    """
    low, high = interval
    if high <= bound if side == "max" else low >= bound:
        return "passed"
    if low > bound if side == "max" else high < bound:
        return "failed"
    return "inconclusive"


def p_value(estimate: Estimate, bound: float, side: Side, *, level: float = ALPHA) -> float | None:
    """Return the smallest error rate at which the interval would decide: two-sided, by duality.

    Of a Clopper-Pearson interval exactly, from the binomial distribution; of others by scaling the side towards the
    bound as a normal distribution's, of the least of several the larger of both. It is at most ``level``, the
    interval's own, where that decides.

    Returns:
        None without an interval.
    """
    found = ends(estimate)
    if estimate.value is None or found is None:
        return None
    if estimate.method == "clopper-pearson":
        return _binomial_p(round(estimate.value * estimate.n), estimate.n, bound, side)
    # Of the least of several shares the ends may be those of others, and the upper one knows that it was chosen: never
    # less than of the least by itself.
    least = estimate.method == "least"
    exact = _binomial_p(math.floor(estimate.value * estimate.n + ROUNDING), estimate.n, bound, side) if least else 0.0
    gap = bound - estimate.value
    width = found[1] - estimate.value if gap >= 0 else estimate.value - found[0]
    if width <= 0:
        # The value is at the end of its range, and nothing lies beyond.
        return 1.0 if decide(found, bound, side) == "inconclusive" else exact
    return max(exact, math.erfc(critical(level) * abs(gap) / width / math.sqrt(2)))


def p_of(evidence: Evidence, bound: float, side: Side) -> float | None:
    """Return :func:`p_value` of what is judged, but no less than the chance that the examples missed what would tell.

    The room an interval leaves for an example not seen grows with log(1/p) and not as a normal distribution's side
    does, so that the side scaled up would say more at the small error rates of Holm's correction than it may. At a look
    it is divided by the share of the error rate that the look may spend.
    """
    p, value = p_value(evidence.judged, bound, side, level=evidence.level), evidence.judged.value
    if p is None:
        return p
    found = _with_unseen(evidence, bound, p, value)
    return found if evidence.level == ALPHA else min(1.0, found * ALPHA / evidence.level)


def _with_unseen(evidence: Evidence, bound: float, p: float, value: float | None) -> float:
    if value is None or evidence.span is None:
        return p
    n = evidence.judged.n if evidence.examples is None else evidence.examples
    distance = max(evidence.span[1], value) - value if bound >= value else value - min(evidence.span[0], value)
    gap = abs(bound - value)
    return p if gap >= distance else max(p, min(1.0, 2 * math.exp(max(1, n) * math.log1p(-gap / distance))))


class Adjusted(NamedTuple):
    """A p value among others.

    Attributes:
        p: As large as it would have to be alone to say as much.
        times: How many it shared its error rate with.
    """

    p: float
    times: int


def correct(p_values: Sequence[float | None]) -> list[Adjusted | None]:
    """Return Holm's adjusted p values (1979); None stays None.

    Guarantee: rejecting those of at most alpha, the chance of any wrong rejection is at most alpha, however the numbers
    depend on each other.

    >>> correct([0.01, None, 0.04])
    [Adjusted(p=0.02, times=2), None, Adjusted(p=0.04, times=1)]
    """
    order = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    found: list[Adjusted | None] = [None] * len(p_values)
    largest, before, times = 0.0, -1.0, 0
    for rank, (p, at) in enumerate(order):
        if p > before:
            # Those that tie share alike, whichever comes first.
            before, times = p, len(order) - rank
        largest = max(largest, min(1.0, times * p))
        found[at] = Adjusted(largest, times)
    return found


def is_decided(p: float) -> bool:
    """Tell whether a p value is small enough."""
    return p <= ALPHA * (1 + ROUNDING)


def _binomial_p(successes: int, trials: int, bound: float, side: Side) -> float:
    # No rate lies beyond 0 and 1, so a bound there is held, or missed, for sure.
    if bound > 1 or (bound == 1 and side == "max") or bound < 0 or (bound == 0 and side == "min"):
        return 0.0
    below = binomial_cdf(successes, trials, bound)
    above = binomial_cdf(trials - successes, trials, 1 - bound)
    return min(1.0, 2 * min(below, above))
