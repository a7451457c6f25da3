"""Which numbers shipped policies judge: what is shown first where an audit has dozens of numbers."""

from collections.abc import Iterable

from app.policies.presets import DEMANDS
from seatrial.judging.measured import is_named
from seatrial.judging.ranges import named


def judged_of(family: str, names: Iterable[str]) -> list[str]:
    """Return which numbers of a family shipped policies judge, those they hold against a bound first.

    Args:
        family: Kind of the checks.
        names: Of the numbers there are, without the family.
    """
    there = list(names)
    asked = [one.metric for one in sorted(DEMANDS, key=lambda one: one.asks == "max_regression")]
    wanted = [named(metric) for metric in asked if metric.startswith(f"{family}.")]
    return list(dict.fromkeys(name for one in wanted for name in there if is_named(one, name)))


def judged_first(metrics: Iterable[str]) -> list[str]:
    """Return full names of numbers, those first that shipped policies judge."""
    there = list(metrics)
    names: dict[str, list[str]] = {}
    for metric in there:
        family, _, name = metric.partition(".")
        names.setdefault(family, []).append(name)
    judged = [f"{family}.{name}" for family, found in names.items() for name in judged_of(family, found)]
    return list(dict.fromkeys([*judged, *there]))


def is_judged(metric: str) -> bool:
    """Return whether shipped policies judge a number."""
    family, _, name = metric.partition(".")
    return bool(judged_of(family, [name]))
