"""Where the service is, and how much of a response is read into memory."""

import os
import time

import httpx

from seatrial.client.errors import UnexpectedAnswerError

# No proxy of the environment stands between this machine and itself.
LOOPBACK: dict[str, None] = dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]"))

DEFAULT_ADDRESS = "http://127.0.0.1:8000"
"""Where `seatrial serve` listens."""
MAX_RESPONSE_BYTES = 128 * 2**20
"""Longest response that is read into memory: a report with every figure has a few megabytes."""
MAX_RESPONSE_S = 1800.0
"""Longest time a response that is read into memory may take to arrive once it has begun."""


def service_of(base_url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """Return address and key of a service: those of the environment where no address is given.

    The key of the environment is that of its service, so it goes to no other.

    Raises:
        ValueError: That is not an address.
    """
    if base_url is None:
        base_url = os.environ.get("SEATRIAL_URL") or DEFAULT_ADDRESS
        api_key = api_key or os.environ.get("SEATRIAL_KEY")
    return checked_address(base_url), api_key


def checked_address(base_url: str) -> str:
    """Return the address of a service without a slash at its end.

    Raises:
        ValueError: It is not an address.

    >>> checked_address("http://127.0.0.1:8000/")
    'http://127.0.0.1:8000'
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{base_url!r} is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{base_url!r} is not an address: write it like http://127.0.0.1:8000")
    return base_url.rstrip("/")


def credentials(api_key: str | None) -> dict[str, str]:
    """Return the header of a key, without the newline a secret store puts at its end."""
    return {"Authorization": f"Bearer {api_key.strip()}"} if api_key and api_key.strip() else {}


class BoundedBody:
    """The body of a response as it arrives; one that is too long or never ends is refused."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._pieces: list[bytes] = []
        self._size = 0
        self._deadline = time.monotonic() + MAX_RESPONSE_S

    def add(self, piece: bytes) -> None:
        """Take a piece.

        Raises:
            UnexpectedAnswerError: The body is too long, or takes too long.
        """
        self._size += len(piece)
        self._pieces.append(piece)
        asked = f"{self._response.request.method} {self._response.request.url.path}"
        if self._size > MAX_RESPONSE_BYTES:
            raise UnexpectedAnswerError(
                f"{asked}: the response has more than {MAX_RESPONSE_BYTES:,} bytes, more than any of Seatrial's"
            )
        if time.monotonic() > self._deadline:
            raise UnexpectedAnswerError(f"{asked}: the response did not end within {MAX_RESPONSE_S:g} s")

    def attach(self) -> None:
        """Give the response its body, as httpx's own ``read`` does."""
        self._response._content = b"".join(self._pieces)
