"""The OpenAPI document: every body, every problem, every example."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.web.problems import MEDIA_TYPE, TYPE_PREFIX, Problem
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.datasets import DatasetManifest, DatasetReference
from seatrial.contracts.events import EventRead
from seatrial.contracts.hardenings import HardeningCreate, HardeningEventRead
from seatrial.contracts.models import ModelManifest, ModelReference
from seatrial.contracts.perturb import PerturbRequest
from seatrial.contracts.plans import PlanCreate
from seatrial.contracts.policies import BaselineCreate, JudgementRequest, Policy
from seatrial.contracts.tags import TagChange

# Bodies are read by the rooms themselves (see app.web.bodies) and events are no JSON: FastAPI does not know them.
BODIES: tuple[type[BaseModel], ...] = (
    AuditCreate,
    BaselineCreate,
    DatasetManifest,
    DatasetReference,
    EventRead,
    HardeningCreate,
    HardeningEventRead,
    JudgementRequest,
    ModelManifest,
    ModelReference,
    PerturbRequest,
    PlanCreate,
    Policy,
    Problem,
    TagChange,
)

DESCRIPTION = """
Puts a classifier through a sea trial: upload a model and a dataset, submit an audit, follow it, read the numbers with
their confidence intervals.

1. `POST /v1/models` and `POST /v1/datasets` take the bytes and a manifest.
2. `POST /v1/audits` names both and the checks to run; the answer is `202` and a `Location` to read.
3. `GET /v1/audits/{id}` tells its progress, `GET /v1/audits/{id}/events` streams it.
4. With a `policy`, the audit ends with a `verdict`: `passed`, `failed`, `inconclusive` or `errored`.
   `POST /v1/audits/{id}/judge` judges an old audit again by another policy; nothing is run for that.

Errors are `application/problem+json` (RFC 9457): `detail` says what was wrong and what would be right; each of
`errors[]` says which part of the request is to blame (`in`) and where in it (`pointer`). A query parameter that a route
does not know is such an error. HEAD is answered wherever GET is.

Send `Authorization: Bearer <key>`; a service on loopback may need none.
"""

TAGS = [
    {"name": "models", "description": "Weights and what they mean. Pickles are refused, by content."},
    {"name": "datasets", "description": "Labelled examples."},
    {"name": "audits", "description": "What is run, its progress, and its results."},
    {"name": "policies", "description": "What must hold for a model to ship; versions never change."},
    {"name": "baselines", "description": "Audits later ones are compared with."},
    {"name": "reports", "description": "A page, and what machines read; the signed verdict; a bundle to run it again."},
    {"name": "plans", "description": "A hardening, an audit, its verdict, its attestation and a message, at once."},
    {
        "name": "hardenings",
        "description": "A model trained to hold, its next version, and the pair of audits that tells.",
    },
    {"name": "search", "description": "Tags, and everything by name, tag, digest, verdict and number."},
    {"name": "perturb", "description": "Character-level noise without a model; nothing is stored."},
    {"name": "webhooks", "description": "Addresses that are told when audits end and are judged, signed and retried."},
    {"name": "deletions", "description": "Deleting, and what stays of what was deleted."},
    {"name": "projects", "description": "Shares of the workers, what is kept and what is used; who did what."},
    {"name": "keys", "description": "API keys: `read` sees, `run` also uploads and audits, `admin` also makes keys."},
    {"name": "health", "description": "For load balancers and monitoring; no key needed."},
]

_REF = "#/components/schemas/{model}"


def install(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> None:
    """Make ``app`` serve the document of :func:`describe`, made and rendered at the first request for it.

    Args:
        app: What it describes.
        bodies: Requests that rooms have schemas of their own for.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app, bodies)
        return app.openapi_schema

    @cache
    def rendered() -> bytes:
        # Anybody may ask, and rendering a quarter of a megabyte takes ten times as long as all the rest of an answer.
        return json.dumps(openapi(), ensure_ascii=False, separators=(",", ":")).encode()

    async def read_openapi(request: Request) -> Response:
        return Response(rendered(), media_type="application/json")

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route("/openapi.json", read_openapi, include_in_schema=False)


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Return the OpenAPI document of an app; ``bodies`` as in :func:`install`."""
    document = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, tags=TAGS, routes=app.routes, servers=None
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    read = sorted((*BODIES, *bodies), key=lambda body: body.__name__)
    _, defined = models_json_schema([(body, "validation") for body in read], ref_template=_REF)
    schemas.update(defined["$defs"])
    # FastAPI's own shape of a validation error, which we never send.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key; see the routes of `keys`."}
    }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _finish(path, operation)
    return document


REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "title": "X-Request-ID"},
    "description": "What the log and the response call this request by; a new one where it is left out.",
}
"""Of every operation with a body. Named in the document too, since openapi-python-client 0.29 forgets to import what an
operation with several kinds of bodies needs where no parameter may be left out."""


def _finish(path: str, operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and "examples" in parameter["schema"]:
            # Pages fill their fields with this one, not with the schema's.
            parameter["example"] = parameter["schema"]["examples"][0]
        if parameter["in"] == "header":
            # One that may come several times is read as a list and written as a text (RFC 9110, 5.3).
            parameter["schema"] = {"type": "string", "title": parameter["schema"].get("title", parameter["name"])}
    if "requestBody" in operation:
        operation["parameters"] = [*operation.get("parameters", ()), REQUEST_ID]
    if path.startswith("/v1/"):
        operation["security"] = [{"key": []}, {}]
    responses = operation["responses"]
    for status, response in responses.items():
        if status.isdecimal() and int(status) >= 400 and path != "/readyz":
            response["content"] = {
                MEDIA_TYPE: {
                    "schema": {"$ref": _REF.format(model="Problem")},
                    "example": _example(path, status, response),
                }
            }
    responses["default"] = {
        "description": "Any other problem.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}},
    }


def _example(path: str, status: str, response: dict[str, Any]) -> dict[str, Any]:
    title = response["description"]
    code = title.lower().replace(" ", "-")
    return {
        "type": TYPE_PREFIX + code,
        "title": title,
        "status": int(status),
        "detail": "What was wrong, where, and what would be right.",
        "instance": path,
        "code": code,
        "request_id": "0199f0c4e0c27b6c8a3e5d1f9b7a2c11",
    }
