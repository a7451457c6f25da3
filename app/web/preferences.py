"""The Prefer header (RFC 7240): ``wait=N`` asks for the final answer, for at most N seconds."""

import re
from typing import Annotated

from fastapi import Depends, Header

MAX_WAIT_S = 60


async def _wait_s(
    prefer: Annotated[
        list[str] | None,
        Header(description=f"`wait=N` waits up to N seconds (at most {MAX_WAIT_S}) until a worker has checked it."),
    ] = None,
) -> int:
    return parse_wait(",".join(prefer or []))


def parse_wait(prefer: str) -> int:
    """Return the seconds of a Prefer header's ``wait``; 0 without one. A preference is never an error.

    >>> parse_wait("respond-async, wait=30"), parse_wait("wait=1000000"), parse_wait("wait=soon")
    (30, 60, 0)
    """
    for preference in re.split(r"[,;]", prefer):
        if match := re.fullmatch(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", preference, re.IGNORECASE | re.ASCII):
            return min(int(match[1]), MAX_WAIT_S)
    return 0


WaitSeconds = Annotated[int, Depends(_wait_s)]
