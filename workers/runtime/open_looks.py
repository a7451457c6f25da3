"""Looks that leave a check open whatever else they would say: told from one number, before all others are worked out.

Near its bound a rule stays open at every look, and working out all numbers of each took a fifth of the time of a small
audit. A look that is passed over spends its error rate on nothing: that decides less, and never more. It is passed over
as soon as the stages that number is read from have reached it; the others go on from where they were to a later look.
Whether a doubt had shown at it is worked out once it matters, which is when a later look would end the check.

A look that most likely leaves it open is passed over before anything is measured for it: by a look that was taken, of
one mean after twice or four times the examples (:func:`following`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from seatrial.contracts.estimates import Looks
from seatrial.contracts.family import FamilySpec, Metric
from seatrial.contracts.policies import Policy, Rule
from seatrial.families.shared.per_example import NoMeanError, Records, read_values
from seatrial.judging.evidence import critical
from seatrial.judging.ranges import named
from seatrial.judging.stopping import may_pass_at
from seatrial.statistics.normal import normal_cdf
from seatrial.statistics.samples import ByColumn

Read = Callable[[str], ByColumn | None]

UNLIKELY = 0.05
"""Chance to end a check under which a look is not worth what it costs: claims, records read back, and shards."""


class NotReachedError(Exception):
    """A stage has not got as far as the look, or nobody knows yet whether there will be one."""


def is_surely_open(
    policy: Policy, spec: FamilySpec, params: Mapping[str, Any], read: Read, looks: Looks, *, seed: int
) -> bool:
    """Tell whether some rule that blocks is open at a look, by means over examples alone.

    True where the mean is nearer to the bound than a normal distribution's interval reaches, which is narrower than any
    an audit has, or on the side of passing while nothing may pass yet. False says nothing.

    Args:
        policy: What the audit is judged by.
        spec: The family.
        params: Of the check, as stored.
        read: Stage to its records as far as this look takes them; None where there are none. May raise
            :class:`NotReachedError`: nothing is said of numbers that are read from such a stage.
        looks: The look it comes from.
        seed: Of the audit.
    """
    means = _means_beside_bounds(policy, spec, params, read)
    times, may_pass = critical(looks.level), may_pass_at(looks, seed)
    return any(
        (one.beyond <= 0 and not may_pass) or abs(one.beyond) < times * one.deviation / math.sqrt(one.examples)
        for one in means
    )


def following(
    policy: Policy, spec: FamilySpec, params: Mapping[str, Any], read: Read, looks: Looks, *, seed: int
) -> Looks:
    """Return the look to take after one that left a check open: the next that is not :data:`UNLIKELY` to end it.

    Chances are those of a normal distribution: of the mean of so many examples, from that of the first ones.

    Args:
        policy: What the audit is judged by.
        spec: The family.
        params: Of the check, as stored.
        read: As for :func:`is_surely_open`.
        looks: The look that was taken, not the last one.
        seed: Of the audit.
    """
    means = _means_beside_bounds(policy, spec, params, read)
    later = looks.model_copy(update={"ended": looks.ended + 1})
    while later.is_early and any(_chance(one, later, may_pass=may_pass_at(later, seed)) < UNLIKELY for one in means):
        later = later.model_copy(update={"ended": later.ended + 1})
    return later


@dataclass(frozen=True)
class _Mean:
    """A mean that a rule bounds.

    Attributes:
        beyond: How far it is on the side of failing; less than 0, of passing.
        deviation: Standard deviation over examples.
        examples: That it is of.
    """

    beyond: float
    deviation: float
    examples: int


def _chance(mean: _Mean, later: Looks, *, may_pass: bool) -> float:
    """Return the chance that a later look has its interval on one side of the bound."""
    n = later.examples
    if n <= mean.examples:
        return 1.0
    if mean.deviation == 0:
        # They are all alike, and may go on so.
        return float(mean.beyond > 0 or (may_pass and mean.beyond < 0))
    # Of the later mean about the earlier: the examples to come vary, and so does what is known of their mean.
    spread = mean.deviation * math.sqrt(1 / mean.examples - 1 / n)
    side = critical(later.level) * mean.deviation / math.sqrt(n)
    failing = normal_cdf((mean.beyond - side) / spread)
    return failing + (normal_cdf((-mean.beyond - side) / spread) if may_pass else 0.0)


def _means_beside_bounds(policy: Policy, spec: FamilySpec, params: Mapping[str, Any], read: Read) -> list[_Mean]:
    """Return the means that rules which block are about, as far as the family declares them."""
    found = []
    for rule in policy.rules:
        bound = rule.max if rule.max is not None else rule.min
        is_bounded = bound is not None and rule.max_regression is None and rule.interval == "required"
        if bound is None or not is_bounded or rule.severity != "block" or named(rule.metric).family != spec.kind:
            continue
        for values in _means_of(rule, spec, params, read):
            value = float(values.mean())
            beyond = value - bound if rule.max is not None else bound - value
            found.append(_Mean(beyond, float(values.std()), len(values)))
    return found


def _means_of(rule: Rule, spec: FamilySpec, params: Mapping[str, Any], read: Read) -> Sequence[np.ndarray[Any, Any]]:
    """Return the values each number a rule is about is the mean of, as far as a family declares them."""
    asked, found = named(rule.metric), []
    for metric in spec.metrics:
        if metric.name != asked.name or set(metric.qualifiers) != set(asked.qualifiers):
            continue
        for qualifiers in _forms(metric, asked.qualifiers):
            try:
                values = read_values(metric, Records(params, qualifiers, read))
            except (NoMeanError, NotReachedError):
                continue
            if values is not None and values.decisions is None and len(values.values) > 1:
                found.append(values.values)
    return found


def _forms(metric: Metric, asked: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the qualifiers a rule asks for; of ``*``, those that are declared."""
    each = [metric.values.get(key, ()) if asked[key] == "*" else (asked[key],) for key in metric.qualifiers]
    return [dict(zip(metric.qualifiers, values, strict=True)) for values in product(*each)]
