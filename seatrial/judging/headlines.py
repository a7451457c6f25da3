"""The first sentence of a verdict: whether the model may ship, and why not."""

from collections.abc import Sequence

from seatrial.contracts.policies import RuleOutcome, Unmeasured, Verdict
from seatrial.judging.ranges import described, named
from seatrial.reporting.outcomes import applied_rules, further_in_words
from seatrial.reporting.quantities import Quantity, quantity_of
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import enumerate_words

MOST_NAMED = 3
"""Rules that decided a verdict are named in its headline while they are no more than these."""

_SAID: dict[Verdict, str] = {
    "failed": "Do not ship",
    "inconclusive": "Not decided",
    "errored": "Could not be judged",
}

_ALSO: dict[Verdict, str] = {
    "failed": "failed as well",
    "inconclusive": "undecided as well",
    "errored": "could not be judged either",
}


def headline(verdict: Verdict, rules: Sequence[RuleOutcome], *, doubts: Sequence[str] = ()) -> str:
    """Return whether the model may ship, and what decided it, in a sentence; doubts, or rules left out, are another.

    What is counted is rules: those it says ask for something else are those that tables fold into a line
    (:func:`seatrial.reporting.outcomes.not_measured_in_words`), and the others are all the rest.

    Args:
        verdict: Of the policy.
        rules: Their outcomes.
        doubts: Codes of flags about numbers that passed by a policy that looks past them.
    """
    blocking = [rule for rule in rules if rule.severity == "block"]
    deciding = [rule for rule in blocking if rule.counts_as == verdict]
    if verdict == "passed":
        said = enumerate_words([code.replace("_", " ") for code in dict.fromkeys(doubts)])
        if doubts:
            # A policy may look past them. Whoever signs a release by its first words must not.
            doubt = f" This policy looks past flags that speak of it: {said}."
            return f"Passed, but in doubt: {_held(rules)}.{doubt}{_left_out(rules)}"
        return f"May ship: {_held(rules)}.{_left_out(rules)}"
    if not deciding:
        return "Could not be judged: the audit measured nothing that a blocking rule asks for, so nothing was tested."
    # Of an errored verdict the first reason says it.
    left_out = "" if verdict == "errored" else _left_out(rules)
    if verdict == "errored" and len(deciding) > 1 and len({rule.reason for rule in deciding}) == 1:
        # One check that failed leaves many rules without a number: they add nothing to why.
        return f"{_SAID[verdict]}: {deciding[0].reason}."
    return f"{_SAID[verdict]}: {_explain(deciding[0])}{_others(deciding, _ALSO[verdict])}.{left_out}"


_LACKING: dict[Unmeasured | None, tuple[str, str]] = {
    "no_check": ("another check", "other checks"),
    "not_set_to_measure": ("a number that was not measured", "numbers that were not measured"),
    "no_baseline": ("a baseline", "a baseline"),
    # Of a judgement that an earlier version stored.
    None: ("a number that was not measured", "numbers that were not measured"),
}


def _left_out(rules: Sequence[RuleOutcome]) -> str:
    """Say that the policy has rules about something else, as a sentence: not that something went untested."""
    judged = applied_rules(rules)
    others = {rule.rule: rule.unmeasured for rule in rules if rule.rule not in judged}
    if not others:
        return ""
    is_one = len(others) == 1
    lacking = [names[not is_one] for cause, names in _LACKING.items() if cause in others.values()]
    wanted = enumerate_words(dict.fromkeys(lacking), "or")
    if is_one:
        return f" The policy's other rule asks for {wanted}."
    return f" The policy's other {len(others):,} rules ask for {wanted}."


def _others(deciding: Sequence[RuleOutcome], also: str) -> str:
    """Say what else decided as the first did, by name where there are few."""
    rules: dict[str, set[int]] = {}
    for rule in deciding:
        rules.setdefault(rule.label, set()).add(rule.rule)
    # Two rules on one number have one name; what they ask tells them apart.
    names = [rule.label if len(rules[rule.label]) == 1 else f"{rule.label} ({rule.requirement})" for rule in deciding]
    others = list(dict.fromkeys(name for name in names[1:] if name != names[0]))
    if not others:
        return ""
    if len(others) <= MOST_NAMED - 1:
        return f"; {also}: {enumerate_words(others)}"
    more = len({rule.rule for rule in deciding} - {deciding[0].rule})
    # A rule with a * is about many numbers, and none of another rule need be among them.
    told = f"{more:,} more {'rule' if more == 1 else 'rules'}" if more else f"{len(others):,} more numbers of this rule"
    return f"; {also}: {told}"


def _held(rules: Sequence[RuleOutcome]) -> str:
    """Say which of the rules that applied hold; those that only warn are among them."""
    by_rule: dict[int, list[RuleOutcome]] = {}
    judged = applied_rules(rules)
    for rule in rules:
        if rule.rule in judged and rule.counts_as != "skipped":
            by_rule.setdefault(rule.rule, []).append(rule)
    numbers = [rule for rule in rules if rule.severity == "block" and rule.counts_as == "passed"]
    held = sum(all(one.outcome == "passed" for one in found) for found in by_rule.values())
    # What counts as passed in a policy that lets an undecided rule pass; a warning is one however it counts.
    warned = sum(
        found[0].severity == "warn" and any(one.counts_as != "passed" for one in found) for found in by_rule.values()
    )
    undecided, there = len(by_rule) - held - warned, len(by_rule)
    warnings = f" ({warned} {'warning' if warned == 1 else 'warnings'})" if warned else ""
    if len(numbers) == 1 and not undecided:
        return _explain(numbers[0]) + warnings
    told = []
    if held == there == 1:
        told.append(f"{_all(len(numbers))} numbers of the rule are within bounds")
    elif held == there:
        told.append(f"{_all(held)} rules {'about what was measured ' if _left_out(rules) else ''}hold")
    elif held:
        told.append(f"{held} of {there} rules {'holds' if held == 1 else 'hold'}")
    if undecided:
        told.append(f"{undecided} undecided {'rule counts' if undecided == 1 else 'rules count'} as passed")
    return ", ".join(told) + warnings


def _all(number: int) -> str:
    return "both" if number == 2 else f"all {number:,}"


def _explain(rule: RuleOutcome) -> str:
    quantity = quantity_of(rule)
    if quantity is None or rule.outcome == "errored":
        return f"{_subject(rule)}: {rule.reason}"
    said = _claim(rule, quantity)
    if rule.outcome == "inconclusive" and quantity.low and quantity.high:
        said += f" (between {_end(rule, quantity.low)} and {_end(rule, quantity.high)})"
    said += f"; {_allowed(rule, quantity)}"
    if rule.outcome == "inconclusive" and rule.counts_as == "failed":
        return f"{said}; undecided counts as failed"
    if rule.further_examples is not None:
        return f"{said}; {further_in_words(rule.further_examples, rule.available_examples, rule.further_survivors)}"
    return said


def _subject(rule: RuleOutcome) -> str:
    return rule.metric if rule.label == rule.metric else f"{rule.label} ({rule.metric})"


def _claim(rule: RuleOutcome, quantity: Quantity) -> str:
    if rule.baseline is not None:
        if quantity.is_negative:
            return f"{_subject(rule)} is {quantity.value} better than the baseline's"
        return f"{_subject(rule)} is {quantity.value} worse than the baseline's"
    claim = described(rule.metric).claim
    if not claim:
        return f"{_subject(rule)} is {quantity.value}"
    qualifiers = {key: value_words(key, value) for key, value in named(rule.metric).qualifiers.items()}
    return claim.format(value=quantity.value, **qualifiers)


def _end(rule: RuleOutcome, end: str) -> str:
    """Return an end of an interval; one of a loss says which way it lies, as the sentence may be about a gain."""
    if rule.baseline is None:
        return end
    return f"{end.removeprefix('-')} {'better' if end.startswith('-') else 'worse'}"


def _allowed(rule: RuleOutcome, quantity: Quantity) -> str:
    if rule.baseline is not None and not rule.bound:
        return "the policy allows no loss"
    if rule.requirement.startswith("at least"):
        return f"the policy asks for at least {quantity.bound}"
    return f"the policy allows at most {quantity.bound}"
