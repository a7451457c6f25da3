"""Fields that a body has no place for, or lacks, and values that are none of a few: what they are refused with."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails, PydanticCustomError

from seatrial.contracts.near_names import instead, not_a_choice

# Errors whose last step names something that is not (or must not be) in the body.
_NAMES_ABSENT = {"missing", "extra_forbidden", "union_tag_not_found", "absent_field"}
_QUOTED = re.compile(r"'([^']*)'")


def absent_field(field: str, what: str) -> PydanticCustomError:
    """Return the error of a field that is needed though it may be left out elsewhere: its pointer names the field.

    Args:
        field: Its name.
        what: What it has to hold.
    """
    told = {"field": field, "what": what, "path": (field,)}
    return PydanticCustomError("absent_field", "{field} is required: {what}", told)


def pointer_of(body: Any, error: ErrorDetails) -> tuple[str, Any]:
    """Return the JSON pointer of an error, and what stands there or around it.

    Steps that name a member of a union are not in the body and are left out.

    Args:
        body: As it was sent.
        error: What pydantic says of it.

    >>> pointer_of({"a": {"kind": "x"}}, {"type": "missing", "loc": ("a", "x", "b"), "msg": "", "input": None})
    ('/a/b', {'kind': 'x'})
    """
    place = (*error["loc"], *_further(error.get("ctx", {})))
    steps: list[str] = []
    for position, step in enumerate(place):
        inside = isinstance(body, dict) and step in body
        if inside or (isinstance(body, list) and isinstance(step, int) and step < len(body)):
            body = body[step]
        elif not (position == len(place) - 1 and error["type"] in _NAMES_ABSENT):
            continue
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join("/" + step for step in steps), body


def _further(context: Mapping[str, Any]) -> tuple[int | str, ...]:
    # A rule about several members says which is at fault by a `path` of its own, after pydantic's; pydantic points at a
    # union as a whole where the member that chooses is wrong, and names that member in quotes.
    if "discriminator" in context:
        return (str(context["discriminator"]).strip("'"),)
    return tuple(context.get("path", ()))


def refusal(body: Any, error: ErrorDetails, said: object = None) -> str:
    """Return what is wrong with a field, in the words of its author and the same at every door.

    Args:
        body: Type of the body.
        error: What pydantic says of it.
        said: What stands in the field, where it is known.
    """
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return unknown_field(body, error["loc"]) or error["msg"]
        case "union_tag_not_found":
            field = context["discriminator"].strip("'")
            kinds = [one for member in _reached(body, error["loc"]) for one in _literals_of(member, field)]
            return f"{field} is required; there are {', '.join(kinds)}" if kinds else f"{field} is required"
        case "union_tag_invalid":
            return not_a_choice(context["tag"], _QUOTED.findall(context["expected_tags"]))
        case "literal_error" | "enum" if len(choices := _QUOTED.findall(str(context["expected"]))) > 1:
            return not_a_choice(said, choices)
        case "list_type":
            return "must be a list, even of one"
        case "model_attributes_type" | "model_type" | "dict_type":
            has_kind = any(_literals_of(member, "kind") for member in _reached(body, error["loc"]))
            return 'must be an object, {"kind": ...}' if has_kind else "must be an object"
    return error["msg"].removeprefix("Value error, ")


def unknown_field(body: Any, place: Sequence[int | str]) -> str | None:
    """Return what a field is refused with that a body has no place for; None where its neighbours are not known.

    Args:
        body: Type of the body.
        place: Where the field is, as pydantic says it: steps of the body, and which member of a union was meant.

    >>> class Step(BaseModel):
    ...     kind: Literal["step"]
    ...     seconds: int
    >>> unknown_field(list[Step], (0, "secnds"))
    "unknown field: did you mean 'seconds'? Known fields: kind, seconds"
    """
    contracts = [one for one in _reached(body, place[:-1]) if isinstance(one, type) and issubclass(one, BaseModel)]
    if len(contracts) != 1:
        return None
    names = [field.alias or name for name, field in contracts[0].model_fields.items()]
    return f"unknown field{instead(place[-1], names, 'known fields:')}" if names else None


def _reached(body: Any, place: Sequence[int | str]) -> list[Any]:
    """Return the types of what stands at a place."""
    reached = _members(body)
    for step in place:
        reached = [inner for one in reached for inner in _inside(one, step)]
    return reached


def _members(annotation: Any) -> list[Any]:
    """Return the types a value may have, unions resolved."""
    origin = get_origin(annotation)
    if origin is Annotated:
        # A tag of its own is a step of the place, as is one that a field holds.
        return [annotation] if _tag(annotation) is not None else _members(get_args(annotation)[0])
    if origin is None or origin is Literal or _item(annotation) is not None:
        return [annotation]
    return [one for argument in get_args(annotation) for one in _members(argument)]


def _tag(annotation: Any) -> str | None:
    """Return the name a member of a union is chosen by, where it is no field's value."""
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((one.tag for one in metadata if isinstance(one, Tag)), None)


def _item(annotation: Any) -> Any:
    """Return the type of what a list or a mapping holds; None of what is neither."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not isinstance(origin, type) or not arguments:
        return None
    return arguments[-1] if issubclass(origin, Mapping) else arguments[0] if issubclass(origin, Iterable) else None


def _inside(one: Any, step: int | str) -> list[Any]:
    if (tag := _tag(one)) is not None:
        return _members(get_args(one)[0]) if step == tag else []
    if not (isinstance(one, type) and issubclass(one, BaseModel)):
        item = _item(one)
        # A step into a list is a number; a name chooses among the members of a union, of which lists have none.
        return [] if item is None else _members(item)
    for name, field in one.model_fields.items():
        if step in (name, field.alias):
            return _members(field.annotation)
    tags = {tag for field in one.model_fields.values() for tag in _literals(field.annotation)}
    return [one] if step in tags or step == one.__name__ else []


def _literals_of(contract: Any, name: str) -> tuple[Any, ...]:
    fields = contract.model_fields if isinstance(contract, type) and issubclass(contract, BaseModel) else {}
    return _literals(fields[name].annotation) if name in fields else ()


def _literals(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()
