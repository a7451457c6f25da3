"""How numbers are written in reports and by the command line."""

from seatrial.contracts.estimates import Estimate, split_name
from seatrial.reporting.schemas import ReportEstimate


def number(value: float | None) -> str:
    """Return a number with four decimals, or four significant digits where those say more.

    >>> number(0.98333), number(-0.00004), number(12345.6), number(1.0), number(3e-17), number(None)
    ('0.9833', '-4.0e-05', '12350', '1.0000', '0', 'undefined')
    """
    if value is None:
        return "undefined"
    if abs(value) < 1e-12:
        return "0"
    if abs(value) >= 1000:
        return f"{float(f'{value:.4g}'):.0f}"
    if abs(value) >= 10:
        return f"{value:.4g}"
    return f"{value:.4f}" if abs(value) >= 0.0001 else f"{value:.1e}"


def told(estimate: Estimate) -> str:
    """Return an estimate's value; an exact probability, which is never 0, is not written as if it were.

    >>> told(Estimate(value=1e-25, low=None, high=None, n=9, method="exact"))
    '< 1e-12'
    """
    if _is_place(estimate) and estimate.value is not None:
        return f"{estimate.value:g}"
    if estimate.method == "exact" and estimate.value is not None and 0 < estimate.value < 1e-12:
        return "< 1e-12"
    return number(estimate.value)


def interval(estimate: Estimate) -> str:
    """Return an estimate's interval, or nothing where it has none.

    >>> interval(Estimate(value=0.5, low=0.4, high=0.6, n=9, method="bootstrap"))
    '[0.4000, 0.6000]'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    if _is_place(estimate):
        return f"[{estimate.low:g}, {estimate.high:g}]"
    return f"[{number(estimate.low)}, {number(estimate.high)}]"


def _is_place(estimate: Estimate) -> bool:
    """Return whether it is a place among others: a whole number, or a half where two share one."""
    return isinstance(estimate, ReportEstimate) and split_name(estimate.name)[0] == "rank"


def alike(value: float, largest: float) -> str:
    """Return one of several numbers that are read together, all with the decimals that suit the largest.

    >>> alike(6.66667, 100), alike(23.3333, 100), alike(0.5, 2.3026), alike(0.00001, 2.3026), alike(40.25, 64)
    ('6.7', '23.3', '0.5000', '0.0000', '40.25')
    """
    return f"{value:.{4 if largest < 10 else 2 if largest < 100 else 1}f}"


def radius(epsilon: object) -> str:
    """Return an attack radius as people write it: in grey levels where it is a whole or half number of them.

    Not where the decimal is as short: 0.1 is 25.5 grey levels.

    >>> radius(8 / 255), radius(0.5 / 255), radius("0.0156863"), radius(0.1), radius("0"), radius(1e-300)
    ('8/255', '0.5/255', '4/255', '0.1', '0', '1e-300')
    """
    try:
        value = float(str(epsilon))
    except ValueError:
        return str(epsilon)
    decimal = f"{value:g}"
    halves = round(value * 510) if 0 < value <= 1 else 0
    is_in_levels = halves > 0 and abs(value * 510 - halves) < 1e-3 and len(decimal) > len("0.0157")
    return f"{halves / 2:g}/255" if is_in_levels else decimal


def percent(share: float | None) -> str:
    """Return a share in per cent; one that is neither nothing nor everything is never written as if it were.

    >>> percent(0.7), percent(0.845), percent(1.0), percent(0.99997), percent(0.0001), percent(None)
    ('70%', '84.5%', '100%', 'over 99.9%', 'under 0.1%', 'undefined')
    """
    if share is None:
        return "undefined"
    if 0 < share < 0.0005:
        return "under 0.1%"
    if 0.9995 <= share < 1:
        return "over 99.9%"
    return f"{_tenths(100 * share)}%"


def points(difference: float | None) -> str:
    """Return the difference of two shares in percentage points.

    >>> points(0.6), points(-0.125), points(0.01), points(0.0)
    ('60 points', '-12.5 points', '1 point', '0 points')
    """
    if difference is None:
        return "undefined"
    told = _tenths(100 * difference)
    return f"{told} point" if told in ("1", "-1") else f"{told} points"


def _tenths(value: float) -> str:
    told = f"{value:.1f}".removesuffix(".0")
    return "0" if told == "-0" else told
