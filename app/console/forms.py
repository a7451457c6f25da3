"""Forms that come back with what was typed and, beside each field, what is wrong with it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.web.problems import FieldError, ProblemError
from seatrial.ingest.inspection.errors import InspectionError

REST = ""
"""Where errors stand that no field is to blame for."""


@dataclass
class Form:
    """A form as it is shown.

    Attributes:
        values: What stands in each field.
        errors: What is wrong, by field; under :data:`REST` what is wrong with all of it.
        problem: What is wrong in one line.
        labels: What the page calls each field, as far as it has been written.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    problem: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The fields that have a place on the page."""
        return [name for name in self.errors if name != REST]

    def said(self, name: str) -> str:
        """Return what stands in a field."""
        return self.values.get(name, "")

    def labelled(self, name: str, title: str) -> str:
        """Return the label of a field, and remember it for what is said of the field elsewhere."""
        self.labels[name] = title
        return title

    def refuse(self, name: str, told: str) -> None:
        """Say what is wrong with a field."""
        self.errors.setdefault(name, []).append(told)

    def refuse_all(self, error: ProblemError | InspectionError, field_of: Callable[[str], str]) -> None:
        """Say what is wrong, each error beside the field that ``field_of`` names for its JSON pointer."""
        self.problem = error.title
        pointed = (
            [FieldError(pointer=error.field, detail=error.detail)]
            if isinstance(error, InspectionError)
            else error.errors or [FieldError(pointer="", detail=error.detail)]
        )
        for one in pointed:
            name = field_of(one.pointer)
            inside = one.pointer.rpartition("/")[2] if name != REST else one.pointer.lstrip("/")
            # The field says where; what is inside of it, the text has to say.
            is_named = not inside or inside.replace("-", "_") == name or name.endswith(f"-{inside}")
            detail = in_form_words(one.detail)
            self.refuse(name, detail if is_named else f"{inside}: {detail}")


_FORM_WORDS = (
    (r"Input should be a valid integer.*", "Write a whole number."),
    (r"Input should be a valid number.*", "Write a number, for example 0.5."),
    (r"Input should be greater than or equal to (\S+)", r"Write a number of at least \1."),
    (r"Input should be less than or equal to (\S+)", r"Write a number of at most \1."),
    (r"Input should be greater than (\S+)", r"Write a number above \1."),
    (r"Input should be less than (\S+)", r"Write a number below \1."),
    (r"String should have at least 1 character", "Fill this in."),
    (r"List should have at (least|most) (\d+) items? after validation, not \d+", r"Write at \1 \2 of them."),
    (r"String should have at (least|most) (\d+) characters", r"Write at \1 \2 characters."),
)


def in_form_words(detail: str) -> str:
    """Return what is wrong with a value as what would be right in the field of a form.

    >>> in_form_words("Input should be a valid integer"), in_form_words("Input should be less than or equal to 1")
    ('Write a whole number.', 'Write a number of at most 1.')
    >>> in_form_words("There is no policy 'x'.")
    "There is no policy 'x'."
    """
    for pattern, words in _FORM_WORDS:
        if found := re.fullmatch(pattern, detail):
            return found.expand(words)
    return detail


def flat(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the first value of each field."""
    return {name: values[0] if isinstance(values, list) else values for name, values in form.items() if values}
