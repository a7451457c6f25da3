"""How numbers are written: by the command line, gates, reports, the console and integrations.

Numbers that are read together, a value and the ends of its interval above all, are written to the same last digit.
What is written is within half of that digit of the number, and never "-0".
"""

import math
from collections.abc import Iterable

from seatrial.contracts.estimates import Estimate, split_name
from seatrial.reporting.schemas import ReportEstimate

NEGLIGIBLE = 1e-12
"""Estimates below are the rounding of a 0; an exact probability below is written as less than that."""

_UNDEFINED = "undefined"

# (from, decimals): of numbers the largest of which is at least so large. Two significant digits of the largest at
# least, four decimals where most metrics lie, and no more than five digits.
_DECIMALS = ((1e3, 0), (1e2, 1), (1e1, 2), (1e-3, 4), (1e-4, 5), (1e-5, 6))
_LARGEST_IN_FULL = 1e7


def format_aligned(numbers: Iterable[float | None]) -> list[str]:
    """Write numbers that are read together, all to the same last digit: the one that suits the largest.

    Four decimals below 10, fewer above, more below 0.001; from 10 million on and below 0.00001 with a power of ten,
    which is then the same for all. NaN and None are ``undefined``.

    >>> format_aligned([0.41, 0.3, 1.0]), format_aligned([2.5, -0.004, 40.0]), format_aligned([3e-7, 0.0, 2.5e-6])
    (['0.4100', '0.3000', '1.0000'], ['2.50', '0.00', '40.00'], ['0.3e-06', '0.0e-06', '2.5e-06'])
    >>> format_aligned([12345.6, None, float("inf")])
    ['12346', 'undefined', 'inf']
    """
    group = list(numbers)
    largest = max((abs(one) for one in group if one is not None and math.isfinite(one)), default=0.0)
    if largest < NEGLIGIBLE:
        return [_fixed(one, 4) for one in group]
    if largest >= _LARGEST_IN_FULL:
        return [_scaled(one, largest, 3) for one in group]
    decimals = next((decimals for least, decimals in _DECIMALS if largest >= least), None)
    if decimals is None:
        return [_scaled(one, largest, 1) for one in group]
    return [_fixed(one, decimals) for one in group]


def format_number(number: float | None) -> str:
    """Write a number that stands alone; :func:`format_aligned` says how.

    >>> format_number(0.98333), format_number(12345.6), format_number(1.0), format_number(-3e-17), format_number(None)
    ('0.9833', '12346', '1.0000', '0.0000', 'undefined')
    """
    return format_aligned([number])[0]


def format_value(estimate: Estimate) -> str:
    """Write an estimate's value, to the last digit of its interval; an exact probability is never written as 0.

    >>> format_value(Estimate(value=1e-25, low=None, high=None, n=9, method="exact"))
    '< 1e-12'
    """
    return format_parts(estimate)[0]


def format_interval(estimate: Estimate) -> str:
    """Write an estimate's interval, to the last digit of its value; nothing where it has none.

    >>> format_interval(Estimate(value=1.0016, low=0.9364, high=1.049, n=9, method="bootstrap"))
    '[0.9364, 1.0490]'
    """
    ends = format_parts(estimate)[1:]
    return f"[{', '.join(ends)}]" if ends else ""


def format_estimate(estimate: Estimate) -> str:
    """Write an estimate's value and its interval, if it has one.

    >>> format_estimate(Estimate(value=0.21, low=0.15, high=0.27, n=100, method="paired"))
    '0.2100 [0.1500, 0.2700]'
    """
    return f"{format_value(estimate)} {format_interval(estimate)}".rstrip()


def format_bound(bound: float) -> str:
    """Write a number somebody chose (a bound, a level) with the digits it was given.

    >>> format_bound(0.25), format_bound(-0.0), format_bound(1e-05), format_bound(12345.0), format_bound(0.1 + 0.2)
    ('0.25', '0', '1e-05', '12345', '0.3')
    """
    return f"{bound or 0.0:.12g}"


def format_ticks(ticks: Iterable[float]) -> list[str]:
    """Write the round numbers along an axis with the decimals of the one that needs most.

    >>> format_ticks([0.3, 0.35, 0.4]), format_ticks([-20.0, 0.0, 20.0]), format_ticks([1e-07, 2e-07])
    (['0.30', '0.35', '0.40'], ['-20', '0', '20'], ['1e-07', '2e-07'])
    """
    shortest = [format_bound(tick) for tick in ticks]
    if any("e" in one for one in shortest):
        return shortest
    decimals = max((len(one.partition(".")[2]) for one in shortest), default=0)
    return [_fixed(float(one), decimals) for one in shortest]


def format_percentage(fraction: float | None) -> str:
    """Write a fraction in per cent; one that is neither none nor all is never written as if it were.

    >>> format_percentage(0.7), format_percentage(0.845), format_percentage(1.0), format_percentage(None)
    ('70%', '84.5%', '100%', 'undefined')
    >>> format_percentage(0.99997), format_percentage(0.0001)
    ('over 99.9%', 'under 0.1%')
    """
    if fraction is None or math.isnan(fraction):
        return _UNDEFINED
    if _is_nearly_none_or_all(fraction):
        return "under 0.1%" if fraction < 0.5 else "over 99.9%"
    return f"{_tenths(100 * fraction)}%"


def format_percentage_points(difference: float | None) -> str:
    """Write the difference of two fractions in percentage points.

    >>> format_percentage_points(0.6), format_percentage_points(-0.125), format_percentage_points(0.01)
    ('60 points', '-12.5 points', '1 point')
    """
    if difference is None or math.isnan(difference):
        return _UNDEFINED
    written = _tenths(100 * difference)
    return f"{written} point" if written in ("1", "-1") else f"{written} points"


def format_percentage_estimate(estimate: Estimate, of: str = "") -> str:
    """Write an estimate of a fraction in per cent, with its interval; both to tenths, or both to whole ones.

    Args:
        estimate: A fraction; of its interval, what lies in [0, 1].
        of: What follows the value.

    >>> accuracy = Estimate(value=0.7, low=0.605, high=0.8, n=80, method="bootstrap")
    >>> format_percentage_estimate(accuracy, " of 80 texts")
    '70.0% of 80 texts (95% interval 60.5% to 80.0%)'
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return format_percentage(estimate.value) + of
    fractions = [estimate.value, *(min(max(end, 0.0), 1.0) for end in (estimate.low, estimate.high))]
    value, *ends = (
        format_percentage(fraction) if _is_nearly_none_or_all(fraction) else f"{percentage}%"
        for fraction, percentage in zip(fractions, _aligned_tenths(fractions), strict=True)
    )
    return f"{value}{of}{_in_words(ends)}"


def format_percentage_points_estimate(estimate: Estimate) -> str:
    """Write an estimate of a difference of fractions in percentage points, with its interval, to the same digit.

    >>> format_percentage_points_estimate(Estimate(value=0.36, low=0.253, high=0.47, n=100, method="paired"))
    '36.0 points (95% interval 25.3 to 47.0)'
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return format_percentage_points(estimate.value)
    value, *ends = _aligned_tenths([estimate.value, estimate.low, estimate.high])
    return f"{value} {'point' if value in ('1', '-1') else 'points'}{_in_words(ends)}"


def format_parts(estimate: Estimate) -> list[str]:
    """Write an estimate's value, and behind it the ends of its interval if it has one, to the same last digit."""
    value, low, high = estimate.value, estimate.low, estimate.high
    numbers = [value] if low is None or high is None else [value, low, high]
    if estimate.method == "exact" and value is not None and 0 < value < NEGLIGIBLE:
        return [f"< {NEGLIGIBLE:g}", *format_aligned(numbers)[1:]]
    if _is_rank(estimate) and all(one is None or (2 * one).is_integer() for one in numbers):
        # Whole, or a half where two share a place.
        decimals = 0 if all(one is None or one.is_integer() for one in numbers) else 1
        return [_fixed(one, decimals) for one in numbers]
    return format_aligned(numbers)


def _is_rank(estimate: Estimate) -> bool:
    return isinstance(estimate, ReportEstimate) and split_name(estimate.name)[0] == "rank"


def _fixed(number: float | None, decimals: int) -> str:
    if number is None or math.isnan(number):
        return _UNDEFINED
    written = f"{number:.{decimals}f}"
    return written.removeprefix("-") if math.isfinite(number) and not float(written) else written


def _scaled(number: float | None, largest: float, decimals: int) -> str:
    """Return a number with the power of ten of the largest."""
    if number is None or not math.isfinite(number):
        return _fixed(number, decimals)
    exponent = int(f"{largest:.{decimals}e}".partition("e")[2])
    return f"{_fixed(number / 10.0**exponent, decimals)}e{exponent:+03d}"


def _tenths(value: float) -> str:
    return _fixed(value, 1).removesuffix(".0")


def _aligned_tenths(fractions: Iterable[float]) -> list[str]:
    """Return fractions in per cent: all to tenths, or all whole where all are."""
    written = [_fixed(100 * fraction, 1) for fraction in fractions]
    are_whole = all(one.endswith(".0") for one in written)
    return [one.removesuffix(".0") for one in written] if are_whole else written


def _is_nearly_none_or_all(fraction: float) -> bool:
    return 0 < fraction < 0.0005 or 0.9995 <= fraction < 1


def _in_words(ends: list[str]) -> str:
    return f" (95% interval {ends[0]} to {ends[1]})" if ends else ""
