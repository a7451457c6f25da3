"""Both clients asked alike, and the answers they are given."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx

from seatrial.client import AsyncClient, Client

NOW = datetime.now(UTC).isoformat()
AUDIT: dict[str, Any] = {
    "id": "aud_1",
    "state": "queued",
    "model": "mdl_1",
    "dataset": "dat_1",
    "seed": 0,
    "samples": 50,
    "kinds": ["uncertainty_span"],
    "created_at": NOW,
    "checks": [],
    "spec": {},
    "spec_digest": "sha256:0",
}
MODEL: dict[str, Any] = {
    "id": "mdl_1",
    "name": "m",
    "version": "1",
    "task": "image-classification",
    "digest": "sha256:0",
    "size_bytes": 1,
    "state": "ready",
    "manifest": {},
    "architecture": "layers",
    "url": "/v1/models/mdl_1",
    "created_at": NOW,
}


Answer = Callable[[httpx.Request], httpx.Response]


class Asking:
    """One of the two clients, asked alike: an operation by its name, its answer at once."""

    def __init__(self, flavour: str, *answers: Answer, retries: int = 3) -> None:
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        waiting = list(answers)

        def answer(request: httpx.Request) -> httpx.Response:
            self.requests.append(request)
            self.bodies.append(request.read() if isinstance(request.stream, httpx.SyncByteStream) else b"")
            return waiting.pop(0)(request)

        self._is_async = flavour == "async"
        kind = AsyncClient if self._is_async else Client
        self.client: Any = kind("http://service", transport=httpx.MockTransport(answer), retries=retries)

    def ask(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """Return what an operation returns."""
        given = getattr(self.client, operation)(*arguments, **options)
        return anyio.run(_awaited, given) if self._is_async else given

    def every(self, operation: str, *arguments: Any, **options: Any) -> list[Any]:
        """Return all an operation yields."""
        given: Iterator[Any] | AsyncIterator[Any] = getattr(self.client, operation)(*arguments, **options)
        return anyio.run(_listed, given) if isinstance(given, AsyncIterator) else list(given)


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


async def _listed(given: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in given]


def status(code: int, **headers: str) -> Answer:
    return lambda request: httpx.Response(code, headers=headers, json={"title": "T", "detail": "D", "status": code})


def failing(error: type[httpx.TransportError]) -> Answer:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("no", request=request)

    return fail


def said(body: Any) -> Answer:
    return lambda request: httpx.Response(200, json=body)


def page(*items: Any, cursor: str | None = None) -> Answer:
    return said({"items": items, "next": cursor})


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks off after its pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece
