"""From the submit form to the request the API takes, and from what is wrong with the request back to a field."""

import inspect
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.console.forms import REST
from app.console.parameters import field_id, override, read_params, starting_values
from app.web.bodies import parse_json
from app.web.problems import InvalidRequestError
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.contracts.registry import families, params_contract
from seatrial.families.narratives import narrative_of

_NUMBERS = ("samples", "seed")
_TEXTS = ("policy", "baseline")


def families_for(task: str, model_format: str) -> list[str]:
    """Return the families that can audit a model."""
    return [
        kind
        for kind, spec in families().items()
        if task in spec.tasks and not (model_format == ENDPOINT and spec.needs.gradients)
    ]


def about(kind: str, params: Mapping[str, Any] | None = None) -> str:
    """Return what a family asks and how, in two sentences, for somebody who chooses among families.

    Args:
        kind: Which family.
        params: What is asked of it, where something is; what does not fit is left out.
    """
    starting = starting_values(kind)
    narrative, doc = narrative_of(kind), inspect.getdoc(params_contract(kind))
    try:
        asked = params_contract(kind).model_validate({"kind": kind, **(params or {})}).model_dump(mode="json")
        return f"{narrative.question(asked)} {doc}"
    except ValidationError:
        return f"{narrative.question(starting)} {doc}"


def request_of(fields: Mapping[str, str], kinds: list[str], policy: Mapping[str, Any] | None = None) -> AuditCreate:
    """Return the request a form stands for.

    Args:
        fields: The form.
        kinds: Families that were chosen.
        policy: The policy itself, where it is none that the field names.

    Raises:
        InvalidRequestError: Something in it does not fit; ``errors`` points at it as in the API's body.
    """
    body: dict[str, Any] = {
        "model": fields.get("model", ""),
        "dataset": fields.get("dataset", ""),
        "checks": checks_of(fields, kinds),
    }
    body |= {name: whole_or_text(fields[name]) for name in _NUMBERS if fields.get(name)}
    body |= {name: fields[name] for name in _TEXTS if fields.get(name)}
    if policy is not None:
        body["policy"] = policy
    if fields.get("reuse"):
        body["reuse"] = True
    return parse_json(json.dumps(body), AuditCreate)


def checks_of(fields: Mapping[str, str], kinds: list[str], *, root: str = "") -> list[dict[str, Any]]:
    """Return the checks a form asks for; ``root`` is where the request has them.

    Raises:
        InvalidRequestError: None was chosen, or what stands in a field of a parameter does not fit.
    """
    if not kinds:
        raise InvalidRequestError("Choose at least one check.", pointer=f"{root}/checks")
    return [_check(f"{root}/checks/{position}", kind, fields) for position, kind in enumerate(kinds)]


def _check(pointer: str, kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    if kind not in families():
        return {"kind": kind}
    params = read_params(kind, fields, pointer=pointer)
    return {**override(params, fields.get(f"params-{kind}", ""), pointer=pointer), "kind": kind}


def whole_or_text(text: str) -> int | str:
    """Return a count; what is none stays a text, for the contract to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def field_of(pointer: str, kinds: list[str], fields: Mapping[str, str] | None = None) -> str:
    """Return the field of the page that a JSON pointer into the request is about.

    Args:
        pointer: Into the request.
        kinds: Families that were chosen.
        fields: The form; what its JSON says of a parameter counts, and is to blame.

    >>> field_of("/checks/1/nonsense", ["a", "b"]), field_of("/samples", []), field_of("/checks", [])
    ('params-b', 'samples', 'checks')
    >>> field_of("/checks/0/epsilon", ["a"], {"p-a-epsilon": "x"})
    'p-a-epsilon'
    """
    steps = pointer.strip("/").split("/")
    if steps[0] == "checks":
        position = int(steps[1]) if len(steps) > 1 and steps[1].isdigit() else len(kinds)
        if position >= len(kinds):
            return "checks"
        kind, said = kinds[position], fields or {}
        own = field_id(kind, steps[2]) if len(steps) > 2 else ""
        is_overridden = f'"{steps[2]}"' in said.get(f"params-{kind}", "") if own else True
        return own if own in said and not is_overridden else f"params-{kind}"
    return steps[0] if steps[0] in ("model", "dataset", *_NUMBERS, *_TEXTS) else REST
