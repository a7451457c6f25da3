"""The reasons of a verdict as people read them: one sentence each."""

from collections.abc import Sequence
from typing import Literal

from seatrial.contracts.estimates import Estimate, Flag, Looks
from seatrial.contracts.policies import MetricName, Outcome, Rule
from seatrial.judging.evidence import ROUNDING, Evidence, Side
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.reporting.numbers import format_bound, format_interval, format_number
from seatrial.reporting.outcomes import further_in_words

_MANY = 8
_MOST_DEPARTURES = 3
_THAN_BEFORE = " worse than the baseline"


def requirement(rule: Rule) -> str:
    """Return what a rule asks, in words.

    >>> requirement(Rule.model_construct(max=None, min=None, max_regression=0.0))
    'not worse than the baseline'
    """
    if rule.min is not None:
        return f"at least {format_bound(rule.min)}"
    if rule.max is not None:
        return f"at most {format_bound(rule.max)}"
    if not rule.max_regression:
        return f"not{_THAN_BEFORE}"
    return f"at most {format_bound(rule.max_regression)}{_THAN_BEFORE}"


def expanded(asked: str, metric: str) -> str:
    """Return what tells the numbers a rule's ``*`` stands for apart."""
    return f" [{metric.partition('[')[2]}" if "*" in asked else ""


def no_family(family: str, audit: Measured) -> str:
    """Say that no check measures a metric."""
    there = ", ".join(dict.fromkeys(check.kind for check in audit.checks)) or "none"
    return f"the audit has no {family} check; its checks: {there}"


def other_check(family: str, departs: Sequence[str]) -> str:
    """Say that no check was run as the policy asks, and in what the nearest departs from that."""
    return f"the policy is about another {family} check than was run: {departed(departs)}; run the policy's checks"


def departed(departs: Sequence[str]) -> str:
    """Return in what a check departs from another, the first few of many.

    >>> departed(["steps is 5 and not 6"]), departed(["a", "b", "c", "d"])
    ('steps is 5 and not 6', 'a, b, c and 1 more')
    """
    more = f" and {len(departs) - _MOST_DEPARTURES} more" if len(departs) > _MOST_DEPARTURES else ""
    return f"{', '.join(departs[:_MOST_DEPARTURES])}{more}"


def no_metric(asked: MetricName, checks: Sequence[MeasuredCheck]) -> str:
    """Say that the checks' parameters did not produce a metric, and what there is of that name."""
    names = list(dict.fromkeys(name for check in checks if check.result for name in check.result.estimates))
    alike = [name for name in names if name.partition("[")[0] == asked.name] or names
    more = f" and {len(alike) - _MANY} more" if len(alike) > _MANY else ""
    return f"{asked.family} did not measure it with these parameters; it measured {', '.join(alike[:_MANY])}{more}"


def not_measured(check: MeasuredCheck, *, has_ended: bool) -> str:
    """Say that a check has no numbers, and why."""
    if not has_ended:
        return f"{check.kind} has not finished: it is {check.state.value}"
    problem = "" if check.error is None else f": {check.error.title}: {check.error.detail}"
    return f"{check.kind} {check.state.value}{problem}"


def by_value(value: float, bound: float, outcome: Outcome, side: Side, *, is_loss: bool) -> str:
    """Say how a value alone compares; the rule asked for no more."""
    said = _value_lies(value, bound, outcome, side)
    return f"{'a loss of ' if is_loss else ''}{said}; the rule ignores its interval"


def out_of_reach(highest: float) -> str:
    """Say why a bound says nothing.

    >>> out_of_reach(0.6931)
    'nothing can miss it here, where 0.693 is the most there is: give a bound below that'
    """
    return f"nothing can miss it here, where {highest:.3g} is the most there is: give a bound below that"


def undefined(estimate: Estimate) -> str:
    """Say why there is no number to judge.

    >>> undefined(Estimate(value=None, low=None, high=None, n=0, method="none"))
    'there is no number: no example of the sample counts towards it'
    """
    if not estimate.n:
        return "there is no number: no example of the sample counts towards it"
    return f"there is no number: it is undefined on the {estimate.n:,} examples that count towards it"


def no_interval(evidence: Evidence) -> str:
    """Say why a number decides nothing."""
    reason = "it has no interval, so how far it may be off is unknown"
    if evidence.judged.method != "none":
        reason = f"all {evidence.judged.n} examples have the same value, which says nothing about unseen ones"
    return reason + (f"; {evidence.why}" if evidence.why else "")


def by_interval(
    evidence: Evidence,
    bound: float,
    side: Side,
    outcome: Outcome,
    by_itself: Outcome,
    *,
    further: int | None,
    survivors: int | None,
    left: int | None,
    is_loss: bool,
) -> str:
    """Say how an interval compares; that of a loss is not the one measured, and is called so."""
    interval = f"{'of the loss ' if is_loss else ''}{format_interval(evidence.judged)}"
    if outcome != "inconclusive":
        right = "at most" if side == "max" else "at least"
        wrong = "above" if side == "max" else "below"
        reason = f"the whole interval {interval} is {right if outcome == 'passed' else wrong} {format_bound(bound)}"
    elif by_itself != "inconclusive":
        reason = f"on its own it would have {by_itself}; with Holm's correction for the other rules it is undecided"
    else:
        reason = f"the interval {interval} contains {format_bound(bound)}"
    if further is not None:
        reason += f"; {further_in_words(further, left, survivors)}"
    elif outcome == "inconclusive" and _is_at(evidence, bound):
        reason += "; the value lies at the bound itself, which no number of further examples would probably decide"
    return reason + (f"; {evidence.why}" if evidence.why else "")


def _is_at(evidence: Evidence, bound: float) -> bool:
    return evidence.judged.value is not None and abs(evidence.judged.value - bound) < ROUNDING


def after_looks(looks: Looks | None) -> str:
    """Say at how many examples of those asked for an audit was decided that stops then.

    >>> after_looks(Looks(sizes=[30, 60, 1000], alphas=[0.0125, 0.0125, 0.025], ended=2))
    '; after 60 of 1,000 examples, at look 2 of 3'
    """
    if looks is None:
        return ""
    return f"; after {looks.examples:,} of {looks.sizes[-1]:,} examples, at look {looks.ended} of {len(looks.sizes)}"


def too_early(reason: str) -> str:
    """Say that a rule would have passed, had the audit not stopped before one may."""
    return f"it does not pass, as another rule failed and the audit stopped before any may pass, though {reason}"


def open_end(estimate: Estimate, end: Literal["low", "high"]) -> str:
    """Say that an interval ends where the metric does."""
    return f"{estimate.n} examples do not bound it {'above' if end == 'high' else 'below'}: the end is the metric's own"


def doubted(reason: str, flags: Sequence[Flag]) -> str:
    """Say that a rule would have passed, had the check not been in doubt."""
    codes = ", ".join(dict.fromkeys(flag.code for flag in flags))
    return f"it does not pass, as the check is in doubt ({codes}), though {reason}"


def _value_lies(value: float, bound: float, outcome: Outcome, side: Side) -> str:
    right = "at most" if side == "max" else "at least"
    wrong = "above" if side == "max" else "below"
    return f"{format_number(value)} is {right if outcome == 'passed' else wrong} {format_bound(bound)}"
