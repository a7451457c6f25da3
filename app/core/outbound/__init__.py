"""Requests to servers that somebody else names: public addresses only, and networks the operator allows."""

from app.core.outbound.addresses import check_host
from app.core.outbound.client import Answer, Outbound, host_of, origin_of
from app.core.outbound.errors import (
    AddressRefusedError,
    AnswerTimeoutError,
    AnswerUnusableError,
    ConnectionBrokenError,
    NameUnknownError,
    NotConnectedError,
    OutboundError,
    RequestRefusedError,
    TlsFailedError,
    TransientError,
)

__all__ = [
    "AddressRefusedError",
    "Answer",
    "AnswerTimeoutError",
    "AnswerUnusableError",
    "ConnectionBrokenError",
    "NameUnknownError",
    "NotConnectedError",
    "Outbound",
    "OutboundError",
    "RequestRefusedError",
    "TlsFailedError",
    "TransientError",
    "check_host",
    "host_of",
    "origin_of",
]
