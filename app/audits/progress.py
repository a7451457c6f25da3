"""How far an audit is, and how long it will still take.

What is done is counted in work: of every stage there may be, the forward passes its family says it takes, those of
stages that turn out not to be needed among what is done once it is known. So it never falls, whatever a stage before
made of the speed. Time follows from it: what is left takes as long as what was run took.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from app.audits.repository import RunningShard, StageWork
from seatrial.contracts.costs import OnDemand
from seatrial.contracts.states import PREFLIGHT, TERMINAL

NEARLY = 0.99
"""Share told of a check of which only the time is known, when it has taken all of that."""


@dataclass(frozen=True)
class Reached:
    """Which shares of all examples the stages of a check have reached.

    Attributes:
        now: Those of stages before the present one: the examples of the look that is measured for.
        before: Those that stages after it have reached at most: the examples of the look before.
        here: That of the present one's examples as they are cut so far.
        stages: That of each stage that has begun, likewise.
    """

    now: float = 1.0
    before: float = 0.0
    here: float = 1.0
    stages: Mapping[str, float] = field(default_factory=dict)


WHOLE = Reached()


@dataclass(frozen=True)
class Course:
    """Where a check stands among the stages there may be, in forward passes.

    Attributes:
        run: Of what was run, without the present stage.
        passed: The same, with what turned out not to be needed.
        here: Of all of the present stage.
        left: Of what follows.
        on_demand: Of what may be called for besides.
        told: Share of the present stage that was told as done before it began, since looks before had no use for it.
    """

    run: float
    passed: float
    here: float
    left: float
    on_demand: float = 0.0
    told: float = 0.0


class Standing(NamedTuple):
    """Where a check stands.

    Attributes:
        state: Of the check.
        stage: The present one.
        estimated_s: What the check was to take, at submission.
        work: Of the present stage.
        course: Where that stands among all; None where its family does not say what stages take.
        reached: Which shares of its examples its stages have reached.
    """

    state: str
    stage: str | None
    estimated_s: float | None
    work: StageWork
    course: Course | None = None
    reached: Reached = WHOLE


def course_of(
    costs: Mapping[str, float], stage: str | None, begun: Sequence[str], reached: Reached = WHOLE
) -> Course | None:
    """Return where a check stands; None where its present stage is none of those that are known.

    Args:
        costs: Forward passes of each stage, in the order in which they are run.
        stage: The present one.
        begun: Stages that have begun.
        reached: Which shares of their examples they have reached.

    >>> course_of({"a": 2.0, "b": 3.0, "c": 4.0}, "c", ["a", "c"])
    Course(run=2.0, passed=5.0, here=4.0, left=0.0, on_demand=0.0, told=0.0)
    """
    if stage is None or stage not in costs:
        return None
    place = list(costs).index(stage)
    shares = [reached.stages.get(name, 1.0) if name in begun else 0.0 for name in costs]
    # Looks that are passed over measure some stages and not those that follow; what was begun after a stage went by it.
    gone_by = [min(reached.before, max(shares[number:])) for number in range(len(shares))]
    run = passed = left = on_demand = 0.0
    for number, (name, cost) in enumerate(costs.items()):
        if name == stage:
            continue
        # One that is fitted, say, is fitted once and on all there is.
        share = max(reached.now if number < place else gone_by[number], shares[number])
        passed += cost * share
        if isinstance(cost, OnDemand) and name not in begun:
            on_demand += cost * (1 - share)
        else:
            left += cost * (1 - share)
        run += cost * share if name in begun else 0.0
    return Course(run, passed, costs[stage], left, on_demand, max([0.0, *gone_by[place + 1 :]]))


def share_of(standing: Standing, *, spent_s: float = 0.0) -> float | None:
    """Return which share of a check's work is done; None when nothing is known.

    Guarantee: it does not fall while stages follow each other, unless a worker is lost with what it had done. Of a
    family that does not say what its stages take it is the share of the estimated time, which may be over before.

    Args:
        standing: Of the check.
        spent_s: Seconds workers have spent on it.
    """
    state, stage, estimated_s, work, course, reached = standing
    if state in TERMINAL:
        return 1.0
    if course is not None:
        done = max(work.done * reached.here / work.total if work.total else 0.0, course.told)
        whole = course.passed + course.here + course.left + course.on_demand
        return (course.passed + course.here * done) / whole if whole else 0.0
    if stage in (None, PREFLIGHT):
        return 0.0
    return min(spent_s / estimated_s, NEARLY) if estimated_s else None


def overall(shares: Sequence[float | None], estimated_s: Sequence[float | None]) -> float | None:
    """Return which share of the work of checks together is done: each weighs what it was estimated to take.

    Args:
        shares: Of each.
        estimated_s: Of each, in seconds.

    >>> overall([1.0, 0.5], [30.0, 10.0]), overall([0.5], [None]), overall([1.0, 0.5], [30.0, None])
    (0.875, 0.5, None)
    """
    known, weights = [one for one in shares if one is not None], [one for one in estimated_s if one is not None]
    if all(share == 1.0 for share in shares):
        return 1.0
    if len(known) < len(shares):
        return None
    if len(known) == 1 or (len(weights) == len(shares) and not sum(weights)):
        weights = [1.0] * len(known)
    if len(weights) < len(shares):
        return None
    return round(sum(share * weight for share, weight in zip(known, weights, strict=True)) / sum(weights), 4)


def remaining_s(standing: Standing, *, now: datetime, lease_s: float | None = None) -> float | None:
    """Return the seconds a check will still take; 0 when it has ended, None when nothing is known.

    What was estimated at submission, less what earlier stages took, counts for the share of the stage that is not done,
    the speed seen so far for the share that is. The preflight says nothing about the speed of the attack. Where the
    family knows how the work is shared among its stages, the speed of all so far counts for all that are left. Examples
    done are known as of a worker's last sign of life, and so is the time they took: a worker that was killed does not
    slow the pace. Where looks are taken, all of them are counted, as if none decided it: what is left is a most, and
    does not grow when one has not; a stage that few checks run is counted once it runs.
    """
    state, stage, estimated_s, work, course, reached = standing
    if state in TERMINAL:
        return 0.0
    if estimated_s is not None:
        estimated_s = max(estimated_s - work.earlier_s, 0.0)
    at_once = max(len(work.running), 1)
    spent = work.seconds + sum(worked_s(shard, now, lease_s) for shard in work.running)
    total = work.total / reached.here
    if course is not None and total and (run := course.run + course.here * work.worked / total):
        left = course.here * (1 - work.done / total) + course.left
        return round(left * (work.earlier_s + spent) / run / at_once, 1)
    if stage in (None, PREFLIGHT) or not work.worked or spent <= 0:
        return estimated_s
    by_speed = (total - work.done) * spent / work.worked / at_once
    if estimated_s is None:
        return round(by_speed, 1)
    by_estimate = max(estimated_s - spent, 0.0)
    share = work.done / total
    return round(share * by_speed + (1 - share) * by_estimate, 1)


def spent_s(work: StageWork, now: datetime, lease_s: float | None) -> float:
    """Return the seconds workers have spent on a check, those of shards at once counted once."""
    running = sum(worked_s(shard, now, lease_s) for shard in work.running)
    return work.earlier_s + work.seconds + running / max(len(work.running), 1)


def worked_s(shard: RunningShard, now: datetime, lease_s: float | None) -> float:
    """Return the seconds a shard has been worked on, as of its worker's last sign of life."""
    seen_at = now.timestamp()
    if lease_s is not None and shard.lease_until is not None:
        seen_at = min(seen_at, shard.lease_until - lease_s)
    return max(seen_at - shard.began.timestamp(), 0.0)
