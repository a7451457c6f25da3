"""Which checks a policy is judged by: those it names, else all."""

from collections.abc import Sequence
from typing import NamedTuple

from seatrial.contracts.estimates import Flag
from seatrial.contracts.policies import Policy
from seatrial.contracts.registry import flags_of
from seatrial.judging.comparability import departures, nearest_departure
from seatrial.judging.measured import Measured, MeasuredCheck


def is_of_scope(family: str, flag: Flag) -> bool:
    """Tell whether a flag is of what was asked, and not of how well it was measured."""
    known = flags_of(family).get(flag.code)
    return known is not None and known.of_scope


class Run(NamedTuple):
    """Checks of a family.

    Attributes:
        checks: Those a policy is judged by.
        departure: Where one it is about was not run, in what the nearest departs from that.
        is_named: Whether the policy names them: what they ask is what it wants.
    """

    checks: Sequence[MeasuredCheck]
    departure: Sequence[str] = ()
    is_named: bool = False


def run_as_asked(policy: Policy, audit: Measured) -> dict[str, Run]:
    """Return the checks of each family that was run: of one the policy names checks of, those alone."""
    found: dict[str, Run] = {}
    for kind in dict.fromkeys(check.kind for check in audit.checks):
        checks = [check for check in audit.checks if check.kind == kind]
        asked = [one.model_dump(mode="json") for one in policy.checks if one.kind == kind]
        if departure := nearest_departure(kind, [check.params for check in checks], asked):
            found[kind] = Run([], departure)
        else:
            # Of a policy that is about none in particular, all.
            is_asked = [not asked or not all(departures(kind, check.params, one) for one in asked) for check in checks]
            found[kind] = Run([check for check, it in zip(checks, is_asked, strict=True) if it], is_named=bool(asked))
    return found
