"""Fields of a form for the parameters of a family, made from their schema, and back from the fields to parameters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from app.console.values import read_fraction, read_json
from app.web.problems import InvalidRequestError
from seatrial.contracts.registry import family, params_contract
from seatrial.reporting.balls import format_radius

Shape = Literal["choice", "many", "number", "numbers", "text", "json"]
"""How a field is filled in: one of several, some of several, a number, numbers with commas, a text, or JSON."""

MOST_IN_SIGHT = 6
"""Fields of a check that are in sight at once; the others are folded."""

UNSET = ""
"""A choice left to the default."""


@dataclass(frozen=True)
class ParameterField:
    """A field of the form.

    Attributes:
        id: Name and id on the page.
        name: Of the parameter.
        title: The same in words.
        help: What it means.
        shape: How it is filled in.
        options: What there is to choose from.
        starting: What stands in it at first; of several a line each.
    """

    id: str
    name: str
    title: str
    help: str
    shape: Shape
    options: tuple[str, ...]
    starting: str


def field_id(kind: str, name: str) -> str:
    """Return the name and id of a parameter's field."""
    return f"p-{kind}-{name}"


@lru_cache(maxsize=64)
def fields_of(kind: str) -> tuple[ParameterField, ...]:
    """Return the fields of a family: what is its own first, in the order of its contract."""
    contract = params_contract(kind)
    document = contract.model_json_schema()
    known = document.get("$defs", {})
    names = [name for name in document["properties"] if name != "kind"]
    names.sort(key=lambda name: name not in contract.__annotations__)
    starting = starting_values(kind)
    found = []
    for name in names:
        schema = document["properties"][name]
        shape, options = _shape(schema, known)
        value = starting.get(name)
        if value is None and shape == "choice":
            options = (UNSET, *options)
        written = _written(shape, value)
        title = name.replace("_", " ")
        found.append(
            ParameterField(field_id(kind, name), name, title, schema.get("description", ""), shape, options, written)
        )
    return tuple(found)


def starting_values(kind: str) -> dict[str, Any]:
    """Return what the parameters of a family are at first, as JSON has it; None: it follows from the others."""
    contract, starting = params_contract(kind), family(kind).starting
    given = contract.model_validate({"kind": kind, **starting}).model_dump(mode="json")
    fields = contract.model_fields
    # What is worked out from others is left to them, so that a change of one changes it too.
    unset = {name for name, one in fields.items() if not one.is_required() and one.get_default() is None}
    return {name: None if name in unset and name not in starting else value for name, value in given.items()}


def write_params(kind: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands in the fields of a family for its parameters, as JSON has them."""
    return {one.id: _written(one.shape, params.get(one.name)) for one in fields_of(kind)}


def read_params(kind: str, values: Mapping[str, str], *, pointer: str) -> dict[str, Any]:
    """Return the parameters that the fields of a family say; what no number is stays a text, for the contract.

    Args:
        kind: Which family.
        values: What stands in the fields; what is not there, or empty, is left to its default.
        pointer: Where the check is in the request, for what is wrong.

    Raises:
        InvalidRequestError: A field of JSON holds none.
    """
    found: dict[str, Any] = {}
    for field in fields_of(kind):
        if field.id not in values:
            continue
        text = values[field.id].strip()
        if field.shape == "many":
            found[field.name] = [line for line in text.split("\n") if line]
        elif text:
            found[field.name] = _read(field, text, f"{pointer}/{field.name}")
    return found


def _read(field: ParameterField, text: str, pointer: str) -> Any:
    match field.shape:
        case "number":
            return read_fraction(text)
        case "numbers":
            return [read_fraction(part) for part in text.replace(",", " ").split()]
        case "json":
            return read_json(text, pointer)
        case "choice" if text in ("true", "false"):
            return text == "true"
    return text


def override(params: dict[str, Any], text: str, *, pointer: str) -> dict[str, Any]:
    """Return parameters with those that a JSON object names put in their place.

    Raises:
        InvalidRequestError: It is no JSON object.
    """
    if not text.strip():
        return params
    given = read_json(text, pointer)
    if not isinstance(given, dict):
        raise InvalidRequestError("Parameters are a JSON object: {...}.", pointer=pointer)
    return {**params, **given}


def _shape(schema: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Shape, tuple[str, ...]]:
    """Return how a parameter is filled in, and from what."""
    schema = _resolved(schema, known)
    ways = [_resolved(way, known) for way in schema.get("anyOf", ())]
    ways = [way for way in ways if way.get("type") != "null"]
    if len(ways) == 1:
        return _shape(ways[0], known)
    if ways or "oneOf" in schema:
        return "json", ()
    if "enum" in schema or "const" in schema:
        return "choice", tuple(str(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "boolean":
        return "choice", ("true", "false")
    if schema.get("type") in ("number", "integer"):
        return "number", ()
    if schema.get("type") == "string":
        return "text", ()
    if schema.get("type") == "array":
        inside, options = _shape(schema.get("items", {}), known)
        if inside == "choice":
            return "many", options
        if inside == "number":
            return "numbers", ()
    return "json", ()


def _resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return schema if reference is None else known[str(reference).rpartition("/")[2]]


def _written(shape: Shape, value: Any) -> str:
    if value is None:
        return ""
    match shape:
        case "number":
            return _number(value)
        case "numbers":
            return ", ".join(map(_number, value))
        case "many":
            return "\n".join(value)
        case "json":
            return json.dumps(value)
        case "choice" if isinstance(value, bool):
            return "true" if value else "false"
    return str(value)


def _number(value: float) -> str:
    """Write a number as it is read back, grey levels as a fraction.

    >>> _number(8 / 255), _number(0.1), _number(40)
    ('8/255', '0.1', '40')
    """
    radius = format_radius(value)
    return radius if "/" in radius and read_fraction(radius) == value else json.dumps(value)
