"""From the submit form to the request the API takes, and from what is wrong with the request back to a field."""

import inspect
import json
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from app.console.forms import REST
from app.web.bodies import parse_json
from app.web.problems import FieldError, InvalidRequestError
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.registry import families, family, params_contract
from seatrial.families.narratives import narrative_of

_NUMBERS = ("samples", "seed")
_TEXTS = ("policy", "baseline")
ENDPOINT = "endpoint"


def families_for(task: str, model_format: str) -> list[str]:
    """Return the families that can audit a model."""
    return [
        kind
        for kind, spec in families().items()
        if task in spec.tasks and not (model_format == ENDPOINT and spec.needs.gradients)
    ]


def starting_params(kind: str) -> str:
    """Return a family's parameters as JSON, to be changed: what is null follows from the others."""
    params: dict[str, Any] = {}
    starting = family(kind).starting
    for name, field in _fields(kind).items():
        default = field.get_default(call_default_factory=True, validated_data={})
        if name in starting:
            params[name] = starting[name]
        elif default is not PydanticUndefined:
            params[name] = to_jsonable_python(default)
    return json.dumps(params, indent=2)


def about(kind: str) -> str:
    """Return what a family asks and how, in two sentences, for somebody who chooses among families."""
    question = narrative_of(kind).question(json.loads(starting_params(kind)))
    return f"{question} {inspect.getdoc(params_contract(kind))}"


def described_params(kind: str) -> list[tuple[str, str]]:
    """Return what each parameter of a family means."""
    return [(name, field.description or "") for name, field in _fields(kind).items()]


def _fields(kind: str) -> dict[str, FieldInfo]:
    """Return what can be asked of a family, what it shares with others behind what is its own."""
    contract = params_contract(kind)
    fields = {name: field for name, field in contract.model_fields.items() if name != "kind"}
    return dict(sorted(fields.items(), key=lambda pair: pair[0] not in contract.__annotations__))


def request_of(fields: Mapping[str, str], kinds: list[str]) -> AuditCreate:
    """Return the request a form stands for.

    Args:
        fields: The form.
        kinds: Families that were chosen.

    Raises:
        InvalidRequestError: Something in it does not fit; ``errors`` points at it as in the API's body.
    """
    if not kinds:
        raise InvalidRequestError("Choose at least one check.", pointer="/checks")
    body: dict[str, Any] = {
        "model": fields.get("model", ""),
        "dataset": fields.get("dataset", ""),
        "checks": [_check(position, kind, fields) for position, kind in enumerate(kinds)],
    }
    body |= {name: _whole(fields[name]) for name in _NUMBERS if fields.get(name)}
    body |= {name: fields[name] for name in _TEXTS if fields.get(name)}
    return parse_json(json.dumps(body), AuditCreate)


def _check(position: int, kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    text = fields.get(f"params-{kind}", "").strip() or "{}"
    pointer = f"/checks/{position}"
    try:
        params = json.loads(text)
    except (ValueError, RecursionError) as error:
        detail = f"This is not JSON: {error}."
        raise InvalidRequestError(detail, errors=[FieldError(pointer=pointer, detail=detail)]) from error
    if not isinstance(params, dict):
        raise InvalidRequestError("Parameters are a JSON object: {...}.", pointer=pointer)
    return {**params, "kind": kind}


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def field_of(pointer: str, kinds: list[str]) -> str:
    """Return the field of the page that a JSON pointer into the request is about.

    >>> field_of("/checks/1/epsilon", ["a", "b"]), field_of("/samples", []), field_of("/checks", [])
    ('params-b', 'samples', 'checks')
    """
    steps = pointer.strip("/").split("/")
    if steps[0] == "checks":
        position = int(steps[1]) if len(steps) > 1 and steps[1].isdigit() else len(kinds)
        return f"params-{kinds[position]}" if position < len(kinds) else "checks"
    return steps[0] if steps[0] in ("model", "dataset", *_NUMBERS, *_TEXTS) else REST
