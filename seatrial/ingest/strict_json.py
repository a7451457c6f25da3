"""JSON as its standard has it (RFC 8259): what Python reads beyond that could not be sent on."""

import json
import math
from typing import Any, NoReturn


def strict_json(text: str | bytes) -> Any:
    r"""Return what a JSON text says.

    Raises:
        ValueError: It is no JSON; it is nested too deeply; it holds NaN, an infinite number or half a character.

    >>> strict_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> strict_json("1e999")
    Traceback (most recent call last):
    ...
    ValueError: 1e999 is no number that can be computed with
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        # A surrogate that stands alone is no character, and what holds one cannot be sent.
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a character (a surrogate that stands alone)") from error
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:50]} is no number that can be computed with")
    return number
