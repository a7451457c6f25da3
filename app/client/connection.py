"""What both clients tell httpx about a service and a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from app.client.steps import Request

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
