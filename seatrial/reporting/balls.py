"""Balls of perturbations in words. No contract is imported: contracts read the specs of families, which read this."""

from collections.abc import Mapping
from typing import Any

_NORMS = {"linf": "l_inf", "l2": "l_2"}


def format_radius(epsilon: object) -> str:
    """Write an attack radius in grey levels where it is a whole or half number of them.

    Not where the decimal is as short: 0.1 is 25.5 grey levels.

    >>> format_radius(8 / 255), format_radius(0.5 / 255), format_radius("0.0156863"), format_radius(0.1)
    ('8/255', '0.5/255', '4/255', '0.1')
    >>> format_radius("0"), format_radius(1e-300)
    ('0', '1e-300')
    """
    try:
        value = float(str(epsilon))
    except ValueError:
        return str(epsilon)
    decimal = f"{value:g}"
    halves = round(value * 510) if 0 < value <= 1 else 0
    is_in_levels = halves > 0 and abs(value * 510 - halves) < 1e-3 and len(decimal) > len("0.0157")
    return f"{halves / 2:g}/255" if is_in_levels else decimal


_MEANINGS = {
    "l_inf": "In l_inf no value of an input, such as a pixel from 0 to 1, changes by more than that.",
    "l_2": "In l_2 all changes of an input, taken together as one vector, are no longer than that.",
}


def norms_in_words(phrase: str) -> list[str]:
    """Return what the norms that a phrase names bound, a sentence each.

    >>> norms_in_words("within l_2 0.5 of each input")
    ['In l_2 all changes of an input, taken together as one vector, are no longer than that.']
    """
    return [meaning for norm, meaning in _MEANINGS.items() if f"within {norm} " in phrase]


def within_ball(params: Mapping[str, Any]) -> str:
    """Return the ball that parameters ``norm`` and ``epsilon`` name; nothing where one of them is not there.

    >>> within_ball({"norm": "linf", "epsilon": 8 / 255}), within_ball({"norm": "l2", "epsilon": 0.5})
    ('within l_inf 0.0314 (8/255) of each input', 'within l_2 0.5 of each input')
    >>> within_ball({"bins": 15})
    ''
    """
    norm, epsilon = params.get("norm"), params.get("epsilon")
    # A family of others may call something else so.
    if not isinstance(norm, str) or not isinstance(epsilon, int | float):
        return ""
    decimal, levels = f"{epsilon:.3g}", format_radius(epsilon)
    radius = f"{decimal} ({levels})" if "/" in levels else levels
    return f"within {_NORMS.get(norm, norm)} {radius} of each input"
