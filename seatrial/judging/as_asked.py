"""Which checks a policy is judged by: those it names, else all."""

from collections.abc import Sequence
from typing import NamedTuple

from seatrial.contracts.estimates import Flag
from seatrial.contracts.policies import Policy
from seatrial.contracts.registry import flags_of
from seatrial.judging.comparability import departures, nearest_departure
from seatrial.judging.measured import Measured, MeasuredCheck


def spare_scope(policy: Policy, family: str, flags: Sequence[Flag]) -> list[Flag]:
    """Return the flags of a family without those of what was asked, where the policy names the check: it asks that."""
    if all(check.kind != family for check in policy.checks):
        return list(flags)
    known = flags_of(family)
    return [flag for flag in flags if flag.code not in known or not known[flag.code].of_scope]


class Run(NamedTuple):
    """Checks of a family.

    Attributes:
        checks: Those a policy is judged by.
        departure: Where one it is about was not run, in what the nearest departs from that.
    """

    checks: Sequence[MeasuredCheck]
    departure: Sequence[str] = ()


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
            found[kind] = Run([check for check, it in zip(checks, is_asked, strict=True) if it])
    return found
