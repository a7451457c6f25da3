"""The connection that is awaited, in asyncio or trio: sends, sends again, and reads responses within bounds."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx
from pydantic import BaseModel

from seatrial.client.connection import LOOPBACK, BoundedBody, credentials, service_of
from seatrial.client.errors import ServiceUnreachableError
from seatrial.client.requests import Request
from seatrial.client.responses import parse_page, parse_response
from seatrial.client.retries import backoff_s, pause_before_retry
from seatrial.net.trust import trusted

M = TypeVar("M", bound=BaseModel)


class AsyncSession:
    """What :class:`~seatrial.client.AsyncClient` sends its requests through."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url, api_key = service_of(base_url, api_key)
        self.retries = retries
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers=credentials(api_key),
            verify=trusted(),
            transport=transport,
            mounts=LOOPBACK,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.base_url}>"

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

    async def _send(self, request: Request, *, is_streamed: bool = False) -> httpx.Response:
        """Send a request until it succeeds and return the response, read to its end.

        A streamed one is left to be read, and closed, by the caller; whatever breaks off by then is the caller's too.

        Raises:
            ProblemResponseError: The service refused.
            ServiceUnreachableError: It did not answer.
            UnexpectedAnswerError: The response is too long, or does not end.
        """
        outcome: httpx.Response | httpx.RequestError
        attempt = 0
        while True:
            try:
                outcome = await self._send_once(request, is_streamed)
                if not outcome.is_error:
                    return outcome
            except httpx.RequestError as error:
                outcome = error
            await anyio.sleep(
                pause_before_retry(request, outcome, attempt=attempt, retries=self.retries, base_url=self.base_url)
            )
            attempt += 1

    async def _send_once(self, request: Request, is_streamed: bool) -> httpx.Response:
        with request.arguments(self._timeout_s) as arguments:
            response = await self._http.send(self._http.build_request(**arguments), stream=True)
        if is_streamed and not response.is_error:
            return response
        async with aclosing(response):
            body = BoundedBody(response)
            async for piece in response.aiter_bytes():
                body.add(piece)
            body.attach()
        return response

    async def _ask(self, request: Request, into: type[M]) -> M:
        """Send a request and return what it is answered with."""
        return parse_response(request, await self._send(request), into)

    async def _pages(self, path: str, into: type[M], filters: Mapping[str, Any]) -> AsyncIterator[M]:
        """Yield the items of a list, page by page."""
        params = {name: value for name, value in filters.items() if value is not None}
        while True:
            request = Request("GET", path, params=params)
            items, following = parse_page(request, await self._send(request), into)
            for item in items:
                yield item
            if following is None:
                return
            params = {**params, "cursor": following}

    async def _save(self, request: Request, target: Path | str) -> Path:
        """Write a response to a file that is there whole or not at all."""
        target = Path(target)
        part = target.with_name(f"{target.name}.part")
        attempt = 0
        while True:
            async with aclosing(await self._send(request, is_streamed=True)) as response:
                try:
                    with part.open("wb") as file:
                        async for piece in response.aiter_bytes():
                            file.write(piece)
                    part.replace(target)
                    return target
                except httpx.RequestError as error:
                    if attempt >= self.retries:
                        raise ServiceUnreachableError(f"GET {request.path} broke off: {error!r}") from error
                finally:
                    part.unlink(missing_ok=True)
            await anyio.sleep(backoff_s(attempt))
            attempt += 1
