"""Looks that leave a check open whatever else they would say: told from one number, before all others are worked out.

Near its bound a rule stays open at every look, and working out all numbers of each took a fifth of the time of a small
audit. A look that is passed over spends its error rate on nothing: that decides less, and never more. Whether a doubt
had shown at it is worked out once it matters, which is when a later look would end the check.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from seatrial.contracts.estimates import Looks
from seatrial.contracts.family import FamilySpec, Metric
from seatrial.contracts.policies import Policy, Rule
from seatrial.families.shared.per_example import NoMeanError, Records, read_values
from seatrial.judging.evidence import critical
from seatrial.judging.ranges import named
from seatrial.judging.stopping import PASSING_FROM, UNCHOSEN_SEED

Read = Callable[[str], pa.Table | None]


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
        read: Stage to its records as far as this look takes them; None where there are none.
        looks: The look it comes from.
        seed: Of the audit.
    """
    may_pass = looks.examples >= PASSING_FROM and seed == UNCHOSEN_SEED
    blocking = [one for one in policy.rules if one.severity == "block" and named(one.metric).family == spec.kind]
    return any(
        _leaves_open(rule, values, critical(looks.level), may_pass=may_pass)
        for rule in blocking
        if rule.max_regression is None and rule.interval == "required"
        for values in _means_of(rule, spec, params, read)
    )


def _means_of(rule: Rule, spec: FamilySpec, params: Mapping[str, Any], read: Read) -> Sequence[np.ndarray[Any, Any]]:
    """Return the values each number a rule is about is the mean of, as far as a family declares them."""
    asked, found = named(rule.metric), []
    for metric in spec.metrics:
        if metric.name != asked.name or set(metric.qualifiers) != set(asked.qualifiers):
            continue
        for qualifiers in _forms(metric, asked.qualifiers):
            try:
                values = read_values(metric, Records(params, qualifiers, read))
            except NoMeanError:
                continue
            if values is not None and values.decisions is None and len(values.values) > 1:
                found.append(values.values)
    return found


def _forms(metric: Metric, asked: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the qualifiers a rule asks for; of ``*``, those that are declared."""
    each = [metric.values.get(key, ()) if asked[key] == "*" else (asked[key],) for key in metric.qualifiers]
    return [dict(zip(metric.qualifiers, values, strict=True)) for values in product(*each)]


def _leaves_open(rule: Rule, values: np.ndarray[Any, Any], times: float, *, may_pass: bool) -> bool:
    bound = rule.max if rule.max is not None else rule.min
    if bound is None:
        return False
    value = float(values.mean())
    beyond = value - bound if rule.max is not None else bound - value
    if beyond <= 0 and not may_pass:
        return True
    return abs(beyond) < times * float(values.std()) / math.sqrt(len(values))
