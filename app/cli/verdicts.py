"""Verdicts and estimates as text."""

from collections.abc import Iterator, Sequence

import click

from app.cli.showing import echo_line, echo_styled
from seatrial.contracts.audits import AuditEstimate
from seatrial.contracts.policies import Judgement, Outcome, RuleOutcome
from seatrial.reporting.durations import duration, expected_range
from seatrial.reporting.numbers import format_estimate
from seatrial.reporting.outcomes import applied, format_loss, not_measured, not_measured_in_words, rounded_up
from seatrial.reporting.sizes import size
from seatrial.terminals import escaped_line

PROMOTE = "seatrial baselines promote AUDIT makes one"
"""How a rule about the baseline gets one."""

_COLUMNS = ("rule", "value", "requirement", "outcome", "further examples")
_COLOURS: dict[Outcome, str] = {"passed": "green", "failed": "red", "inconclusive": "yellow", "errored": "magenta"}


def print_judgement(
    judgement: Judgement, *, promote: str = PROMOTE, notes: Sequence[str] = (), page: str | None = None
) -> None:
    """Print a verdict: a line per rule, the reasons of those that do not hold, the headline.

    Args:
        judgement: The verdict.
        promote: Printed where a number could not be compared because nothing has been promoted yet; nothing if empty.
        notes: What stands beside the verdict, a line each: how the examples were attacked, what a unit is.
        page: Where the console shows the audit; None where it does not.
    """
    rules, others = applied(judgement), not_measured(judgement)
    rows = [_COLUMNS, *(tuple(map(escaped_line, _row(rule))) for rule in rules)] if rules else []
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(_COLUMNS))]
    outcomes: list[Outcome | None] = [None, *(rule.outcome for rule in rules)] if rules else []
    for row, outcome in zip(rows, outcomes, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if outcome in _COLOURS:
            # What is padding stays without colour, so that the end of a line can be cut.
            cells[3] = click.style(row[3], fg=_COLOURS[outcome]) + " " * (widths[3] - len(row[3]))
        echo_styled("  ".join(cells).rstrip())
    if others:
        echo_line(not_measured_in_words(others))
    for line in _reasons(rules):
        echo_line(line)
    if promote and _lacks_baseline(judgement):
        echo_line(f"There is no baseline to compare with: {promote}.")
    echo_line()
    for line in (judgement.policy.description, *notes):
        if line:
            echo_line(line)
    if page:
        echo_line(f"In the console: {page}")
    # The verdict is the last line, which pipelines cut out.
    echo_line(judgement.headline)


def print_estimate(estimate: AuditEstimate, *, err: bool) -> None:
    """Print what an audit would cost."""
    time = "unknown until a worker has checked the model"
    if estimate.seconds is not None:
        told = duration(estimate.seconds)
        time = told if told.startswith("under") else f"about {told}"
    costs = [f"{estimate.examples:,} examples", f"{estimate.forward_passes:,} forward passes"]
    if estimate.backward_passes:
        costs.append(f"{estimate.backward_passes:,} backward passes")
    if estimate.queries:
        costs.append(f"{estimate.queries:,} queries")
    if estimate.least_seconds is not None and duration(estimate.least_seconds) != duration(estimate.seconds or 0):
        time += f", {duration(estimate.least_seconds)} if decided at the first look"
    # Between less than a second and less than a second nothing is said.
    if estimate.seconds_low is not None and estimate.seconds_high is not None and estimate.seconds_high >= 0.5:
        time += f"; {expected_range(estimate.seconds_low, estimate.seconds_high)}"
    memory = (
        "" if estimate.memory_bytes is None else f". Memory for model and batch: at most {size(estimate.memory_bytes)}"
    )
    echo_line(f"At most: {', '.join(costs)}. Time on one worker, by estimate: {time}{memory}", err=err)
    for kind, audit in ((one["kind"], one["reused"]["audit"]) for one in estimate.checks if one.get("reused")):
        echo_line(f"{kind} is taken from audit {audit}, and not measured again", err=err)
    for note in estimate.notes:
        echo_line(note, err=err)
    if over := estimate.over_budget:
        echo_line(
            f"{' and '.join(over)} may ask the model more than its query_budget of {estimate.query_budget:,}: texts "
            "beyond it are errored, never robust",
            err=err,
        )


def _row(rule: RuleOutcome) -> tuple[str, ...]:
    outcome: str = rule.outcome
    if rule.severity == "warn":
        outcome += " (warning)"
    elif rule.counts_as != rule.outcome:
        outcome += f" (counts as {rule.counts_as})"
    further = f"{rounded_up(rule.further_examples):,}" if rule.further_examples else ""
    if rule.further_survivors:
        further += f"{' and ' if further else ''}{rounded_up(rule.further_survivors):,} survivors"
    left = rule.available_examples
    if rule.further_examples and left is not None and rule.further_examples > left:
        further += f" (the dataset has {f'{left:,}' if left else 'no'} more)"
    return rule.label, _value(rule), rule.requirement, outcome, further


def _value(rule: RuleOutcome) -> str:
    """Return what was held against the bound; a difference from the baseline is marked as one.

    A difference is the loss: below 0 the model is better.
    """
    judged = rule.judged
    if judged is None:
        return "-"
    if rule.baseline is None or judged.value is None:
        return format_estimate(judged)
    return format_loss(judged)


def _lacks_baseline(judgement: Judgement) -> bool:
    """Return whether a number was measured and still skipped: there is nothing to compare it with."""
    skipped = (rule for rule in judgement.rules if rule.outcome == "skipped" and rule.estimate is not None)
    return judgement.baseline is None and any(skipped)


def _reasons(rules: Sequence[RuleOutcome]) -> Iterator[str]:
    """Yield why rules do not hold; one line for all that do not for the same reason."""
    labels: dict[str, list[str]] = {}
    for rule in rules:
        if rule.outcome != "passed":
            labels.setdefault(rule.reason, []).append(rule.label)
    if labels:
        yield ""
    for reason, (first, *others) in labels.items():
        yield f"{first}{f' and {len(others)} more' if others else ''}: {reason}"
