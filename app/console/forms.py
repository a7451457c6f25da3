"""Forms that come back with what was typed and, beside each field, what is wrong with it."""

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
    """

    values: Mapping[str, str] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    problem: str = ""

    @property
    def names(self) -> list[str]:
        """The fields that have a place on the page."""
        return [name for name in self.errors if name != REST]

    def said(self, name: str) -> str:
        """Return what stands in a field."""
        return self.values.get(name, "")

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
            is_named = inside.replace("-", "_") in (name, name.removeprefix("param-")) or not inside
            self.refuse(name, one.detail if is_named else f"{inside}: {one.detail}")


def flat(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the first value of each field."""
    return {name: values[0] if isinstance(values, list) else values for name, values in form.items() if values}
