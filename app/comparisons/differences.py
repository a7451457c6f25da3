"""What two audits measured of one number, and the second less the first: by the same intervals a gate judges by."""

from dataclasses import dataclass

from seatrial.contracts.comparisons import Trend
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import better_of
from seatrial.judging.comparability import differences
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.pairing import Pairing
from seatrial.judging.regression import Refusal, compare


@dataclass(frozen=True)
class Compared:
    """A number of two audits.

    Attributes:
        metric: Full name.
        first: Of the first audit.
        second: Of the second.
        difference: The second less the first; None where they cannot be compared.
        trend: What the difference says of the second.
        why: Why they cannot be compared, or how they were.
    """

    metric: str
    first: Estimate | None
    second: Estimate | None
    difference: Estimate | None
    trend: Trend | None
    why: str


def published_numbers(audit: Measured) -> dict[str, tuple[Estimate, MeasuredCheck]]:
    """Return the numbers of an audit by full name; of several checks of a family the first that has one counts."""
    found: dict[str, tuple[Estimate, MeasuredCheck]] = {}
    for check in audit.checks:
        for name, estimate in (check.result.estimates if check.result else {}).items():
            found.setdefault(f"{check.kind}.{name}", (estimate, check))
    return found


def compare_number(
    metric: str,
    estimate: Estimate,
    check: MeasuredCheck,
    after: Measured,
    before: Measured,
    paired: Pairing | None,
    published: tuple[Estimate, MeasuredCheck],
) -> Compared:
    """Return a number of two audits, and the second less the first where it means the same in both.

    Args:
        metric: Full name.
        estimate: Of the second audit.
        check: What measured it.
        after: The second audit.
        before: The first.
        paired: Records of both; None where they are not to be read.
        published: The first audit's estimate, and what measured it.
    """
    other, of_other = published
    if estimate.value is None or other.value is None:
        return Compared(metric, other, estimate, None, None, "not defined on this sample")
    try:
        found = compare(metric, estimate, check, after, before, paired)
        better = better_of(metric)
    except (ValueError, StopIteration):
        # A family this version lacks, or a metric it no longer publishes.
        return Compared(metric, other, estimate, None, None, "this version does not know the metric")
    if isinstance(found, Refusal):
        apart = differences(metric, of_other.params, check.params, here="in A", there="in B")
        return Compared(metric, other, estimate, None, None, "; ".join(apart) or found.reason)
    worse = found.evidence.judged
    difference = worse.negative() if better == "higher" else worse
    return Compared(metric, found.baseline, estimate, difference, trend_of(worse, better), found.evidence.why)


def trend_of(worse: Estimate, better: str) -> Trend:
    """Return what a paired difference says of the later one, given how much worse it is."""
    if worse.low is None or worse.high is None:
        return "undecided"
    if worse.low == worse.high == 0:
        return "unchanged"
    if worse.low <= 0 <= worse.high:
        return "undecided"
    if better == "neither":
        return "changed"
    return "worse" if worse.low > 0 else "better"
