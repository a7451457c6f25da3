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


def time_left(remaining_s: float | None) -> str:
    """Return what remains, as a part of a sentence; nothing where it is not known or over.

    >>> time_left(0.4), time_left(75), time_left(None)
    ('under 1 s left', 'about 1 min 15 s left', '')
    """
    if not remaining_s:
        return ""
    told = duration(remaining_s)
    return f"{told} left" if told.startswith("under") else f"about {told} left"
