"""Roots of functions of one variable."""

from collections.abc import Callable

_EPSILON = 2.0**-52


def brent_root(function: Callable[[float], float], start: float, end: float, *, tolerance: float) -> float:
    """Return where a continuous function is 0 between two points at which it has different signs.

    Brent's method (1973, ch. 4), in the form and with the relative tolerance of SciPy's ``brentq``: the same steps,
    the same result to the last bit. It bisects where interpolation gains too little, so it ends.

    Args:
        function: What is to be 0.
        start: One end.
        end: The other, above or below.
        tolerance: How far off the result may be, besides four units in its last place.

    Raises:
        ValueError: The function has the same sign at both ends.

    >>> round(brent_root(lambda x: x * x - 2, 0.0, 2.0, tolerance=1e-12), 9)
    1.414213562
    """
    before, now = start, end
    at_before, at_now = function(before), function(now)
    if not at_before:
        return before
    if not at_now:
        return now
    if (at_before < 0) == (at_now < 0):
        raise ValueError(f"the function has one sign at both ends: {at_before} at {before}, {at_now} at {now}")
    # The root lies between ``now``, the best so far, and ``other``.
    other, at_other, last, step = before, at_before, now - before, now - before
    while True:
        if at_before and (at_before < 0) != (at_now < 0):
            other, at_other = before, at_before
            last = step = now - before
        if abs(at_other) < abs(at_now):
            before, now, other = now, other, now
            at_before, at_now, at_other = at_now, at_other, at_now
        least, half = (tolerance + 4 * _EPSILON * abs(now)) / 2, (other - now) / 2
        if not at_now or abs(half) < least:
            return now
        last, step = _next_steps(before, now, other, at_before, at_now, at_other, last, step, least)
        before, at_before = now, at_now
        now += step if abs(step) > least else least if half > 0 else -least
        at_now = function(now)


def _next_steps(
    before: float,
    now: float,
    other: float,
    at_before: float,
    at_now: float,
    at_other: float,
    last: float,
    step: float,
    least: float,
) -> tuple[float, float]:
    """Return the step taken last and the next one: by interpolation where it is short enough, else half the way."""
    half = (other - now) / 2
    if abs(last) > least and abs(at_now) < abs(at_before):
        if before == other:
            wanted = -at_now * (now - before) / (at_now - at_before)
        else:
            slope, far_slope = (at_before - at_now) / (before - now), (at_other - at_now) / (other - now)
            wanted = -at_now * (at_other * far_slope - at_before * slope)
            wanted /= far_slope * slope * (at_other - at_before)
        if 2 * abs(wanted) < min(abs(last), 3 * abs(half) - least):
            return step, wanted
    return half, half
