"""Which numbers policies judge: what is shown first where an audit has dozens of numbers, and what is not judged."""

from collections.abc import Iterable, Sequence

from app.policies.demands import DEMANDS
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.policies import Policy
from seatrial.judging.comparability import nearest_departure
from seatrial.judging.measured import is_named
from seatrial.judging.ranges import named
from seatrial.judging.wording import departed


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


def not_about(policy: Policy, checks: Sequence[CheckParams]) -> list[str]:
    """Return, in a sentence each, of which families a policy is about other checks: its rules on them cannot pass."""
    told = []
    for kind in dict.fromkeys(check.kind for check in checks):
        run, asked = (
            [one.model_dump(mode="json") for one in some if one.kind == kind] for some in (checks, policy.checks)
        )
        if departure := nearest_departure(kind, run, asked):
            told.append(
                f"Rules about {kind} will be errored: the policy is about another check ({departed(departure)}). "
                "Run the policy's checks to have them judged."
            )
    return told


def is_judged(metric: str) -> bool:
    """Return whether shipped policies judge a number."""
    family, _, name = metric.partition(".")
    return bool(judged_of(family, [name]))
