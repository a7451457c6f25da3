"""Errors as ``application/problem+json`` (RFC 9457): one tree, rendered in one place.

::

    ProblemError                      what a client did, and what would be right
    +-- InvalidRequestError      422  a body, parameter or header does not fit; ``errors[]`` says which
    +-- MalformedBodyError       400  not JSON, not multipart, cut short
    +-- MalformedRequestError    400  not HTTP: a request line, a header or a body's framing
    +-- UnsupportedMediaError    415  another kind of body than the route reads
    +-- NotAcceptableError       406  another kind of answer than the route gives
    +-- UnauthorizedError        401  no key, or one that is not valid
    +-- ForbiddenError           403  the key's scope, or where the request comes from, does not allow it
    +-- NotFoundError            404  nothing of that id in this project
    +-- ConflictError            409  the state of the thing does not allow it
    +-- PayloadTooLargeError     413  beyond a limit the operator set
    +-- StoredProblemError       422  what a worker found wrong with an upload
    +-- TooManyRequestsError     429  more than this project may ask for at present; Retry-After says when
    +-- StorageFullError         507  no room left on the disk

Every entry of ``errors[]`` has two coordinates: ``in``, a part of the request, and ``pointer``, a JSON pointer into it.
Parameters and headers are taken as an object by name: ``{"in": "query", "pointer": "/limit"}``.
"""

import errno
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount

from seatrial.contracts.known_fields import refusal
from seatrial.contracts.problems import StoredProblem
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
# An URN, not a link: the service must be complete without a network.
TYPE_PREFIX = "urn:seatrial:problem:"

Part = Literal["body", "form", "query", "path", "header"]
"""Part of a request an error is in."""


class FieldError(BaseModel):
    """One thing wrong with a request."""

    model_config = ConfigDict(populate_by_name=True)

    part: Part = Field(
        default="body",
        alias="in",
        description="Part of the request `pointer` leads into: the JSON `body`, the multipart `form` by part name, the "
        "`query` parameters, `path` parameters or `header`s by name.",
        examples=["body"],
    )
    pointer: str = Field(
        description="JSON pointer (RFC 6901) into that part: `/checks/0/epsilon` in a body, `/manifest/labels` or "
        "`/file` in a form, `/limit` in the query, `/audit_id` in the path, `/idempotency-key` in the headers. Empty: "
        "all of it.",
        examples=["/checks/0/epsilon"],
    )
    detail: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="URN of this kind of problem.", examples=["urn:seatrial:problem:not-found"])
    title: str = Field(description="The kind of problem, for a person.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What was wrong, where, and what would be right.")
    instance: str = Field(description="Path of the request.")
    code: str = Field(description="Kebab-case name of the problem, stable across versions.", examples=["not-found"])
    request_id: str = Field(description="Also in the X-Request-ID header and in the service's log.")
    errors: list[FieldError] | None = Field(default=None, description="Which fields are to blame, where any are.")


class ProblemError(Exception):
    """An answer other than the one asked for."""

    status = 400
    code = "bad-request"
    title = "The request cannot be answered"

    def __init__(
        self,
        detail: str,
        *,
        errors: list[FieldError] | None = None,
        pointer: str | None = None,
        part: Part = "body",
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors or (
            [FieldError(part=part, pointer=pointer, detail=detail)] if pointer is not None else None
        )
        self.headers = dict(headers or {})
        self.extra = extra

    def stored(self) -> StoredProblem:
        """Return it as it is stored with what it is about."""
        return StoredProblem(code=self.code, title=self.title, detail=self.detail)


class InvalidRequestError(ProblemError):
    """A body, parameter or header does not fit."""

    status = 422
    code = "invalid-request"
    title = "The request is not valid"


class MalformedBodyError(ProblemError):
    """The body is not what its content type says."""

    code = "malformed-body"
    title = "The body cannot be read"


class MalformedRequestError(ProblemError):
    """The request is not HTTP as it should be."""

    code = "malformed-request"
    title = "The request cannot be read"


class UnsupportedMediaError(ProblemError):
    """The route reads another kind of body."""

    status = 415
    code = "unsupported-media-type"
    title = "This kind of body is not accepted"


class NotAcceptableError(ProblemError):
    """The route gives no such kind of answer."""

    status = 406
    code = "not-acceptable"
    title = "No answer in that format"


class UnauthorizedError(ProblemError):
    """No key, or one that is not valid."""

    status = 401
    code = "unauthorized"
    title = "An API key is needed"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="seatrial"'})


class ForbiddenError(ProblemError):
    """Known, but not allowed."""

    status = 403
    code = "forbidden"
    title = "Not allowed"


class NotFoundError(ProblemError):
    """Nothing of that id in this project."""

    status = 404
    code = "not-found"
    title = "Not found"


class ConflictError(ProblemError):
    """The state of the thing does not allow it."""

    status = 409
    code = "conflict"
    title = "Conflict with the current state"


class PayloadTooLargeError(ProblemError):
    """Beyond a limit the operator set."""

    status = 413
    code = "payload-too-large"
    title = "The body is too large"


class TooManyRequestsError(ProblemError):
    """More at one time, or within a minute, than whoever asks has a share of."""

    status = 429
    code = "too-many-requests"
    title = "Too many requests"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_s)})


class StorageFullError(ProblemError):
    """No room left on the disk."""

    status = 507
    code = "storage-full"
    title = "The service has no room left"


class StoredProblemError(ProblemError):
    """What a worker found wrong with an upload."""

    status = 422

    def __init__(self, problem: StoredProblem, *, pointer: str | None = None, **extra: Any) -> None:
        super().__init__(problem.detail, pointer=pointer if pointer is not None else problem.field, **extra)
        self.code = problem.code
        self.title = problem.title


def request_id_of(request: Request) -> str:
    """Return the id of a request, as the log has it."""
    return str(getattr(request.state, "request_id", ""))


def render(request: Request, error: ProblemError) -> Response:
    """Return the answer for a problem."""
    request_id = request_id_of(request)
    body = problem_body(error, instance=request.scope["path"], request_id=request_id)
    if error.errors:
        body["errors"] = [_as_sent(request, one).model_dump(by_alias=True) for one in error.errors]
    headers = {"X-Request-ID": request_id, **error.headers}
    return JSONResponse(body, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def problem_body(error: ProblemError, *, instance: str, request_id: str) -> dict[str, Any]:
    """Return the document of a problem, without the fields to blame."""
    return {
        "type": TYPE_PREFIX + error.code,
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": instance,
        "code": error.code,
        "request_id": request_id,
        **error.extra,
    }


def _as_sent(request: Request, error: FieldError) -> FieldError:
    """Return the error at the place its sender knows: the same manifest and file come in a form or by reference."""
    if error.part != "body":
        return error
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        return error.model_copy(update={"part": "form"})
    return error.model_copy(update={"pointer": "/path"}) if error.pointer == "/file" else error


def _named(status: int, code: str, title: str, detail: str, headers: Mapping[str, str] | None = None) -> ProblemError:
    error = ProblemError(detail, headers=headers)
    error.status, error.code, error.title = status, code, title
    return error


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for this type only
    return render(request, error)


async def _on_invalid_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type only
    errors = [
        FieldError(part=one["loc"][0], pointer="".join(f"/{step}" for step in one["loc"][1:]), detail=_told(one))
        for one in error.errors()
    ]
    detail = "; ".join(f"{one.pointer.removeprefix('/')}: {one.detail}" for one in errors)
    return render(request, InvalidRequestError(detail, errors=errors))


def _told(error: Any) -> str:
    return refusal(None, error, error.get("input"))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type only
    phrase = HTTPStatus(error.status_code).phrase
    detail = error.detail if error.detail != phrase else f"{phrase}: {request.method} {request.scope['path']}"
    code = phrase.lower().replace(" ", "-")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(allowed_methods(request))
    return render(request, _named(error.status_code, code, phrase, detail, headers))


def allowed_methods(request: Request) -> list[str]:
    """Return the methods that the path of a request answers; one route may answer one, and another the next."""
    # A folder that was asked has made its part of the path the root.
    scope = {**request.scope, "root_path": request.scope.get("app_root_path", request.scope.get("root_path", ""))}
    routes: list[BaseRoute] = request.app.router.routes
    if any(_is_folder(route) and route.matches(scope)[0] == Match.FULL for route in routes):
        return ["GET", "HEAD"]
    methods = {
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(route.matches({**scope, "method": method})[0] == Match.FULL for route in routes if not _is_folder(route))
    }
    return sorted({*methods, "HEAD"} if "GET" in methods else methods)


def _is_folder(route: BaseRoute) -> bool:
    # It says that it answers whatever it is asked.
    return isinstance(route, Mount)


async def _on_refused_upload(request: Request, error: Exception) -> Response:
    assert isinstance(error, InspectionError)  # noqa: S101 - registered for this type only
    problem = _named(error.status, error.code, error.title, error.detail)
    problem.errors = [FieldError(pointer=error.field, detail=error.detail)]
    return render(request, problem)


async def _on_missing_bytes(request: Request, error: Exception) -> Response:
    if isinstance(error, ArtifactDamagedError):
        log.error("damaged bytes: %s", error)
        detail = (
            "The stored bytes are damaged and are not given out: upload them again; of an audit's, retry it if it "
            "failed, else submit it again."
        )
        return render(request, _named(410, "artifact-damaged", "A stored file is damaged", detail))
    log.error("missing bytes: %s", error)
    detail = "The stored bytes are missing: the artifact folder was emptied or replaced."
    return render(request, _named(410, "bytes-missing", "The stored bytes are gone", detail))


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return render(request, MalformedBodyError("The connection ended before the body did."))


async def _on_database_error(request: Request, error: Exception) -> Response:
    # The driver's message, without the statement and its values.
    log.error("database unavailable [request %s]: %s", request_id_of(request), getattr(error, "orig", error))
    detail = "The database does not answer, or has not been migrated; /readyz tells which."
    return render(request, _named(503, "unavailable", "Not available now", detail, {"Retry-After": "5"}))


async def _on_broken_integrity(request: Request, error: Exception) -> Response:
    # Two requests at once: one deleted, or stored, what the other's row needs.
    log.warning("conflict in the database [request %s]: %s", request_id_of(request), getattr(error, "orig", error))
    detail = "Something this request names was deleted, or stored, by another at the same time: look, and ask again."
    return render(request, ConflictError(detail))


async def _on_os_error(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        log.error("no room left: %s", error)
        return render(request, StorageFullError("The disk of the service is full: nothing was stored."))
    return internal_error(request, error)


def internal_error(request: Request, error: Exception) -> Response:
    """Return the answer for a mistake of ours: what it was stands in the log, not in the answer."""
    log.error("unexpected error [request %s]", request_id_of(request), exc_info=error)
    detail = f"Internal error; the service log has the details under request {request_id_of(request)}."
    return render(request, _named(500, "internal-error", "Internal error", detail))


def install(app: FastAPI) -> None:
    """Render every error of ``app`` as a problem; what is left is caught by the outermost middleware."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid_parameters)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(InspectionError, _on_refused_upload)
    app.add_exception_handler(ArtifactMissingError, _on_missing_bytes)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(OSError, _on_os_error)
    app.add_exception_handler(IntegrityError, _on_broken_integrity)
    app.add_exception_handler(OperationalError, _on_database_error)
    app.add_exception_handler(PoolTimeoutError, _on_database_error)


def raises(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the problems a route answers with, for its ``responses``."""
    return {status: {"description": HTTPStatus(status).phrase, "model": Problem} for status in statuses}
