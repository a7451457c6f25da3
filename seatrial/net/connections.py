"""Connections to checked addresses: the name is looked up once, and what was checked is what is connected to.

Were the check and the connection two look-ups, a name server could answer the first with a public and the second with
a private address (DNS rebinding). Names stay what they were for TLS and for the Host header.
"""

import errno
import logging
import os
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

from seatrial.net.addresses import Address, Network, Resolve, checked_addresses
from seatrial.net.errors import AnswerTimeoutError, AnswerUnusableError, NotConnectedError, TlsFailedError

# At level debug the engine logs the headers of answers, in which a server may repeat a secret it was sent.
for _name in ("httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).setLevel(logging.INFO)

SLICE_S = 1.0
"""Longest wait on a socket before the deadline and the caller are looked at again."""
CONNECT_S = 10.0
"""Longest wait for one address to accept a connection, and for a TLS handshake."""
LOOK_UPS = 64
"""Most look-ups of a process at one time: a resolver cannot be interrupted, and each that is silent holds a thread."""
_SEND_BYTES = 2**16

_look_ups = threading.BoundedSemaphore(LOOK_UPS)


class Watch:
    """The deadline of the request under way, and what is called while it waits.

    Attributes:
        check_cancelled: Called at least every ``SLICE_S`` seconds; may raise to give the request up.
    """

    def __init__(self, check_cancelled: Callable[[], None]) -> None:
        self.check_cancelled = check_cancelled
        self._deadline = 0.0
        self._timeout_s = 0.0
        self._bytes_left = 0

    def start(self, timeout_s: float, head_bytes: int) -> None:
        """Begin a request that must be over in so many seconds, whose answer begins within so many bytes."""
        self._deadline, self._timeout_s = time.monotonic() + timeout_s, timeout_s
        self._bytes_left = head_bytes

    def expect(self, body_bytes: int) -> None:
        """Let so many further bytes come, their framing included."""
        self._bytes_left = body_bytes

    def count(self, received: int) -> None:
        """Count bytes as they come, whatever they are: headers, 1xx answers without an end, chunks of one byte.

        Raises:
            AnswerUnusableError: There are more than were to be expected.
        """
        self._bytes_left -= received
        if self._bytes_left < 0:
            raise AnswerUnusableError("the answer's headers, or what frames its body, have no end")

    def wait_s(self, most: float = SLICE_S) -> float:
        """Return how long to wait next, in seconds.

        Raises:
            AnswerTimeoutError: The request's time is over.
        """
        self.check_cancelled()
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
                received = self._sock.recv(max_bytes)
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.ReadError from error
            self._watch.count(len(received))
            return received

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
            self._sock.setblocking(False)
            # Verified while it shakes hands.
            tls = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname, do_handshake_on_connect=False)
        except OSError as error:
            self._sock.close()
            raise NotConnectedError(f"{server_hostname} ended the connection before the TLS handshake") from error
        try:
            self._shake_hands(tls)
        # Also an SSLError, but the handshake has only been cut off.
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            tls.close()
            raise NotConnectedError(f"{server_hostname} ended the connection during the TLS handshake") from error
        except (ssl.SSLError, ssl.CertificateError) as error:
            tls.close()
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or "no TLS"
            raise TlsFailedError(f"TLS with {server_hostname} failed: {reason}") from error
        except OSError as error:
            tls.close()
            raise NotConnectedError(f"the TLS handshake with {server_hostname} was not finished") from error
        except BaseException:
            tls.close()
            raise
        return Stream(tls, self._watch)

    def _shake_hands(self, tls: ssl.SSLSocket) -> None:
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                return tls.do_handshake()
            except ssl.SSLWantReadError:
                _wait_for(tls, select.POLLIN, self._watch, deadline)
            except ssl.SSLWantWriteError:
                _wait_for(tls, select.POLLOUT, self._watch, deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return what the pool asks for: whether bytes wait, which on an idle connection means its end."""
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return _is_ready(self._sock, select.POLLIN, 0.0)
        return None


def _is_ready(sock: socket.socket, event: int, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(1000 * wait_s))


def _wait_for(sock: socket.socket, event: int, watch: Watch, deadline: float) -> None:
    """Wait for a socket in slices, until a moment of the monotonic clock at most.

    Raises:
        TimeoutError: Nothing came by then.
        AnswerTimeoutError: The request's time is over.
    """
    while not _is_ready(sock, event, watch.wait_s(min(SLICE_S, max(0.0, deadline - time.monotonic())))):
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, "no answer in time")


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
        addresses = checked_addresses(host, port, self._looked_up, self._allowed, allowed_only=self._allowed_only)
        reason = ""
        for address in addresses:
            try:
                return Stream(self._connected(address, port), self._watch)
            except OSError as error:
                reason = error.strerror or "no answer in time"
        raise NotConnectedError(f"{host} port {port} accepts no connection: {reason}")

    def _looked_up(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, looked up by a thread: what cannot be interrupted can be left alone."""
        while not _look_ups.acquire(timeout=self._watch.wait_s()):
            pass
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._resolve(host, port))
            except Exception as error:
                answers.put(error)
            finally:
                _look_ups.release()

        threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
        while True:
            try:
                answer = answers.get(timeout=self._watch.wait_s())
            except queue.Empty:
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer

    def _connected(self, address: Address, port: int) -> socket.socket:
        # Of a literal, which is not looked up; an IPv6 address may have a zone.
        family, kind, _, _, where = socket.getaddrinfo(
            str(address), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        sock = socket.socket(family, kind)
        try:
            sock.setblocking(False)
            code = sock.connect_ex(where)
            if code == errno.EINPROGRESS:
                _wait_for(sock, select.POLLOUT, self._watch, time.monotonic() + CONNECT_S)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock
