"""Where people open what an answer is about: addresses of the console."""

import re
from urllib.parse import urlsplit

from fastapi import Request

from seatrial.store.settings import Settings

_ADDRESS = re.compile(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._\-/]*)?")
_OWN = ("localhost", "127.0.0.1", "::1", "testserver")


def console_address(settings: Settings, request: Request) -> str | None:
    """Return the address of the console for links in documents that are read elsewhere; None where there is none.

    The operator's, or else the one the client has called the service by. An address of this machine's own leads nobody
    back: a gate's own service is gone when its report is read.
    """
    address = (settings.public_url or str(request.base_url)).rstrip("/")
    if not _ADDRESS.fullmatch(address):
        return None
    if not settings.public_url and urlsplit(address).hostname in _OWN:
        return None
    return address
