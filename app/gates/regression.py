"""How much worse than the baseline: a difference with an interval, and when two audits cannot be compared.

Guarantee: each end is wrong with probability at most 2.5 %, as far as the intervals of the two hold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.contracts.estimates import Estimate, Flag
from app.contracts.states import RunState
from app.gates.evidence import Evidence, ends, widen
from app.gates.measured import Measured, MeasuredCheck
from app.gates.pairing import Pairing
from app.gates.ranges import described, examples_of, is_fixed, named, range_of


@dataclass(frozen=True)
class Refusal:
    """Why a rule has nothing to decide."""

    outcome: Literal["errored", "skipped"]
    reason: str


@dataclass(frozen=True)
class Comparison:
    """How much worse than the baseline a metric is.

    Attributes:
        evidence: The difference; above 0 is worse.
        baseline: The baseline's estimate.
        flags: Doubts about the baseline.
    """

    evidence: Evidence
    baseline: Estimate
    flags: Sequence[Flag]


def compare(
    metric: str,
    estimate: Estimate,
    check: MeasuredCheck,
    audit: Measured,
    baseline: Measured | None,
    paired: Pairing | None,
) -> Comparison | Refusal:
    """Return how much worse than the baseline a metric is, or why that cannot be said."""
    if baseline is None:
        return Refusal("skipped", "there is no baseline to compare it with")
    other = next((one for one in baseline.checks if one.kind == check.kind), None)
    if other is None or other.state != RunState.SUCCEEDED or other.result is None:
        return Refusal("errored", "the baseline has no such number")
    before = other.published(named(metric)).get(metric)
    if before is None or before.value is None:
        return Refusal("skipped", "the baseline has no such number")
    now, then = (
        widen(one, range_of(metric, of), examples=examples_of(metric, of))
        for one, of in ((estimate, check), (before, other))
    )
    if described(metric).better == "higher":
        now, then = then, now
    worse = mover(now, then)
    return Comparison(Evidence(worse, worse, is_fixed=is_fixed(metric)), before, other.result.flags)


def mover(first: Estimate, second: Estimate) -> Estimate:
    """Return the first less the second with the interval their own make together (MOVER, Donner and Zou 2012, eq. 4).

    For two Clopper-Pearson intervals it is Newcombe's method 10 (1998) with these in the place of Wilson's. The two are
    taken as independent: where they are of the same examples and agree on them, it is too wide.
    """
    one, two = ends(first), ends(second)
    if first.value is None or second.value is None:
        raise ValueError("both must have a value")
    value, n = first.value - second.value, min(first.n, second.n)
    if one is None or two is None:
        return Estimate(value=value, low=None, high=None, n=n, method="none")
    low = value - math.hypot(first.value - one[0], two[1] - second.value)
    high = value + math.hypot(one[1] - first.value, second.value - two[0])
    return Estimate(value=value, low=low, high=high, n=n, method="mover")
