"""How much worse than the baseline: a difference with an interval, and when two audits cannot be compared.

Where both audits drew the same examples and their records are there, each example is compared with itself, so that
what is hard for both cancels. Otherwise the two stored intervals make one of the difference, as if the samples were
independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag
from seatrial.contracts.policies import Unmeasured
from seatrial.contracts.states import RunState
from seatrial.judging.comparability import differences
from seatrial.judging.evidence import ALPHA, ROUNDING, Evidence, Range, critical, ends
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.pairing import Pairing
from seatrial.judging.ranges import described, is_fixed, named, range_of
from seatrial.statistics.arrays import Floats
from seatrial.statistics.bounded import mean_interval, ratio_interval, typical_size
from seatrial.statistics.proportions import score_interval

_NO_BASELINE = (
    "there is no baseline to compare it with (an audit is none of itself): one is made by promoting an earlier audit "
    "of the model, on its page in the console, with `seatrial baselines promote AUDIT` or by POST /v1/baselines"
)
_OTHER_DATA = Flag(
    code="other_dataset",
    severity="warning",
    message="The baseline was measured on another dataset, so the difference includes which of the two is harder. "
    "Audit the baseline's model on this dataset and promote that audit.",
)


@dataclass(frozen=True)
class Refusal:
    """Why a rule has nothing to decide; ``unmeasured`` is of one that is skipped."""

    outcome: Literal["errored", "skipped"]
    reason: str
    unmeasured: Unmeasured | None = None


@dataclass(frozen=True)
class Comparison:
    """How much worse than the baseline a metric is.

    Attributes:
        evidence: The difference; above 0 is worse.
        baseline: The baseline's estimate.
        flags: Doubts about the baseline, and about comparing with it.
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
    """Return how much worse than the baseline a metric is, or why that cannot be said.

    Guarantee: each end is wrong with probability at most 2.5 %: of paired proportions by the score interval, of paired
    means as far as :mod:`seatrial.statistics.bounded` holds, of others as far as the two stored intervals do. Failure:
    of audits whose parameters make the number mean different things there is no difference, and none is made up.

    Args:
        metric: Full name; it has a better and a worse.
        estimate: As measured; its value is known.
        check: What measured it.
        audit: What that is part of.
        baseline: What to compare with.
        paired: Records of both.
    """
    if baseline is None:
        return Refusal("skipped", _NO_BASELINE, "no_baseline")
    found = _counterpart(metric, check, baseline)
    if isinstance(found, Refusal):
        return found
    before, other = found
    is_higher_better = described(metric).better == "higher"
    # Where either was looked at before its end, a pair was not drawn more often than the rarer of the two looks.
    level = min(check.level, other.level)
    why = "the records are not available"
    if paired is not None:
        pairs = paired.pair(metric, (audit.audit, check), (baseline.audit, other))
        if not isinstance(pairs, str):
            worse = pairs.then - pairs.now if is_higher_better else pairs.now - pairs.then
            evidence = paired_difference(worse, range_of(metric, check), pairs.weights, level=level)
            return Comparison(evidence, before, _flags(other))
        why = pairs
    doubts = [*_flags(other), _OTHER_DATA] if paired is not None and not paired.is_same_dataset else _flags(other)
    now, then = _stretched(estimate, check.level, level), _stretched(before, other.level, level)
    difference = mover(then, now) if is_higher_better else mover(now, then)
    told = f"not compared example by example: {why}"
    evidence = Evidence(difference, is_fixed=is_fixed(metric), why=told, level=level)
    return Comparison(evidence, before, doubts)


def _counterpart(metric: str, check: MeasuredCheck, baseline: Measured) -> tuple[Estimate, MeasuredCheck] | Refusal:
    """Return the baseline's estimate and its check: the first whose parameters mean the same."""
    others = [one for one in baseline.checks if one.kind == check.kind]
    if not others:
        return Refusal("skipped", f"the baseline has no {check.kind}", "no_baseline")
    measured = [one for one in others if one.state == RunState.SUCCEEDED and one.result is not None]
    if not measured:
        return Refusal("errored", f"the baseline's {check.kind} {others[0].state.value}")
    publishing = [(one.published(named(metric)).get(metric), one) for one in measured]
    found = [(estimate, one) for estimate, one in publishing if estimate is not None]
    if not found:
        reason = f"the baseline's {check.kind} did not measure it with these parameters"
        return Refusal("skipped", reason, "no_baseline")
    apart = [differences(metric, check.params, one.params) for _, one in found]
    if [] not in apart:
        return Refusal("errored", f"it does not mean the same in the baseline: {'; '.join(apart[0])}")
    before, other = found[apart.index([])]
    if before.value is None:
        return Refusal("errored", f"it is undefined on the baseline's sample: n = {before.n}")
    return before, other


def _stretched(estimate: Estimate, own: float, level: float) -> Estimate:
    """Return an estimate whose interval's sides are as long as a normal distribution's are at a smaller error rate."""
    value, found = estimate.value, ends(estimate)
    if own == level or value is None or found is None:
        return estimate
    times = critical(level) / critical(own)
    low, high = value - times * (value - found[0]), value + times * (found[1] - value)
    return estimate.model_copy(update={"low": low, "high": high})


def _flags(check: MeasuredCheck) -> Sequence[Flag]:
    return () if check.result is None else check.result.flags


def paired_difference(
    worse: Floats, span: Range | None, weights: Floats | None = None, *, level: float = ALPHA
) -> Evidence:
    """Return the mean of the differences (n,) of two measurements of the same examples, with its interval.

    Differences of -1, 0 and 1 are those of paired proportions and get
    :func:`~seatrial.statistics.proportions.score_interval`. Others get that of a mean, or of a ratio of sums, in a
    known range (:mod:`seatrial.statistics.bounded`). Where examples weigh unequally, like sentences of few and of many
    tags, one that was not seen is taken to weigh as that in which a decision drawn from all of them lies: that holds as
    long as the chance that an example differs grows no faster than its weight.

    Args:
        worse: Differences, at least 2; where examples have weights, multiplied by them.
        span: Least and largest value of the metric for an example.
        weights: (n,) with mean 1; None where all are alike.
        level: Error rate of the interval.
    """
    value, n = float(worse.mean()), len(worse)
    told = f"compared example by example on the {n} that both audits have"
    is_weighted = weights is not None and bool((weights != 1).any())
    if not is_weighted and np.isin(worse, (-1, 0, 1)).all() and span == (0.0, 1.0):
        b, c = int((worse > 0).sum()), int((worse < 0).sum())
        low, high = score_interval(b, c, n, alpha=level)
        judged = Estimate(value=value, low=low, high=high, n=n, method="paired")
        return Evidence(judged, why=told, discordant=(b, c), level=level)
    found, widest = _interval(worse, span, np.ones(n) if weights is None else weights, level)
    if found is None:
        return Evidence(Estimate(value=value, low=None, high=None, n=n, method="paired"), why=told, level=level)
    low, high = min(found[0], value), max(found[1], value)
    judged = Estimate(value=value, low=low, high=high, n=n, method="paired")
    return Evidence(judged, why=told, span=widest, level=level)


def _interval(worse: Floats, span: Range | None, weights: Floats, level: float) -> tuple[Range | None, Range | None]:
    """Return the interval of a sum over that of the weights, and between which values an example not seen may lie."""
    if span is None:
        reach = float(np.ptp(worse))
        if reach <= ROUNDING * float(np.abs(worse).max()):
            return None, None
        return mean_interval(worse, float(worse.min()) - reach, float(worse.max()) + reach, alpha=level), None
    reach, size = span[1] - span[0], typical_size(weights)
    room = reach * size
    return ratio_interval(worse, weights, (-room, size), (room, size), alpha=level), (-room, room)


def mover(first: Estimate, second: Estimate) -> Estimate:
    """Return the first less the second with the interval their own make together (MOVER, Donner and Zou 2012).

    For two Clopper-Pearson intervals it is Newcombe's method 10 (1998) with these in the place of Wilson's. The two are
    taken as independent: where they are of the same examples and agree on them, it is too wide.

    Raises:
        ValueError: One has no value.

    >>> proportion = Estimate(value=0.5, low=0.4, high=0.6, n=100, method="clopper-pearson")
    >>> round(mover(proportion, proportion).high, 4)
    0.1414
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
