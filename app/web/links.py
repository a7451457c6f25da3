"""Where people open what an answer is about: addresses of the console."""

import re
from urllib.parse import urlsplit

from fastapi import Request

from seatrial.store.settings import Settings

_ADDRESS = re.compile(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._\-/]*)?")
_IN_PROCESS = "testserver"
"""The host of an application that is called without a network: nothing listens there."""


def console_address(settings: Settings, request: Request) -> str | None:
    """Return the address of the console for links in documents that are read elsewhere; None where there is none.

    The operator's, or else the one the client has called the service by, this machine's own included: it leads the
    person who asked back, which is more than nothing. There is none where the service ends with a command (the own one
    of a gate): it would be gone when its report is read.
    """
    if settings.ends_with_command:
        return None
    address = (settings.public_url or str(request.base_url)).rstrip("/")
    if not _ADDRESS.fullmatch(address) or urlsplit(address).hostname == _IN_PROCESS:
        return None
    return address
