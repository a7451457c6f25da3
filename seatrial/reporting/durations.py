"""How times are written where something is waited for."""

import math


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(0.4), duration(75), duration(7322)
    ('under 1 s', '1 min 15 s', '2 h 2 min')
    """
    if not math.isfinite(seconds):
        return "an unknown time"
    whole = round(seconds)
    if whole < 1:
        return "under 1 s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


WIDE = 50
"""Ratio of the ends of a range of times from which it is that of checks that were hardly ever timed."""


def expected_range(low_s: float, high_s: float) -> str:
    """Return between which times something should end, and why the range is wide where hardly anything is known.

    >>> expected_range(20, 300)
    'expected between 20 s and 5 min 0 s'
    >>> expected_range(0.3, 10)
    'expected within 10 s'
    >>> expected_range(4, 245)
    'expected between 4 s and 4 min 5 s (so wide because this service has timed few such checks yet)'
    """
    low = duration(low_s)
    told = f"expected within {duration(high_s)}"
    if not low.startswith("under"):
        told = f"expected between {low} and {duration(high_s)}"
    is_wide = high_s >= WIDE * max(low_s, 0.1)
    return f"{told} (so wide because this service has timed few such checks yet)" if is_wide else told


def time_left(remaining_s: float | None) -> str:
    """Return what remains, as a part of a sentence; nothing where it is not known or over.

    >>> time_left(0.4), time_left(75), time_left(None)
    ('under 1 s left', 'about 1 min 15 s left', '')
    """
    if not remaining_s:
        return ""
    told = duration(remaining_s)
    return f"{told} left" if told.startswith("under") else f"about {told} left"
