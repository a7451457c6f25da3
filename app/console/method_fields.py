"""The part of the hardening form that follows from what a training method can be told."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.console.values import read_fraction, read_json
from seatrial.contracts.training import MethodSpec, methods
from seatrial.hardening.params import TrainingParams

PREFIX = "param-"
POINTER = "/params/"
_FIRST = ("epochs", "batch_size", "learning_rate")
"""What people change of all that every method shares."""


@dataclass(frozen=True)
class MethodField:
    """A field of the form.

    Attributes:
        name: Name of the parameter.
        schema: Its JSON schema.
        is_further: Whether most leave it as it is.
    """

    name: str
    schema: Mapping[str, Any]
    is_further: bool = False

    @property
    def field(self) -> str:
        """Its field in the form, which has others beside it."""
        return PREFIX + self.name

    @property
    def title(self) -> str:
        """Name for people.

        >>> MethodField("learning_rate", {}).title
        'Learning rate'
        """
        return self.name.replace("_", " ").capitalize()

    @property
    def help(self) -> str:
        """What it means, and what it may be."""
        told = str(self.schema.get("description", "")).replace("Null:", "Empty:")
        return f"{told} {self.range}".strip()

    @property
    def range(self) -> str:
        """Where a number may lie, as a sentence.

        >>> MethodField("x", {"type": "integer", "minimum": 1, "maximum": 9}).range
        'At least 1, at most 9.'
        >>> MethodField("x", {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}).range
        'Above 0.'
        """
        words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
        ends = [f"{word} {one[key]:g}" for one in self._kinds for key, word in words.items() if key in one]
        return ", ".join(ends).capitalize() + "." if ends else ""

    @property
    def options(self) -> list[tuple[str, str]]:
        """What to choose from; nothing for what is typed in."""
        if any(one.get("type") == "boolean" for one in self._kinds):
            return [("true", "yes"), ("false", "no")]
        return [(one, one) for one in self.schema.get("enum", ())]

    @property
    def is_json(self) -> bool:
        """Whether its values are lists or objects."""
        return any(one.get("type", "object") in ("array", "object") for one in self._kinds)

    @property
    def is_optional(self) -> bool:
        """Whether it may be left empty: it then follows from the others."""
        return len(self._kinds) < len(self.schema.get("anyOf", [self.schema])) or self.is_json

    @property
    def _kinds(self) -> list[Mapping[str, Any]]:
        return [one for one in self.schema.get("anyOf", [self.schema]) if one.get("type") != "null"]

    def starting(self) -> str:
        """Return what stands in the field at first."""
        default = self.schema.get("default")
        if default is None:
            return ""
        return default if isinstance(default, str) else json.dumps(default)

    def parse(self, text: str) -> Any:
        """Return its value; what is of another type stays a text, for the contract to refuse.

        Raises:
            InvalidRequestError: A list or an object is not JSON.
        """
        if self.is_json:
            return read_json(text, POINTER + self.name)
        if self.options and text in ("true", "false"):
            return text == "true"
        is_number = any(one.get("type") in ("integer", "number") for one in self._kinds)
        return read_fraction(text) if is_number else text


def methods_for(task: str, model_format: str) -> dict[str, MethodSpec]:
    """Return the methods that can harden a model."""
    return {slug: spec for slug, spec in methods().items() if task in spec.tasks and spec.takes(model_format)}


def fields_of(spec: MethodSpec) -> list[MethodField]:
    """Return what a method can be told: what is its own, then what all that train share."""
    own = spec.params.__annotations__
    shared = [name for name in TrainingParams.model_fields if name not in own]
    last = [name for name in shared if name not in _FIRST]
    schema = spec.params.model_json_schema()["properties"]
    fields = [MethodField(name, one, is_further=name in last) for name, one in schema.items() if name != "method"]
    return sorted(fields, key=lambda one: (one.name in shared, one.is_further))


def read_params(spec: MethodSpec, said: Mapping[str, str]) -> dict[str, Any]:
    """Return a method's parameters from the form; what is empty is at its default.

    Raises:
        InvalidRequestError: A list or an object is not JSON.
    """
    given = [one for one in fields_of(spec) if said.get(one.field, "").strip()]
    return {one.name: one.parse(said[one.field].strip()) for one in given}
