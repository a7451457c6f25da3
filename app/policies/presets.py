"""The policies that are shipped, as data: what each number asks, and where it is from.

No family is required: a policy judges those an audit has, and of these what its rules name is to be measured. Numbers
that come from a paper are of its models and its attack, mostly CIFAR-10 at a radius of 8/255; a policy of one's own,
with bounds of one's own model, says more. A policy none of whose rules finds anything does not pass
(:func:`seatrial.judging.verdict.judge`).
"""

from functools import cache
from typing import Any

from app.policies.demands import DEMANDS, LENIENT, STANDARD, STRICT, Demand
from seatrial.contracts.policies import Policy
from seatrial.reporting.numbers import format_bound

RESERVED = frozenset({LENIENT, STANDARD, STRICT})
"""Names no policy of a project can have."""


VERSION = 7
"""Of all three. In version 1 a warning about the number judged was no doubt in the first two; 3 labels the rules, 4
calls the illusion gap what it is, 5 gives ``lenient`` half the room for it and asks for an accuracy, 6 for what attacks
leave of it, and 7 for that, an accuracy and the least accurate group of every family that has them, and that what is
run measures what is asked; what attacks leave of texts is told."""

POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    LENIENT: (
        "For a first look: stops what is plainly broken.",
        {"doubts": "relevant"},
    ),
    STANDARD: (
        "For a pipeline: what published models without obvious faults keep.",
        {"doubts": "relevant"},
    ),
    STRICT: (
        "For a model others rely on: what good published models keep, shown for all numbers together, by checks that "
        "are not in doubt.",
        {"doubts": "warning", "correction": "holm"},
    ),
}
"""What each is for, and what of it is not a rule."""


@cache
def get(name: str) -> Policy:
    """Return a shipped policy.

    Raises:
        KeyError: There is none of that name.
    """
    description, settings = POLICIES[name]
    column = list(POLICIES).index(name)
    rules = [
        {
            "metric": demand.metric,
            "label": demand.label,
            demand.asks: demand.bounds[column],
            "severity": "warn" if name in demand.warns else "block",
            "required": "if_run" if demand.is_key else False,
        }
        for demand in DEMANDS
    ]
    return Policy.model_validate({"name": name, "description": description, "rules": rules, **settings})


def describe() -> str:
    """Return the shipped policies number by number, as Markdown, with where each number is from."""
    lines = [f"- `{name}`: {description}{_settings(settings)}" for name, (description, settings) in POLICIES.items()]
    lines += [
        "",
        "No family is required: rules about a check that was not run are skipped, and the headline counts those that",
        "found something. Of a check that was run, a rule that finds nothing is errored where the table says so under",
        "Needs (`if_run`): nobody passes by leaving out radii or levels that are.",
        "",
        f"| Metric | Asked | {' | '.join(POLICIES)} | Needs | Why |",
        "| --- | --- |" + " --- |" * (len(POLICIES) + 2),
    ]
    lines += [
        f"| `{demand.metric}` | {_ASKED[demand.asks]} | {' | '.join(_cell(demand, name) for name in POLICIES)} "
        f"| {demand.needs}{' (`if_run`)' if demand.is_key else ''} | {demand.why} |"
        for demand in DEMANDS
    ]
    return "\n".join(lines) + "\n"


_ASKED = {"max": "at most", "min": "at least", "max_regression": "worse than the baseline by at most"}


def _cell(demand: Demand, name: str) -> str:
    told = format_bound(demand.bounds[list(POLICIES).index(name)])
    return f"{told} (warns)" if name in demand.warns else told


_DOUBTS = {
    "relevant": "A flag of severity `error` keeps a check from passing, and a `warning` that speaks of the number "
    "judged keeps its rule.",
    "warning": "A flag of severity `warning` or above keeps a check from passing.",
}
_CORRECTION = {
    "holm": "Holm's correction over the rules that block: none is decided wrongly more than 5 % of the time.",
    # Berger (1982), Multiparameter hypothesis testing and acceptance sampling: an intersection-union test.
    "none": "No correction for several rules, because none is needed against a pass that is not deserved: all that "
    "block must pass, so a model that misses any bound passes at most 2.5 % of the time, however many rules there are. "
    "That a model exactly at several bounds fails one of them by chance is likelier with every rule; `strict` corrects "
    "for it.",
}


def _settings(settings: dict[str, Any]) -> str:
    return f" {_DOUBTS[settings['doubts']]} {_CORRECTION[settings.get('correction', 'none')]}"
