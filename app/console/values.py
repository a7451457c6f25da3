"""From the text in a field of a form to a value of a manifest."""

import json
from typing import Any

from app.web.problems import InvalidRequestError


def read_number(text: str) -> int | float | str:
    """Return a number; what is none stays a text, for the contract to refuse.

    >>> read_number("20"), read_number("0.5"), read_number("twenty")
    (20, 0.5, 'twenty')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_fraction(text: str) -> int | float | str:
    """Return a number, which may be written as a fraction; what is none stays a text.

    >>> read_fraction("8/255") == 8 / 255, read_fraction("1/0"), read_fraction(" 5 ")
    (True, '1/0', 5)
    """
    above, stroke, below = (read_number(part.strip()) for part in text.partition("/"))
    if stroke != "/":
        return above
    if isinstance(above, str) or isinstance(below, str) or not below:
        return text
    return above / below


def read_json(text: str, pointer: str) -> Any:
    """Return what a text of JSON holds.

    Raises:
        InvalidRequestError: It is not JSON; ``pointer`` says where.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if text else "Nothing was given"
        raise InvalidRequestError(f"This is not JSON: {why}.", pointer=pointer) from error
