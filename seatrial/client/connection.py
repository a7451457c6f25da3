"""What both clients tell httpx about a service and a request."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from seatrial.client.errors import UnexpectedAnswerError
from seatrial.client.steps import Request

# No proxy of the environment stands between this machine and itself.
LOOPBACK: dict[str, None] = dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]"))


def checked_address(base_url: str) -> str:
    """Return the address of a service without a slash at its end.

    Raises:
        ValueError: It is none.

    >>> checked_address("http://127.0.0.1:8000/")
    'http://127.0.0.1:8000'
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{base_url!r} is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{base_url!r} is not an address: it is like http://127.0.0.1:8000")
    return base_url.rstrip("/")


def credentials(api_key: str | None) -> dict[str, str]:
    """Return the header of a key; the newline a secret store puts at its end is none of it."""
    return {"Authorization": f"Bearer {api_key.strip()}"} if api_key and api_key.strip() else {}


MAX_ANSWER_BYTES = 128 * 2**20
"""Longest answer that is read into memory: a report with every figure has a few megabytes."""
MAX_ANSWER_S = 1800.0
"""Longest time an answer that is read into memory may take to arrive once it has begun."""
MAX_LINE_CHARS = 16 * 2**20
"""Longest line of a stream of events."""


class Received:
    """The body of an answer as it comes: what is too long, or never ends, is no answer."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self._pieces: list[bytes] = []
        self._size = 0
        self._deadline = time.monotonic() + MAX_ANSWER_S

    def add(self, piece: bytes) -> None:
        """Take a piece.

        Raises:
            UnexpectedAnswerError: It is too much, or took too long.
        """
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_ANSWER_BYTES:
            raise UnexpectedAnswerError(
                f"{self._what()}: the answer has more than {MAX_ANSWER_BYTES:,} bytes, which no answer of Seatrial has"
            )
        if time.monotonic() > self._deadline:
            raise UnexpectedAnswerError(f"{self._what()}: the answer did not end within {MAX_ANSWER_S:g} s")

    def close(self) -> httpx.Response:
        """Return the answer with its body."""
        # What httpx's own read() sets.
        self._answer._content = b"".join(self._pieces)
        return self._answer

    def _what(self) -> str:
        return f"{self._answer.request.method} {self._answer.request.url.path}"


class LineSplitter:
    r"""Cuts a stream into lines, none longer than ``MAX_LINE_CHARS``.

    >>> splitter = LineSplitter()
    >>> splitter.feed("a: 1\r\nb"), splitter.feed(": 2\n\n"), splitter.feed("c")
    (['a: 1'], ['b: 2', ''], [])
    """

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Take text and return the lines that end in it.

        Raises:
            UnexpectedAnswerError: A line does not end.
        """
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MAX_LINE_CHARS:
            raise UnexpectedAnswerError(f"a line of the stream has more than {MAX_LINE_CHARS:,} characters")
        return [line.removesuffix("\r") for line in lines]


@contextmanager
def arguments(request: Request, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Give the arguments of httpx's ``build_request``; the file of an upload is open inside the block."""
    timeout = httpx.Timeout(timeout_s, read=request.read_timeout_s or timeout_s)
    common = {
        "method": request.method,
        "url": request.path,
        "params": request.params or None,
        "json": request.json,
        "headers": request.headers,
        "timeout": timeout,
    }
    if request.upload is None:
        yield common
        return
    with request.upload.parts() as parts:
        yield {**common, "files": parts}
