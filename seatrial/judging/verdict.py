"""The verdict of a policy on an audit: the one function everything that shows a verdict shows the result of.

Guarantee: a rule passes only when the whole interval of a number that is not in doubt lies on the right side of the
bound. Nothing else passes: not a check that failed or was cancelled, not a number without an interval, not a policy
none of whose rules found anything to judge.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from seatrial.contracts.estimates import Estimate, Flag, Looks
from seatrial.contracts.policies import Judgement, Outcome, Policy, PolicySource, Rule, RuleOutcome, Verdict
from seatrial.contracts.registry import flags_of
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.judging import wording
from seatrial.judging.as_asked import Run, run_as_asked, spare_scope
from seatrial.judging.evidence import LEAVING_ROOM, Adjusted, Evidence, Side, correct, decide, is_decided, p_of
from seatrial.judging.headlines import headline
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.pairing import Pairing
from seatrial.judging.ranges import described, examples_of, highest_of, is_fixed, is_open, named, range_of
from seatrial.judging.regression import Comparison, Refusal, compare
from seatrial.judging.sample_size import further_examples
from seatrial.judging.two_phases import Prices, further_of, phases_of, prices_of
from seatrial.reporting.metric_labels import label_of

__all__ = ["Measured", "MeasuredCheck", "Pairing", "TooManyNumbersError", "judge", "least_favourable"]

MOST_NUMBERS = 10_000
"""Numbers the rules of a policy name in an audit: each is a line of the verdict, some 700 bytes that are stored."""

_DOUBTFUL = {"error": ("error",), "relevant": ("error",), "warning": ("error", "warning"), "ignored": ()}


class TooManyNumbersError(ValueError):
    """A verdict would have more lines than anybody reads."""


@dataclass(frozen=True)
class Finding:
    """What a rule found in the audit, before it is decided.

    Attributes:
        position: Of the rule.
        rule: The rule.
        metric: Full name.
        label: What people read.
        refusal: Why there is nothing to decide.
        estimate: The metric as measured.
        baseline: The baseline's.
        evidence: What is held against the bound.
        flags: Doubts about it.
        highest: The largest value there is, of what can be told as a share of it.
        looks: How the check was looked at, where it was to stop when it is decided.
        prices: Of one more example in either phase, of a share measured in two.
    """

    position: int
    rule: Rule
    metric: str
    label: str
    refusal: Refusal | None = None
    estimate: Estimate | None = None
    baseline: Estimate | None = None
    evidence: Evidence | None = None
    flags: Sequence[Flag] = ()
    highest: float | None = None
    looks: Looks | None = None
    prices: Prices | None = None


def judge(
    policy: Policy,
    source: PolicySource,
    audit: Measured,
    *,
    baseline: Measured | None = None,
    paired: Pairing | None = None,
    left: int | None = None,
    drawn: int | None = None,
) -> Judgement:
    """Return what a policy makes of an audit. Pure: the same numbers give the same verdict.

    Guarantee: with a metric exactly at its bound a rule passes at most 2.5 % of the time and fails at most 2.5 %, as
    far as the intervals hold (:mod:`seatrial.judging.evidence`); with Holm's correction any blocking rule is decided
    wrongly at most 5 % of the time. Failure: a rule whose interval holds the bound is ``inconclusive``, and says how
    many more examples would probably decide it.

    One outcome for each number a rule names: for every value of a ``*``, and for every check that publishes it. The
    verdict is made from ``counts_as`` of the blocking rules alone: any ``failed``, else any ``errored``, else any
    ``inconclusive``, else ``passed`` if any was judged. A skipped rule that is required counts as ``errored``, and one
    that is required ``if_run`` where a check of its family was run.

    Args:
        policy: What must hold.
        source: Where the policy is from.
        audit: What was measured.
        baseline: What regressions are measured from.
        paired: Records of both, for comparing them example by example.
        left: Examples of the dataset that the audit did not draw; None where that is not known.
        drawn: Examples that it drew: a number may rest on some of them alone, and then only so many of further ones
            count for it.

    Raises:
        TooManyNumbersError: The rules name more than ``MOST_NUMBERS``.
    """
    run = run_as_asked(policy, audit)
    named_numbers = (found for position, rule in enumerate(policy.rules) for found in _find(position, rule, audit, run))
    found = list(islice(named_numbers, MOST_NUMBERS + 1))
    if len(found) > MOST_NUMBERS:
        raise TooManyNumbersError(
            f"The rules name more than {MOST_NUMBERS:,} numbers of this audit, each value of a * and each check "
            "counted: name fewer, or audit fewer at a time."
        )

    # Two hundred rules may ask for one number, and pairing a million examples takes a second.
    compared: dict[tuple[str, int], Comparison | Refusal] = {}

    def regression(metric: str, estimate: Estimate, check: MeasuredCheck) -> Comparison | Refusal:
        key = metric, check.position
        if key not in compared:
            compared[key] = compare(metric, estimate, check, audit, baseline, paired)
        return compared[key]

    weighed = (_weigh(finding, check, regression) for finding, check in found)
    # The baseline's as well: a regression has both.
    findings = [replace(one, flags=spare_scope(policy, named(one.metric).family, one.flags)) for one in weighed]
    p_values = [_p_value(finding) for finding in findings]
    # What only warns makes no verdict wrong: it takes none of the error rate.
    sharing = [p if finding.rule.severity == "block" else None for finding, p in zip(findings, p_values, strict=True)]
    adjusted = correct(sharing) if policy.correction == "holm" else [None] * len(findings)
    rules = [
        _decide(finding, p, held, doubts_about(finding.metric, finding.flags, policy.doubts), left, drawn)
        for finding, p, held in zip(findings, p_values, adjusted, strict=True)
    ]
    verdict = _verdict(rules)
    return Judgement(
        audit=audit.audit,
        verdict=verdict,
        headline=headline(verdict, rules, doubts=_passed_over(findings, rules)),
        rules=rules,
        policy=source,
        baseline=None if baseline is None else baseline.audit,
    )


def _passed_over(findings: Sequence[Finding], rules: Sequence[RuleOutcome]) -> list[str]:
    """Return the codes of flags that speak of numbers which passed all the same, as the policy asks."""
    passed = [one for one, rule in zip(findings, rules, strict=True) if rule.counts_as == "passed"]
    doubts = (doubts_about(one.metric, one.flags, "relevant") for one in passed if one.rule.severity == "block")
    return list(dict.fromkeys(flag.code for flags in doubts for flag in flags))


def _verdict(rules: Sequence[RuleOutcome]) -> Verdict:
    # Where everything was skipped, nothing was tested.
    return least_favourable(rule.counts_as for rule in rules if rule.severity == "block") or "errored"


def least_favourable(outcomes: Iterable[Outcome | None]) -> Verdict | None:
    """Return the verdict on things that must all pass; None where there is nothing to tell.

    >>> least_favourable(["passed", None, "inconclusive"]), least_favourable([None])
    ('inconclusive', None)
    """
    found = set(outcomes)
    verdicts: tuple[Verdict, ...] = ("failed", "errored", "inconclusive", "passed")
    return next((verdict for verdict in verdicts if verdict in found), None)


def _find(
    position: int, rule: Rule, audit: Measured, run: Mapping[str, Run]
) -> Iterator[tuple[Finding, MeasuredCheck | None]]:
    """Yield a finding for each number the rule names, or for each reason why there is none.

    Args:
        position: Of the rule.
        rule: The rule.
        audit: Where to look.
        run: The checks it may be judged by, by family.
    """
    asked = named(rule.metric)
    nothing = Finding(position, rule, rule.metric, rule.label or label_of(rule.metric))
    if asked.family not in run:
        yield replace(nothing, refusal=Refusal("skipped", wording.no_family(asked.family, audit), "no_check")), None
        return
    checks, departure = run[asked.family]
    if departure:
        yield replace(nothing, refusal=Refusal("errored", wording.other_check(asked.family, departure))), None
        return
    is_found = False
    for check in checks:
        which = f" (check {check.position})" if len(checks) > 1 else ""
        if check.state != RunState.SUCCEEDED or check.result is None:
            is_found = True
            refusal = Refusal("errored", wording.not_measured(check, has_ended=check.state in TERMINAL))
            yield replace(nothing, label=nothing.label + which, refusal=refusal), None
            continue
        for metric, estimate in check.published(asked).items():
            is_found = True
            label = label_of(metric) if rule.label is None else rule.label + wording.expanded(rule.metric, metric)
            found = replace(nothing, metric=metric, label=label + which, estimate=estimate, flags=check.result.flags)
            yield replace(found, highest=highest_of(metric, check), looks=check.looks), check
    if not is_found:
        refusal = Refusal("skipped", wording.no_metric(asked, checks), "not_set_to_measure")
        yield replace(nothing, refusal=refusal), None


def _weigh(
    finding: Finding,
    check: MeasuredCheck | None,
    regression: Callable[[str, Estimate, MeasuredCheck], Comparison | Refusal],
) -> Finding:
    """Return the finding with what is held against the bound, or with why nothing is."""
    estimate = finding.estimate
    if check is None or estimate is None:
        return finding
    if estimate.value is None:
        return replace(finding, refusal=Refusal("errored", wording.undefined(estimate)))
    if finding.rule.max_regression is None:
        side, bound = _asked(finding.rule)
        # Nats end where the classes or the passes do: whoever wrote the bound may have had more of them in mind.
        if side == "max" and finding.highest is not None and bound >= finding.highest:
            return replace(finding, refusal=Refusal("errored", wording.out_of_reach(finding.highest)))
        end: Literal["low", "high"] = "high" if side == "max" else "low"
        why = wording.open_end(estimate, end) if is_open(estimate, finding.metric, check, end) else ""
        phases = phases_of(finding.metric, estimate, check)
        evidence = Evidence(estimate, is_fixed=is_fixed(finding.metric), why=why, level=check.level, phases=phases)
        if estimate.method in LEAVING_ROOM:
            span, examples = range_of(finding.metric, check), examples_of(finding.metric, check)
            evidence = replace(evidence, span=span, examples=examples)
        prices = None if phases is None else prices_of(check)
        return replace(finding, evidence=evidence, prices=prices)
    found = regression(finding.metric, estimate, check)
    if isinstance(found, Refusal):
        return replace(finding, refusal=found)
    return replace(finding, evidence=found.evidence, baseline=found.baseline, flags=[*finding.flags, *found.flags])


def _asked(rule: Rule) -> tuple[Side, float]:
    """Return which side of which bound is right."""
    if rule.min is not None:
        return "min", rule.min
    bound = rule.max if rule.max is not None else rule.max_regression
    if bound is None:
        raise AssertionError("unreachable: a rule asks for one of the three")
    return "max", bound


def _p_value(finding: Finding) -> float | None:
    if finding.evidence is None or finding.rule.interval == "ignored":
        return None
    side, bound = _asked(finding.rule)
    return p_of(finding.evidence, bound, side)


def doubts_about(metric: str, flags: Sequence[Flag], asked: str) -> list[Flag]:
    """Return the flags that keep a rule from passing.

    Args:
        metric: Full name of what the rule is about.
        flags: Of the check.
        asked: Which count, as the policy says.
    """
    return [flag for flag in flags if _is_doubt(metric, flag, asked)]


def _is_doubt(metric: str, flag: Flag, asked: str) -> bool:
    asked_of = named(metric)
    known = flags_of(asked_of.family).get(flag.code)
    if flag.severity in _DOUBTFUL[asked]:
        # A policy that takes warnings for doubts asks for checks without any.
        return asked == "warning" or known is None or asked_of.name not in known.spares
    # What an earlier version flagged, and nobody can look up any more, may be about anything.
    is_relevant = asked == "relevant" and flag.severity == "warning"
    return is_relevant and (known is None or known.doubts(asked_of.name))


def _decide(
    finding: Finding,
    p: float | None,
    held: Adjusted | None,
    doubts: Sequence[Flag],
    left: int | None,
    drawn: int | None,
) -> RuleOutcome:
    rule, evidence, refusal = finding.rule, finding.evidence, finding.refusal
    if finding.looks is not None:
        drawn = finding.looks.examples
        left = None if left is None else left + finding.looks.sizes[-1] - drawn
    side, bound = _asked(rule)
    is_loss = finding.baseline is not None
    further: int | None = None
    survivors: int | None = None
    outcome: Outcome
    if refusal is not None or evidence is None or evidence.judged.value is None:
        outcome, reason = ("errored", "there is no number") if refusal is None else (refusal.outcome, refusal.reason)
    elif rule.interval == "ignored":
        value = evidence.judged.value
        outcome = decide((value, value), bound, side)
        reason = wording.by_value(value, bound, outcome, side, is_loss=is_loss)
    elif evidence.interval is None:
        outcome, reason = "inconclusive", wording.no_interval(evidence)
    else:
        outcome = by_itself = decide(evidence.interval, bound, side)
        if held is not None and not is_decided(held.p):
            outcome = "inconclusive"
        if outcome == "inconclusive":
            further, survivors = _further(finding, evidence, bound, held, left, drawn)
        reason = wording.by_interval(
            *(evidence, bound, side, outcome, by_itself),
            further=further,
            survivors=survivors,
            left=left,
            is_loss=is_loss,
        )
        reason += wording.after_looks(finding.looks)
    has_interval = evidence is not None and evidence.interval is not None
    counts_as = _counts_as(rule, outcome, refusal, has_interval=has_interval)
    if counts_as == "passed" and finding.looks is not None and finding.looks.is_early and not finding.looks.may_pass:
        outcome = counts_as = "inconclusive"
        reason = wording.too_early(reason)
    if counts_as == "passed" and doubts:
        outcome = counts_as = "errored"
        further, survivors, reason = None, None, wording.doubted(reason, doubts)
    return RuleOutcome(
        rule=finding.position,
        label=finding.label,
        metric=finding.metric,
        severity=rule.severity,
        requirement=wording.requirement(rule),
        bound=bound,
        unit=described(finding.metric).unit if finding.estimate is not None else "",
        highest=finding.highest,
        outcome=outcome,
        counts_as=counts_as,
        estimate=finding.estimate,
        baseline=finding.baseline,
        judged=None if evidence is None else evidence.judged,
        p_value=p if held is None else held.p,
        further_examples=further,
        further_survivors=survivors,
        available_examples=None if further is None else left,
        reason=reason,
        unmeasured=None if refusal is None else refusal.unmeasured,
        looks=finding.looks,
    )


def _further(
    finding: Finding, evidence: Evidence, bound: float, held: Adjusted | None, left: int | None, drawn: int | None
) -> tuple[int | None, int | None]:
    """Return the further examples, and survivors of a first phase, that would decide a rule."""
    times = 1 if held is None else held.times
    if evidence.phases is not None and finding.prices is not None:
        return further_of(evidence, bound, finding.prices, times=times, most=left) or (None, None)
    further = further_examples(evidence, bound, times=times)
    if further is not None and drawn is not None and 0 < evidence.judged.n < drawn:
        further = math.ceil(further * drawn / evidence.judged.n)
    return further, None


def _counts_as(rule: Rule, outcome: Outcome, refusal: Refusal | None, *, has_interval: bool) -> Outcome:
    if outcome == "inconclusive" and rule.undecided == "fail":
        return "failed"
    # What has no interval is not an open question but no answer at all: it never counts for the model.
    if outcome == "inconclusive" and rule.undecided == "pass" and has_interval:
        return "passed"
    is_run = refusal is not None and refusal.unmeasured != "no_check"
    is_required = is_run if rule.required == "if_run" else rule.required
    return "errored" if outcome == "skipped" and is_required else outcome
