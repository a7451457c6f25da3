"""Clients of a Seatrial service: :class:`Client` waits, :class:`AsyncClient` is awaited, and both do the same.

Example::

    with Client() as client:
        model, data = client.add_model("model/"), client.add_dataset("data.csv")
        audit = client.submit(model, data, [{"kind": "..."}], policy="standard")
        print(client.wait(audit).verdict)

Errors::

    ClientError
    +-- ProblemResponseError   the service refused; ``.problem`` says why
    +-- ServiceUnreachableError  no response, even after retries
    +-- UnexpectedAnswerError  the response does not come from Seatrial: a proxy's page, something endless
    +-- DeadlineError          the time for a request was over before it succeeded
    +-- WaitTimeoutError       the audit goes on, the caller's patience ended
        +-- NotJudgedError     it has ended, and no verdict has come

``sync_*.py`` are generated from ``async_*.py`` by ``scripts/sync_client.py``: change those, and run it.
"""

from seatrial.client.async_client import AsyncClient
from seatrial.client.errors import (
    ClientError,
    DeadlineError,
    NotJudgedError,
    ProblemResponseError,
    ServiceUnreachableError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from seatrial.client.requests import Source
from seatrial.client.results import (
    Audit,
    AuditJudgement,
    Comparison,
    Cost,
    Dataset,
    Figure,
    Figures,
    Model,
    Number,
    ReportFormat,
)
from seatrial.client.sync_client import Client

__all__ = [
    "AsyncClient",
    "Audit",
    "AuditJudgement",
    "Client",
    "ClientError",
    "Comparison",
    "Cost",
    "Dataset",
    "DeadlineError",
    "Figure",
    "Figures",
    "Model",
    "NotJudgedError",
    "Number",
    "ProblemResponseError",
    "ReportFormat",
    "ServiceUnreachableError",
    "Source",
    "UnexpectedAnswerError",
    "WaitTimeoutError",
]
