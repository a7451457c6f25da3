"""Seatrial: attack and certify a classifier before it ships; here are the Python clients.

Importing this package imports neither the service (``app``) nor the workers, and no torch.
"""

from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    # The service and the workers import this package's rooms all the time, and need no client.
    if name in {"AsyncClient", "Client"}:
        from seatrial import client

        return getattr(client, name)
    if name == "__version__":
        return metadata.version("seatrial")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
