"""Connections to checked addresses: the name is looked up once, and what was checked is what is connected to.

Were the check and the connection two look-ups, a name server could answer the first with a public and the second with
a private address (DNS rebinding). Names stay what they were for TLS and for the Host header.
"""

import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

from app.core.outbound.addresses import Network, Resolve, checked_addresses
from app.core.outbound.errors import AnswerTimeoutError, NotConnectedError, TlsFailedError

# At level debug the engine logs the headers of answers, in which a server may repeat a secret it was sent.
for _name in ("httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).setLevel(logging.INFO)

SLICE_S = 1.0
"""Longest wait on a socket before the deadline and the caller are looked at again."""
CONNECT_S = 10.0
"""Longest wait for one address to accept a connection."""
_SEND_BYTES = 2**16


class Watch:
    """The deadline of the request under way, and what is called while it waits.

    Attributes:
        tick: Called at least every ``SLICE_S`` seconds; may raise to give the request up.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self.tick = tick
        self._deadline = 0.0
        self._timeout_s = 0.0

    def start(self, timeout_s: float) -> None:
        """Begin a request that must be over in so many seconds."""
        self._deadline, self._timeout_s = time.monotonic() + timeout_s, timeout_s

    def wait_s(self, most: float = SLICE_S) -> float:
        """Return how long to wait next, in seconds.

        Raises:
            AnswerTimeoutError: The request's time is over.
        """
        self.tick()
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise AnswerTimeoutError(f"no whole answer within {self._timeout_s:g} s")
        return min(most, left)


class Stream(httpcore.NetworkStream):
    """A connection under a watch: a server that sends a byte now and then holds nobody beyond the deadline."""

    def __init__(self, sock: socket.socket, watch: Watch) -> None:
        self._sock = sock
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has come, at least a byte; none at the end."""
        while True:
            self._sock.settimeout(self._watch.wait_s())
            try:
                return self._sock.recv(max_bytes)
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.ReadError from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        left = memoryview(buffer)
        while left:
            self._sock.settimeout(self._watch.wait_s())
            try:
                left = left[self._sock.send(left[:_SEND_BYTES]) :]
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.WriteError from error

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the connection under TLS, its certificate verified for the name.

        Raises:
            TlsFailedError: It is not valid for it, or the server speaks no TLS.
            NotConnectedError: The connection broke, or nothing came in time.
        """
        try:
            self._sock.settimeout(self._watch.wait_s(CONNECT_S))
            return Stream(ssl_context.wrap_socket(self._sock, server_hostname=server_hostname), self._watch)
        # Also an SSLError, but the handshake has only been cut off.
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise NotConnectedError(f"{server_hostname} ended the connection during the TLS handshake") from error
        except (ssl.SSLError, ssl.CertificateError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or "no TLS"
            raise TlsFailedError(f"TLS with {server_hostname} failed: {reason}") from error
        except OSError as error:
            raise NotConnectedError(f"the TLS handshake with {server_hostname} was not finished") from error
        finally:
            # wrap_socket has taken the descriptor over, or the connection is of no use.
            self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        """Return what the pool asks for: whether bytes wait, which on an idle connection means its end."""
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            with selectors.DefaultSelector() as selector:
                selector.register(self._sock, selectors.EVENT_READ)
                return bool(selector.select(0))
        return None


class Backend(httpcore.NetworkBackend):
    """Connects to names whose every address may be connected to."""

    def __init__(self, resolve: Resolve, allowed: Sequence[Network], watch: Watch, *, allowed_only: bool) -> None:
        self._resolve = resolve
        self._allowed = allowed
        self._watch = watch
        self._allowed_only = allowed_only

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of the host that accepts.

        Raises:
            AddressRefusedError: One of its addresses is refused.
            NameUnknownError: It has no address.
            NotConnectedError: None accepts.
        """
        addresses = checked_addresses(host, port, self._resolve, self._allowed, allowed_only=self._allowed_only)
        reason = ""
        for address in addresses:
            try:
                sock = socket.create_connection((str(address), port), self._watch.wait_s(CONNECT_S))
            except OSError as error:
                reason = error.strerror or "no answer in time"
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return Stream(sock, self._watch)
        raise NotConnectedError(f"{host} port {port} accepts no connection: {reason}")
