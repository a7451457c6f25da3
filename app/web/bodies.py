"""JSON bodies read as JSON: strict, with JSON pointers to what is wrong.

FastAPI validates the Python objects a body was parsed to, where strict mode refuses legal JSON (1 for a float, a string
for a date). Here the raw bytes go to pydantic's own JSON mode. A route declares its body once, with :func:`accepts`,
for the documentation, and takes it with :func:`json_body`.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.web.problems import FieldError, InvalidRequestError, MalformedBodyError, UnsupportedMediaError
from seatrial.contracts.known_fields import pointer_of, refusal

ModelT = TypeVar("ModelT", bound=BaseModel)

# A body of a megabyte has room for a hundred thousand unknown fields; telling each took seconds.
MAX_ERRORS = 100


def json_body(model: type[ModelT]) -> Callable[[Request], Awaitable[ModelT]]:
    """Return a dependency that reads the request's body as ``model``."""

    async def read(request: Request) -> ModelT:
        return await read_json(request, model)

    return read


async def read_json(request: Request, model: type[ModelT]) -> ModelT:
    """Return the body as ``model``.

    Raises:
        UnsupportedMediaError: The body is not declared as JSON.
        MalformedBodyError: The body is not JSON.
        InvalidRequestError: A field does not fit; ``errors`` points at each.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaError(f"Send Content-Type: application/json, not {media_type or 'nothing'}.")
    return parse_json(await request.body(), model)


def parse_json(raw: bytes | str, model: type[ModelT], *, root: str = "") -> ModelT:
    """Return JSON text as ``model``.

    Args:
        raw: JSON text.
        model: What it should be.
        root: JSON pointer of the text inside the request (``/manifest`` for a part of a form).

    Raises:
        MalformedBodyError: The text is not JSON.
        InvalidRequestError: A field does not fit; the first :data:`MAX_ERRORS` are told.
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    if any(one["type"] == "json_invalid" for one in found):
        message = found[0]["msg"].removeprefix("Invalid JSON: ")
        raise MalformedBodyError(f"Not JSON: {message}", pointer=root or None)
    body = json.loads(raw)
    errors = []
    for one in found[:MAX_ERRORS]:
        pointer, said = pointer_of(body, one)
        errors.append(FieldError(pointer=root + pointer, detail=refusal(model, one, said)))
    told = "; ".join(f"{one.pointer or 'body'}: {one.detail}" for one in errors[:5])
    if len(found) > MAX_ERRORS:
        told += f"; `errors` has the first {MAX_ERRORS} of {len(found):,}"
    raise InvalidRequestError(told, errors=errors)


def accepts(model: type[BaseModel], *, examples: dict[str, Any]) -> dict[str, Any]:
    """Return ``openapi_extra`` documenting a JSON body.

    Args:
        model: The body.
        examples: Complete bodies by title; each works as it stands.
    """
    return {"requestBody": {"required": True, "content": {"application/json": _content(model, examples)}}}


def accepts_upload(
    reference: type[BaseModel],
    manifest: type[BaseModel],
    *,
    sample: Mapping[str, Any],
    example: dict[str, Any],
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return ``openapi_extra`` documenting a multipart upload, or a JSON reference in its place.

    Args:
        reference: The JSON body.
        manifest: What the ``manifest`` part holds, as JSON text.
        sample: A manifest of a file of :mod:`app.web.samples`.
        example: A complete reference.
        more: Further complete JSON bodies by title.
    """
    form = {
        "type": "object",
        "required": ["manifest", "file"],
        "additionalProperties": False,
        "properties": {
            # An object in a form is sent as JSON text (OpenAPI 3.1, 4.8.14.4), and pages show a field for text.
            "manifest": {
                "$ref": f"#/components/schemas/{manifest.__name__}",
                "description": "The manifest as JSON text.",
                "example": sample,
            },
            "file": {"type": "string", "format": "binary", "description": "The bytes."},
        },
    }
    content = {
        "multipart/form-data": {"schema": form},
        "application/json": _content(reference, {"a path the operator allows": example, **(more or {})}),
    }
    return {"requestBody": {"required": True, "content": content}}


def _content(model: type[BaseModel], examples: dict[str, Any]) -> dict[str, Any]:
    named = {f"example-{n}": {"summary": title, "value": value} for n, (title, value) in enumerate(examples.items())}
    return {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}, "examples": named}
