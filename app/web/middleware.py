"""What happens to every request before a route sees it: an id, a size limit, and who may ask from where.

Plain ASGI: Starlette's BaseHTTPMiddleware would run each request in a second task and buffer what it streams.
"""

import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid6 import uuid7

from app.web.problems import ForbiddenError, MalformedRequestError, PayloadTooLargeError, internal_error, render
from seatrial.logs import start_anew
from seatrial.store.settings import MIB, Settings

log = structlog.get_logger("seatrial.http")

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
# Boundaries and part headers around the file of an upload.
MULTIPART_SLACK = MIB
# Of a form anybody may send: a key, and where to go on.
LOGIN_BYTES = 16 * 1024

Observe = Callable[[str, str, int, float], None]


class RequestContext:
    """Gives a request its id, tells the log and the metrics about it, and sets the headers every answer has."""

    def __init__(self, app: ASGIApp, observe: Observe) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else uuid7().hex
        scope.setdefault("state", {})["request_id"] = request_id
        app = self._app if is_host(Headers(scope=scope).get("host", "")) else _refuse_host
        began, status, has_begun = time.perf_counter(), 500, False
        start_anew({"request_id": request_id})

        async def with_headers(message: Message) -> None:
            nonlocal status, has_begun
            has_begun = True
            if message["type"] == "http.response.start":
                status = message["status"]
                _set_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        try:
            await app(scope, receive, with_headers)
        except Exception as error:
            if has_begun:
                raise
            await internal_error(Request(scope), error)(scope, receive, with_headers)
        finally:
            seconds = time.perf_counter() - began
            self._observe(scope["method"], route_of(scope), status, seconds)
            told = log.debug if scope["path"] in ("/healthz", "/readyz", "/metrics") else log.info
            told(
                "request",
                **{name: one for name, one in scope.get("path_params", {}).items() if name.endswith("_id")},
                request_id=request_id,
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(1000 * seconds, 1),
            )


async def _refuse_host(scope: Scope, receive: Receive, send: Send) -> None:
    # Every URL made of a request begins with it.
    error = MalformedRequestError("The Host header is no host, as `seatrial.example` or `127.0.0.1:8000` are.")
    await render(Request(scope), error)(scope, receive, send)


def is_host(text: str) -> bool:
    """Return whether a text may stand in a Host header: none, a name or an address, and a port.

    >>> [is_host(text) for text in ("", "a.example:80", "[::1]:8000", "[", "[::::]", "a/b", "a@b", "a:99999")]
    [True, True, True, False, False, False, False, False]
    """
    try:
        # Raises for a port that is none, and for brackets around what is no address.
        urlsplit(f"//{text}").port  # noqa: B018
    except ValueError:
        return False
    return re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%-]*)(:[0-9]*)?", text) is not None


def host_of(origin: str) -> str | None:
    """Return host and port of an Origin header; None for one that has none.

    >>> host_of("https://a.example:8443"), host_of("null"), host_of("http://[")
    ('a.example:8443', None, None)
    """
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def route_of(scope: Scope) -> str:
    """Return the template of the route that answered: paths themselves would be a metric per id.

    >>> route_of({"path": "/v1/audits/aud_1/cancel", "path_params": {"audit_id": "aud_1"}, "endpoint": print})
    '/v1/audits/{audit_id}/cancel'
    """
    if "endpoint" not in scope:
        return "none"
    names = {str(value): name for name, value in scope.get("path_params", {}).items()}
    path: str = scope["path"]
    return "/".join(f"{{{names[step]}}}" if step in names else step for step in path.split("/"))


def _set_headers(headers: MutableHeaders, request_id: str) -> None:
    headers.setdefault("X-Request-ID", request_id)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "no-referrer")
    headers.setdefault("X-Frame-Options", "DENY")
    headers.setdefault("Cache-Control", "no-store")
    # A page may style itself and show its own pictures; whoever needs scripts says so.
    headers.setdefault(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    )


class BodyLimit:
    """Refuses bodies beyond what the operator set: declared ones before a byte is read, others as they are counted."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._json = settings.max_json_bytes
        self._strangers = dict.fromkeys(("/login", "/logout"), min(LOGIN_BYTES, settings.max_json_bytes))
        beside = settings.max_json_bytes + MULTIPART_SLACK
        # The API's uploads, and the same from a form of the console.
        self._uploads = {
            **dict.fromkeys(("/v1/models", "/models"), settings.max_model_bytes + beside),
            **dict.fromkeys(("/v1/datasets", "/datasets"), settings.max_dataset_bytes + beside),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit, pointer = self._strangers.get(scope["path"].rstrip("/"), self._json), ""
        if headers.get("content-type", "").lower().startswith("multipart/"):
            limit = self._uploads.get(scope["path"].rstrip("/"), limit)
            # A form is beyond its limit only when the file is, the manifest having a limit of its own.
            pointer = "/file"
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            # Closing spares us from reading the rest only to throw it away.
            error = PayloadTooLargeError(
                f"The body has {int(declared[:20]):,} bytes; at most {limit:,} are accepted here.",
                pointer=pointer,
                headers={"Connection": "close"},
            )
            await render(Request(scope), error)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise PayloadTooLargeError(
                    f"The body has more than the {limit:,} bytes accepted here.",
                    pointer=pointer,
                    headers={"Connection": "close"},
                )
            return message

        await self._app(scope, counted, send)


class LoopbackGuard:
    """Without keys, whoever reaches the socket is the operator: let no web page reach it through the browser.

    The Host header must be loopback, which defeats DNS rebinding, and a request that changes anything must not come
    from another origin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http" and (reason := _reason_to_refuse(scope)):
            await render(Request(scope), ForbiddenError(reason))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _reason_to_refuse(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if urlsplit(f"//{host}").hostname not in LOOPBACK:
        return "Without API keys this service answers on loopback only: ask for http://127.0.0.1, or require keys."
    if scope["method"] in SAFE_METHODS:
        return None
    origin = headers.get("origin")
    is_foreign = origin is not None and host_of(origin) != host
    if is_foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return "Without API keys, requests from other web pages are refused."
    return None
