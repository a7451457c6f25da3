"""Requests to servers that somebody else names: public addresses only, and networks the operator allows."""

from seatrial.net.addresses import check_host
from seatrial.net.client import Answer, Outbound, host_of, origin_of
from seatrial.net.errors import (
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
