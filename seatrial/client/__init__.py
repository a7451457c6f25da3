"""Clients of a Seatrial service: :class:`Client` waits, :class:`AsyncClient` is awaited, and both do the same.

Example::

    with Client("http://127.0.0.1:8000") as client:
        audit = client.submit("mdl_...", "dat_...", [{"kind": "uncertainty_span"}], policy="standard")
        print(client.wait(audit.id, until_judged=True).verdict)

Errors::

    ClientError
    +-- ProblemResponseError   the service answered with a problem; ``.problem`` holds it
    +-- ServiceUnreachableError  no answer, also not when asked again
    +-- UnexpectedAnswerError  an answer that is none of a Seatrial service: a proxy's page, something endless
    +-- WaitTimeoutError       the audit goes on, the caller's patience ended
        +-- NotJudgedError     it has ended, and its verdict does not come
"""

from seatrial.client.asynchronous import AsyncClient
from seatrial.client.errors import (
    ClientError,
    NotJudgedError,
    ProblemResponseError,
    ServiceUnreachableError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from seatrial.client.steps import Source
from seatrial.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "NotJudgedError",
    "ProblemResponseError",
    "ServiceUnreachableError",
    "Source",
    "UnexpectedAnswerError",
    "WaitTimeoutError",
]
