"""The client that waits."""

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from seatrial.client.connection import LOOPBACK, LineSplitter, Received, arguments, checked_address, credentials
from seatrial.client.operations import Operations
from seatrial.client.steps import Item, Items, Pause, Read, Request, advance

T = TypeVar("T")


class Client(Operations):
    """Speaks to one service as one project.

    A request is tried again, after pauses that grow, when the connection fails or the service answers 429, 502, 503 or
    504, and never does its work twice: what could is sent once.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = checked_address(base_url)
        self.retries = retries
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=self.base_url, headers=credentials(api_key), transport=transport, mounts=LOOPBACK
        )

    def __enter__(self) -> Self:
        """Return the client; its connections are closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def first(self, items: Items[T]) -> T:
        """Take an operation's steps up to the first value it yields, and return that."""
        with closing(self.take(items)) as values:
            return next(values)

    def take(self, items: Items[T]) -> Generator[T, None, None]:
        """Take an operation's steps and yield the values it yields."""
        with closing(items), ExitStack() as stream:
            pieces: Iterator[Any] = iter(())
            outcome: Any = None
            error: Exception | None = None
            while (step := advance(items, outcome, error)) is not None:
                outcome = error = None
                try:
                    match step:
                        case Item():
                            yield step.value
                        case Pause():
                            time.sleep(step.seconds)
                        case Read():
                            outcome = next(pieces, None)
                        case Request():
                            stream.close()
                            outcome = self._send(step, stream)
                            pieces = _lines(outcome) if step.stream == "lines" else outcome.iter_bytes()
                except httpx.DecodingError as raised:
                    error = httpx.RemoteProtocolError(f"the body is not what its headers say: {raised}")
                except httpx.TransportError as raised:
                    error = raised

    def _send(self, request: Request, stream: ExitStack) -> httpx.Response:
        with arguments(request, self._timeout_s) as given:
            answer = self._http.send(self._http.build_request(**given), stream=True)
        stream.callback(answer.close)
        if request.stream is None or answer.is_error:
            received = Received(answer)
            for piece in answer.iter_bytes():
                received.add(piece)
            return received.close()
        return answer


def _lines(answer: httpx.Response) -> Iterator[str]:
    splitter = LineSplitter()
    for text in answer.iter_text():
        yield from splitter.feed(text)
