"""Which controls of published frameworks an audit gives evidence for, and what it lacks for the others."""

from collections.abc import Iterator, Sequence

from app.reports.exported import is_relied_on
from seatrial.contracts.controls import Asks, Control, controls
from seatrial.contracts.policies import Judgement, RuleOutcome
from seatrial.contracts.registry import find_family
from seatrial.reporting.schemas import ReportCheck, ReportControl

_DECIDED = ("passed", "failed")
_LACKS: dict[Asks, str] = {
    "measured": "",
    "judged": "No rule of a policy that blocks has decided on one of these numbers.",
    "held": "No rule of a policy is about these numbers, or not every such rule has passed.",
    "compared": "No rule compares these numbers with those of a baseline: the model before.",
    "no_regression": "No rule compares these numbers with a baseline's, or not every such rule has passed.",
}


def state_controls(checks: Sequence[ReportCheck], judgement: Judgement | None) -> list[ReportControl]:
    """Return every known control with what an audit has for it, in the order of the data file."""
    outcomes = [] if judgement is None else judgement.rules
    return [_state(control, checks, outcomes) for control in controls()]


def controls_for(metric: str) -> list[Control]:
    """Return the controls that a number speaks for, by its full name."""
    kind = metric.partition(".")[0]
    spec = find_family(kind)
    if spec is None:
        return []
    named = {one.control for one in spec.evidence if one.is_given_by(metric)}
    return [control for control in controls() if control.id in named]


def _state(control: Control, checks: Sequence[ReportCheck], outcomes: Sequence[RuleOutcome]) -> ReportControl:
    numbers = [name for check in checks for name in _numbers(control, check)]
    rules = [outcome for outcome in outcomes if outcome.metric in numbers]
    if not numbers:
        standing, missing = "none", "No number of this audit that can be relied on speaks for it."
    elif _is_there(control.asks, rules):
        standing, missing = "evidence", ""
    else:
        standing, missing = "partial", _LACKS[control.asks]
    return ReportControl(
        **control.model_dump(exclude={"asks"}),
        standing=standing,
        numbers=numbers,
        rules=[f"{one.metric} {one.requirement}: {one.counts_as}" for one in rules],
        missing=missing,
    )


def _numbers(control: Control, check: ReportCheck) -> Iterator[str]:
    """Yield the names of a check's numbers that speak for a control: defined, and not in doubt."""
    spec = find_family(check.kind)
    if spec is None or not is_relied_on(check):
        return
    raised = {flag.code for flag in check.flags}
    given = [one for one in spec.evidence if one.control == control.id and raised.isdisjoint(one.unless)]
    for estimate in check.estimates:
        if estimate.value is not None and any(one.is_given_by(estimate.name) for one in given):
            yield estimate.name


def _is_there(asks: Asks, rules: Sequence[RuleOutcome]) -> bool:
    if asks == "measured":
        return True
    if asks in ("compared", "no_regression"):
        rules = [one for one in rules if one.baseline is not None]
    if asks in ("held", "no_regression"):
        # One that is undecided and let pass shows nothing: its own outcome counts, not what the policy makes of it.
        return bool(rules) and all(one.outcome == "passed" for one in rules)
    return any(one.outcome in _DECIDED and one.severity == "block" for one in rules)
