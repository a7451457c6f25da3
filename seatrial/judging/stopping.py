"""Whether an audit may stop: every rule that blocks is decided, by interval, without a doubt, at this look.

Guarantee: what stops an audit is what its verdict is made of, so that all looks together decide a rule wrongly as often
as one look at the end may. Failing takes no more than an interval on the wrong side of the bound. Passing takes more,
since whoever wants a green light would have the audit end before a doubt shows: at least :data:`PASSING_FROM` examples,
no doubt at this look or any before it, and an order of the examples that nobody chose (seed 0). Whatever lacks one of
these goes on to the last look, which is a whole audit. Nor does it pass another policy later: it is written beside the
numbers (``may_pass``), and :func:`seatrial.judging.verdict.judge` reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seatrial.contracts.estimates import Looks, Result
from seatrial.contracts.policies import Policy, PolicySource, Rule, RuleOutcome
from seatrial.contracts.states import RunState
from seatrial.judging.as_asked import spare_scope
from seatrial.judging.evidence import is_decided
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.ranges import named
from seatrial.judging.verdict import TooManyNumbersError, doubts_about, judge

PASSING_FROM = 125
"""Examples a rule passes on at least before the last look: the fakes that ``benchmarks/gauntlet.py`` and
``gauntlet_text.py`` make up are caught with 40 images and 150 texts, and doubts are looked for on the first 64 to 100
examples of a check."""

UNCHOSEN_SEED = 0
"""The seed of an audit that names none. Another one orders the examples in another way, and of many orders one begins
with whatever somebody would like to be seen first."""

_NOBODYS = PolicySource(id=None, name="looks", version=None, digest="")


@dataclass(frozen=True)
class Look:
    """What was seen at a look.

    Attributes:
        is_open: Whether the next look is to be taken.
        is_doubted: Whether a doubt speaks of a number that a blocking rule is about, at this look or an earlier one.
        may_pass: Whether a rule may pass on it, whatever policy asks.
    """

    is_open: bool
    is_doubted: bool
    may_pass: bool


def take_look(
    policy: Policy,
    kinds: Sequence[str],
    check: MeasuredCheck,
    *,
    seed: int,
    was_doubted: bool,
    has_baseline: bool,
) -> Look:
    """Return whether a check has to be measured further for what the policy asks of it.

    Args:
        policy: What the audit is judged by when it ends.
        kinds: Families of all checks of the audit, in the order asked.
        check: What was measured so far; its result has ``looks``.
        seed: Of the audit.
        was_doubted: Whether a doubt was seen at an earlier look.
        has_baseline: Whether there is an audit that regressions would be measured from.
    """
    if check.result is None or check.result.looks is None:
        raise ValueError("a look is taken of a check that has numbers, and looks")
    looks, spared = check.result.looks, spare_scope(policy, check.kind, check.result.flags)
    result = check.result.model_copy(update={"flags": spared})
    check = replace(check, result=result)
    blocking = [rule for rule in policy.rules if rule.severity == "block" and named(rule.metric).family == check.kind]
    is_doubted = was_doubted or any(_doubts(rule, check, result, policy.doubts) for rule in blocking)
    if not looks.is_early:
        return Look(is_open=False, is_doubted=is_doubted, may_pass=True)
    may_pass = not is_doubted and may_pass_at(looks, seed)
    left_open = Look(is_open=True, is_doubted=is_doubted, may_pass=may_pass)
    sharing = _sharing(policy, kinds, check)
    compares = any(rule.max_regression is not None for rule in blocking)
    if not blocking or sharing is None or (compares and has_baseline):
        return left_open
    # Whether it is the check the policy is about is told of the audit: others of the policy's are not at hand here.
    alone = policy.model_copy(update={"rules": blocking, "correction": "none", "checks": []})
    try:
        outcomes = judge(alone, _NOBODYS, Measured("", [check])).rules
    except TooManyNumbersError:
        return left_open
    rules = [(blocking[outcome.rule], outcome) for outcome in outcomes]
    numbers = sum(outcome.p_value is not None for outcome in outcomes)
    times = sharing + numbers if policy.correction == "holm" else 1
    if any(not _is_closed(rule, outcome, times, may_pass=may_pass) for rule, outcome in rules):
        return left_open
    return Look(is_open=False, is_doubted=is_doubted, may_pass=may_pass)


def may_pass_at(looks: Looks, seed: int) -> bool:
    """Return whether an early look that nobody doubts may pass: of enough examples, drawn by a seed nobody chose."""
    return looks.examples >= PASSING_FROM and seed == UNCHOSEN_SEED


def measured_so_far(position: int, kind: str, params: Mapping[str, Any], result: Result) -> MeasuredCheck:
    """Return a check that is being looked at as one that has ended is judged."""
    return MeasuredCheck(position, kind, RunState.SUCCEEDED, result, None, params)


def _doubts(rule: Rule, check: MeasuredCheck, result: Result, asked: str) -> bool:
    return any(doubts_about(metric, result.flags, asked) for metric in check.published(named(rule.metric)))


def _sharing(policy: Policy, kinds: Sequence[str], check: MeasuredCheck) -> int | None:
    """Return how many numbers of other checks share the error rate at most; None where nobody knows yet.

    Holm's correction takes the smallest p values first, and those of checks that are still being measured are not
    known: each number gets an equal part of the error rate of its look (Bonferroni), which Holm never undercuts.
    """
    if policy.correction == "none":
        return 0
    count = 0
    for rule in (rule for rule in policy.rules if rule.severity == "block"):
        asked = named(rule.metric)
        others = sum(kind == asked.family for kind in kinds) - (asked.family == check.kind)
        if others and "*" in asked.qualifiers.values():
            return None
        count += others
    return count


def _is_out_of_reach(rule: Rule, outcome: RuleOutcome) -> bool:
    """Tell whether no number could miss a bound, which further examples do not change."""
    return rule.max is not None and outcome.highest is not None and rule.max >= outcome.highest


def _is_closed(rule: Rule, outcome: RuleOutcome, times: int, *, may_pass: bool) -> bool:
    """Tell whether more examples would leave the outcome of a rule as it is."""
    if rule.interval == "ignored":
        return False
    if outcome.outcome == "skipped" or _is_out_of_reach(rule, outcome):
        # Nothing in the audit measures it, or could miss it, however many examples there are.
        return True
    if outcome.outcome not in ("passed", "failed") or outcome.p_value is None or outcome.judged is None:
        return False
    if times > 1 and not is_decided(outcome.p_value * times):
        return False
    return outcome.outcome == "failed" or may_pass
