"""Looks: how far the stages of a check reach at each, and what its numbers say at the error rate of one.

The next look's shards are opened only while a rule that blocks is open (:mod:`seatrial.judging.stopping`). Everything
here is a function of what is stored, so that a worker that takes up where another was killed comes to the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.contracts.estimates import Estimate, Looks, Result
from seatrial.contracts.metric_ranges import limits_of
from seatrial.contracts.registry import family
from seatrial.families.shared.settling import settled
from seatrial.judging.evidence import LEAVING_ROOM, Z, critical, ends
from seatrial.judging.ranges import described, examples_of, measured, range_of
from seatrial.judging.stopping import measured_so_far
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.looks import planned_sizes, spending
from seatrial.statistics.widening import unseen_share, within
from workers.families.stages import SAMPLE, Stage
from workers.runtime.jobs import CheckJob


def planned_looks(job: CheckJob, taken: Sequence[Mapping[str, Any]] | None = None) -> Looks | None:
    """Return the looks of a check, the one that comes next as ``ended``; None where it is measured as a whole.

    Args:
        job: The check.
        taken: Looks that left it open; by default those that are stored.
    """
    if job.audit.spec.get("stop") != "decided" or job.audit.policy is None:
        return None
    stopping = family(job.check.kind).stopping
    sizes = planned_sizes(stopping, job.params, job.sampled(), job.audit.spec["batch_size"])
    if len(sizes) == 1:
        return None
    return Looks(sizes=sizes, alphas=spending(len(sizes)), ended=1 + len(taken or job.check.looks or []))


def reach(job: CheckJob, stage: Stage, looks: Looks | None) -> int:
    """Return how many examples of a stage a look takes."""
    examples = job.examples(stage)
    if looks is None or stage.is_whole or stage.source != SAMPLE:
        return examples
    return min(examples, looks.examples)


def at_look(result: Result, kind: str, params: Mapping[str, Any], looks: Looks) -> Result:
    """Return a result with the intervals of a look.

    Guarantee: each end is wrong with probability at most half of what the look may spend, as far as the stored ones are
    at half of 5 %: of shares exactly (Clopper and Pearson); of others by stretching the sides as a normal
    distribution's, but to no less than where examples that were not seen may lie.
    """
    widened = settled(kind, params, result)
    check = measured_so_far(0, kind, params, widened)

    def widen(name: str, estimate: Estimate) -> Estimate:
        metric = f"{kind}.{name}"
        found, value = ends(estimate), estimate.value
        if found is None or value is None or estimate.method == "exact":
            return estimate
        if estimate.method == "clopper-pearson":
            low, high = clopper_pearson(round(value * estimate.n), estimate.n, alpha=looks.level)
            return estimate.model_copy(update={"low": min(low, value), "high": max(high, value)})
        times = critical(looks.level) / Z
        below, above = times * (value - found[0]), times * (found[1] - value)
        span = range_of(metric, check)
        if estimate.method in LEAVING_ROOM and span is not None:
            n = examples_of(metric, check) or estimate.n
            missed = unseen_share(max(1, n), alpha=looks.level)
            below = max(below, missed * (value - min(span[0], value)))
            above = max(above, missed * (max(span[1], value) - value))
        limits = limits_of(described(metric), measured(metric, check))
        return within(estimate.model_copy(update={"low": value - below, "high": value + above}), *limits)

    estimates = {name: widen(name, one) for name, one in widened.estimates.items()}
    return widened.model_copy(update={"estimates": estimates, "looks": looks})
