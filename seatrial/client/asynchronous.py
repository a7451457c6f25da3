"""The client that is awaited."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, closing
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx

from seatrial.client.connection import LOOPBACK, LineSplitter, Received, arguments, checked_address, credentials
from seatrial.client.operations import Operations
from seatrial.client.steps import Item, Items, Pause, Read, Request, advance

T = TypeVar("T")


class AsyncClient(Operations):
    """Speaks to one service as one project, in asyncio or trio; otherwise as :class:`~seatrial.client.Client`.

    Args:
        base_url: Where the service listens, without ``/v1``.
        api_key: Sent as a bearer token; None on a service that needs none.
        timeout_s: Seconds without a byte before a request fails.
        retries: Times a request is tried again.
        transport: For tests.

    Raises:
        ValueError: ``base_url`` is not an address.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = checked_address(base_url)
        self.retries = retries
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            base_url=self.base_url, headers=credentials(api_key), transport=transport, mounts=LOOPBACK
        )

    async def __aenter__(self) -> Self:
        """Return the client; its connections are closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def first(self, items: Items[T]) -> T:
        """Take an operation's steps up to the first value it yields, and return that."""
        async with aclosing(self.take(items)) as values:
            return await anext(values)

    async def take(self, items: Items[T]) -> AsyncGenerator[T, None]:
        """Take an operation's steps and yield the values it yields."""
        with closing(items):
            async with AsyncExitStack() as stream:
                pieces: AsyncIterator[Any] | None = None
                outcome: Any = None
                error: Exception | None = None
                while (step := advance(items, outcome, error)) is not None:
                    outcome = error = None
                    try:
                        match step:
                            case Item():
                                yield step.value
                            case Pause():
                                await anyio.sleep(step.seconds)
                            case Read():
                                outcome = await anext(pieces, None) if pieces is not None else None
                            case Request():
                                await stream.aclose()
                                outcome = await self._send(step, stream)
                                pieces = _lines(outcome) if step.stream == "lines" else outcome.aiter_bytes()
                    except httpx.DecodingError as raised:
                        error = httpx.RemoteProtocolError(f"the body is not what its headers say: {raised}")
                    except httpx.TransportError as raised:
                        error = raised

    async def _send(self, request: Request, stream: AsyncExitStack) -> httpx.Response:
        with arguments(request, self._timeout_s) as given:
            answer = await self._http.send(self._http.build_request(**given), stream=True)
        stream.push_async_callback(answer.aclose)
        if request.stream is None or answer.is_error:
            received = Received(answer)
            async for piece in answer.aiter_bytes():
                received.add(piece)
            return received.close()
        return answer


async def _lines(answer: httpx.Response) -> AsyncIterator[str]:
    splitter = LineSplitter()
    async for text in answer.aiter_text():
        for line in splitter.feed(text):
            yield line
