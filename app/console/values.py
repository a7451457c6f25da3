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
