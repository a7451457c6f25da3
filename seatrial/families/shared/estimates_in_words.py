"""Estimates as sentences about results put them."""

from seatrial.contracts.estimates import Estimate, Result
from seatrial.reporting.numbers import format_percentage_points_estimate


def defined(result: Result, name: str) -> Estimate | None:
    """Return a number that was published and is defined on the sample."""
    estimate = result.estimates.get(name)
    return None if estimate is None or estimate.value is None else estimate


def number_of(estimate: Estimate) -> float:
    """Return the value of an estimate that is defined."""
    if estimate.value is None:
        raise AssertionError("unreachable: only defined estimates are kept")
    return estimate.value


def in_digits(estimate: Estimate) -> str:
    """Return a number and its interval with three decimals."""
    ends = [f"{end:.3f}" for end in (estimate.low, estimate.high) if end is not None]
    return f"{estimate.value:.3f}{_between(ends)}"


def in_round(estimate: Estimate) -> str:
    """Return a number without an upper limit and its interval: three decimals below 10, whole numbers above.

    >>> in_round(Estimate(value=236.815, low=6.3014, high=1e6, n=60, method="gaffke-seen"))
    '237 (95% interval 6.301 to 1,000,000)'
    """
    value, *ends = (
        f"{end:,.0f}" if abs(end) >= 10 else f"{end:.3f}"
        for end in (number_of(estimate), estimate.low, estimate.high)
        if end is not None
    )
    return f"{value}{_between(ends)}"


def in_points(estimate: Estimate) -> str:
    """Return a difference of shares that is never negative, and its interval, in percentage points."""
    ends = {
        name: None if end is None else max(end, 0.0) for name, end in (("low", estimate.low), ("high", estimate.high))
    }
    return format_percentage_points_estimate(estimate.model_copy(update=ends))


def _between(ends: list[str]) -> str:
    return f" (95% interval {ends[0]} to {ends[1]})" if len(ends) == 2 else ""


def at_most(estimate: Estimate) -> float:
    """Return how large a number may be; the number itself where it has no interval."""
    return max(number_of(estimate), number_of(estimate) if estimate.high is None else estimate.high)


def at_least(estimate: Estimate) -> float:
    """Return how small a number may be; the number itself where it has no interval."""
    return min(number_of(estimate), number_of(estimate) if estimate.low is None else estimate.low)
