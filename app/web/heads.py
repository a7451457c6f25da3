"""HEAD wherever GET is answered: the same status and headers, no body, and no work for a body nobody gets."""

from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MARK = "seatrial.is_head"


def is_head(scope: Scope) -> bool:
    """Return whether the request, a GET to its route, came as HEAD."""
    return bool(scope.get(_MARK))


class HeadAsGet:
    """Hands HEAD to the routes as a GET that :func:`is_head` tells apart, and drops what body they send."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        # A copy: the server looks at its own scope to know that no body follows.
        inner = {**scope, "method": "GET", _MARK: True}
        try:
            await self._app(inner, receive, without_body)
        finally:
            # Which route it was, for the log and the metrics outside.
            scope.update({name: inner[name] for name in ("endpoint", "path_params") if name in inner})


class Stream(StreamingResponse):
    """A streamed answer that is not begun when only its headers are asked for."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, and the stream unless this is a HEAD."""
        if not is_head(scope):
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b""})
