"""Audits made up of a few numbers."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result
from seatrial.contracts.policies import Judgement, Policy, PolicySource, Rule, RuleOutcome
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState
from seatrial.judging.verdict import Measured, MeasuredCheck, Pairing, judge
from seatrial.statistics.exact import clopper_pearson

SOURCE = PolicySource(id=None, name="release", version=None, digest="sha256:0")
SPAN, TEXT = "uncertainty_span", "temperature_attack"
MUS, ACCURACY = f"{SPAN}.mus_worst", f"{SPAN}.clean_accuracy"


def share(hits: int, n: int) -> Estimate:
    """A proportion as workers publish it."""
    low, high = clopper_pearson(hits, n)
    return Estimate(value=hits / n, low=low, high=high, n=n, method="clopper-pearson")


def gap(value: float, low: float, high: float, n: int = 500) -> Estimate:
    """A number whose interval is taken as it is stored."""
    return Estimate(value=value, low=low, high=high, n=n, method="paired")


def mean(value: float, low: float | None, high: float | None, n: int = 500) -> Estimate:
    """A mean as workers publish it."""
    return Estimate(value=value, low=low, high=high, n=n, method="none" if low is None else "gaffke")


def check(
    estimates: Mapping[str, Estimate],
    *flags: tuple[str, str],
    kind: str = SPAN,
    position: int = 0,
    params: Mapping[str, Any] | None = None,
    classes_nat: float | None = None,
    counts: Mapping[str, int] | None = None,
) -> MeasuredCheck:
    """A check that succeeded; flags are code and severity."""
    series = {} if classes_nat is None else {"entropy_histogram": {"edges": [0.0, classes_nat]}}
    raised = [Flag.model_validate({"code": code, "severity": severity, "message": code}) for code, severity in flags]
    result = Result(estimates=dict(estimates), series=series, flags=raised, counts=dict(counts or {}))
    return MeasuredCheck(position, kind, RunState.SUCCEEDED, result, None, params or {})


def broken(state: RunState, *, kind: str = SPAN, position: int = 0) -> MeasuredCheck:
    """A check without numbers."""
    problem = StoredProblem(code="out-of-memory", title="Out of memory", detail="one example is too much")
    return MeasuredCheck(position, kind, state, None, problem if state is RunState.FAILED else None, {})


def audit(*checks: MeasuredCheck, name: str = "aud_2") -> Measured:
    return Measured(name, checks)


def policy(*rules: Mapping[str, Any], **changes: Any) -> Policy:
    return Policy.model_validate({"name": "release", "rules": [Rule.model_validate(rule) for rule in rules], **changes})


def judged(
    measured: Measured,
    *rules: Mapping[str, Any],
    baseline: Measured | None = None,
    paired: Pairing | None = None,
    **changes: Any,
) -> Judgement:
    return judge(policy(*rules, **changes), SOURCE, measured, baseline=baseline, paired=paired)


def outcome(measured: Measured, rule: Mapping[str, Any], **how: Any) -> RuleOutcome:
    """The one outcome of one rule."""
    (found,) = judged(measured, rule, **how).rules
    return found
