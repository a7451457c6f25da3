"""What stands in for a key on a loopback address: only programs and pages of this machine are answered.

Without it any web site could use the keyless service through its visitor's browser: by posting a form to 127.0.0.1, or
by pointing its own name there (DNS rebinding) and reading the answers.
"""

import ipaddress
import json
import secrets
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

_SAFE = {"GET", "HEAD", "OPTIONS"}


def is_loopback(host: str) -> bool:
    """Return whether a host name or address always means this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(authority: str) -> str:
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""


def refusal(method: str, headers: dict[str, str]) -> tuple[str, str] | None:
    """Return why a request may not come from this machine, as (code, detail); None when it may.

    >>> refusal("GET", {"host": "127.0.0.1:8000"})
    >>> refusal("GET", {"host": "example.org"})[0]
    'host-not-local'
    >>> refusal("POST", {"host": "localhost:8000", "origin": "https://example.org"})[0]
    'origin-not-local'
    """
    host = headers.get("host", "")
    if not is_loopback(_host_of(host)):
        return (
            "host-not-local",
            f"The service runs without keys and answers only to a loopback name, not to {host!r}. "
            "To serve others, listen on another address, where keys are required.",
        )
    origin = headers.get("origin")
    if origin is not None and method not in _SAFE and urlsplit(origin).netloc.lower() != host.lower():
        return (
            "origin-not-local",
            f"A page of {origin!r} may not write to a service that runs without keys. "
            "Send the request from a program, or from a page of the service itself.",
        )
    return None


class LoopbackOnly:
    """Middleware that refuses requests which did not mean this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = refusal(scope["method"], headers)
        if refused is None:
            await self._app(scope, receive, send)
            return
        code, detail = refused
        problem = {
            "type": f"urn:seatrial:problem:{code}",
            "title": "Not a request of this machine",
            "status": 403,
            "detail": detail,
            "instance": scope["path"],
            "code": code,
            "request_id": secrets.token_hex(8),
        }
        body = json.dumps(problem).encode()
        content = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 403, "headers": content})
        await send({"type": "http.response.body", "body": body})
