"""The first sentence of a verdict: whether the model may ship, and why not."""

from collections.abc import Sequence

from seatrial.contracts.policies import RuleOutcome, Verdict
from seatrial.judging.ranges import described, named
from seatrial.reporting.outcomes import further_in_words
from seatrial.reporting.quantities import Quantity, quantity_of
from seatrial.reporting.words import enumerate_words

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
    """Return whether the model may ship, and what decided it, in one sentence.

    Args:
        verdict: Of the policy.
        rules: Their outcomes.
        doubts: Codes of flags about numbers that passed by a policy that looks past them.
    """
    blocking = [rule for rule in rules if rule.severity == "block"]
    # What was skipped warns of nothing.
    warned = sum(rule.severity == "warn" and rule.counts_as not in ("passed", "skipped") for rule in rules)
    deciding = [rule for rule in blocking if rule.counts_as == verdict]
    if verdict == "passed":
        warnings = f" ({warned} {'warning' if warned == 1 else 'warnings'})" if warned else ""
        said = enumerate_words([code.replace("_", " ") for code in dict.fromkeys(doubts)])
        doubted = f", though flags cast doubt on this ({said})" if doubts else ""
        return f"May ship: {_held(deciding)}{warnings}{_applied(rules)}{doubted}."
    if not deciding:
        return "Could not be judged: the audit measured nothing that a blocking rule asks for, so nothing was tested."
    first, more = deciding[0], len(deciding) - 1
    others = f"; {more} more {'rule' if more == 1 else 'rules'} {_ALSO[verdict]}" if more else ""
    # Of an errored verdict the first reason says it.
    applied = "" if verdict == "errored" else _applied(rules)
    return f"{_SAID[verdict]}: {_explain(first)}{others}{applied}."


def _applied(rules: Sequence[RuleOutcome]) -> str:
    asked = {rule.rule for rule in rules}
    judged = {rule.rule for rule in rules if rule.outcome != "skipped"}
    return f"; {len(judged)} of {len(asked)} rules applied" if judged != asked else ""


def _held(rules: Sequence[RuleOutcome]) -> str:
    held = [rule for rule in rules if rule.outcome == "passed"]
    undecided = len(rules) - len(held)
    told = []
    if len(held) == 1 and not undecided:
        told.append(_explain(held[0]))
    elif held:
        some_held = f"{len(held)} of {len(rules)} numbers {'is' if len(held) == 1 else 'are'}"
        all_held = "both numbers are" if len(held) == 2 else f"all {len(held)} numbers are"
        told.append(f"{some_held if undecided else all_held} within bounds")
    if undecided:
        told.append(f"{undecided} undecided {'number counts' if undecided == 1 else 'numbers count'} as passed")
    return ", ".join(told)


def _explain(rule: RuleOutcome) -> str:
    quantity = quantity_of(rule)
    if quantity is None or rule.outcome == "errored":
        return f"{_subject(rule)}: {rule.reason}"
    said = _claim(rule, quantity)
    if rule.outcome == "inconclusive" and quantity.low and quantity.high:
        said += f" (between {quantity.low} and {quantity.high})"
    said += f"; {_allowed(rule, quantity)}"
    if rule.outcome == "inconclusive" and rule.counts_as == "failed":
        return f"{said}; undecided counts as failed"
    if rule.further_examples is not None:
        return f"{said}; {further_in_words(rule.further_examples, rule.available_examples)}"
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
    return claim.format(value=quantity.value, **named(rule.metric).qualifiers)


def _allowed(rule: RuleOutcome, quantity: Quantity) -> str:
    if rule.baseline is not None and not rule.bound:
        return "the policy allows no loss"
    if rule.requirement.startswith("at least"):
        return f"the policy asks for at least {quantity.bound}"
    return f"the policy allows at most {quantity.bound}"
