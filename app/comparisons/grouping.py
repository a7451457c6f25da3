"""Mean and standard deviation over the audits of a group: which numbers mean the same, and what they come to."""

import math
from collections.abc import Mapping, Sequence

from seatrial.contracts.comparisons import GroupNumber
from seatrial.contracts.registry import families
from seatrial.judging.comparability import differences
from seatrial.judging.measured import Measured, MeasuredCheck


def over_runs(values: Sequence[float]) -> GroupNumber:
    """Return mean and standard deviation over training runs, n - 1 in the denominator.

    Args:
        values: One of each run, at least one.

    >>> told = over_runs([0.25, 0.5, 0.75])
    >>> told.mean, told.sd, over_runs([0.5]).sd
    (0.5, 0.25, None)
    """
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    sd = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return GroupNumber(mean=mean, sd=sd, n=len(values), values=list(values))


def comparable(audits: Sequence[Measured]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return by full metric name what each audit measured, and why other numbers some audit has are not compared.

    A number is compared where every audit has it, defined, from a check whose parameters make it mean the same. Of
    several checks of a family in one audit the first that has the number counts.

    Args:
        audits: In the order asked for.
    """
    published = {audit.audit: _published(audit) for audit in audits}
    found: dict[str, dict[str, float]] = {}
    left: dict[str, str] = {}
    for metric in dict.fromkeys(name for numbers in published.values() for name in numbers):
        if why := _why_not(metric, published):
            left[metric] = why
        else:
            found[metric] = {audit: numbers[metric][1] or 0.0 for audit, numbers in published.items()}
    order = {kind: place for place, kind in enumerate(families())}
    return dict(sorted(found.items(), key=lambda pair: order[pair[0].partition(".")[0]])), left


Published = Mapping[str, tuple[MeasuredCheck, float | None]]


def _published(audit: Measured) -> dict[str, tuple[MeasuredCheck, float | None]]:
    found: dict[str, tuple[MeasuredCheck, float | None]] = {}
    for check in audit.checks:
        spec = families().get(check.kind)
        if check.result is None or spec is None:
            continue
        for name, estimate in check.result.estimates.items():
            found.setdefault(f"{check.kind}.{name}", (check, estimate.value))
    return found


def _why_not(metric: str, published: Mapping[str, Published]) -> str:
    lacking = [audit for audit, numbers in published.items() if metric not in numbers]
    if lacking:
        return f"{lacking[0]} has no such number"
    undefined = [audit for audit, numbers in published.items() if numbers[metric][1] is None]
    if undefined:
        return f"it is undefined in {undefined[0]}"
    (first, of_first), *rest = published.items()
    for audit, numbers in rest:
        try:
            mine, others = numbers[metric][0].params, of_first[metric][0].params
            unlike = differences(metric, mine, others, here=f"in {audit}", there=f"in {first}")
        except (ValueError, StopIteration):
            return "this version does not know the metric"
        if unlike:
            return unlike[0]
    return ""
