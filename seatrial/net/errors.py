"""Why a request to somebody else's server has no answer.

::

    OutboundError
    +-- RequestRefusedError      not an http:// or https:// URL, or a header that cannot be sent
    +-- AddressRefusedError      the host is, or has, a private, local or reserved address
    +-- NameUnknownError         the host has no address
    +-- TlsFailedError           the certificate is not valid for the name, or no TLS is spoken
    +-- AnswerUnusableError      larger than accepted, or compressed in another way than gzip
    +-- TransientError           the same request may be answered later
        +-- NotConnectedError    nothing was sent
        +-- ConnectionBrokenError  the connection ended before the answer did
        +-- AnswerTimeoutError   no whole answer in time

No message quotes a header or the answer, and none says which private address a name has: who may name hosts must not
learn an internal network's layout from it.
"""


class OutboundError(Exception):
    """Base of everything a request raises."""


class RequestRefusedError(OutboundError):
    """Not an http:// or https:// URL, or a header that cannot be sent."""


class AddressRefusedError(OutboundError):
    """The host is, or has, an address that is not to be connected to."""


class NameUnknownError(OutboundError):
    """The host has no address."""


class TlsFailedError(OutboundError):
    """The certificate is not valid for the name, or no TLS is spoken."""


class AnswerUnusableError(OutboundError):
    """Larger than accepted, or compressed in another way than gzip."""


class TransientError(OutboundError):
    """The same request may be answered later."""


class NotConnectedError(TransientError):
    """Nothing was sent."""


class ConnectionBrokenError(TransientError):
    """The connection ended before the answer did."""


class AnswerTimeoutError(TransientError):
    """No whole answer in time."""
