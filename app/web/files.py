"""Stored bytes as responses."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.web.heads import is_head
from app.web.problems import ProblemError, render
from seatrial.store.artifacts import ArtifactStore


class RangeError(ProblemError):
    """The Range header asks for bytes that are not there."""

    status = 416
    code = "range-not-satisfiable"
    title = "No such bytes"


class StoredFile(FileResponse):
    """Bytes by digest: the ETag is the digest, Range and If-Range work, nothing is read into memory."""

    def __init__(self, store: ArtifactStore, digest: str, *, media_type: str, filename: str, **headers: str) -> None:
        path: Path = store.local_path(digest)
        # The bytes of an id never change; whose they are is asked again each time.
        named = {"ETag": f'"{digest}"', "Cache-Control": "private, no-cache", **headers}
        super().__init__(path, media_type=media_type, filename=filename, headers=named)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes, or a problem where Starlette answers a bad Range in plain text."""
        refused: list[Message] = []

        async def without_plain_text(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                refused.append(message)
            if not refused:
                await send(message)

        if etag_matches(Request(scope), self.headers["etag"]):
            kept = {name: self.headers[name] for name in ("etag", "cache-control")}
            await Response(status_code=304, headers=kept)(scope, receive, send)
            return
        # Told of a HEAD, Starlette opens no file.
        asked = {**scope, "method": "HEAD"} if is_head(scope) else scope
        await super().__call__(asked, receive, without_plain_text)
        if refused:
            shown = Request(scope).headers.get("range", "")[:100]
            await render(Request(scope), RangeError(f"Range {shown!r} is not within the file."))(scope, receive, send)


def etag_matches(request: Request, etag: str) -> bool:
    """Return whether the client says it has these bytes already (If-None-Match)."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return etag in known or known == ["*"]
