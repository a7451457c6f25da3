"""A client for servers that somebody else names."""

import re
import ssl
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

import httpcore
import httpx

from seatrial.net.addresses import Network, Resolve, system_addresses
from seatrial.net.connections import Backend, Watch
from seatrial.net.errors import AnswerUnusableError, ConnectionBrokenError, RequestRefusedError, TransientError
from seatrial.net.trust import trusted

MAX_ANSWER_BYTES = 16 * 2**20
HEAD_BYTES = 2**18
"""Most bytes before an answer's body, 1xx answers included."""
FRAMING_BYTES = 2**17
"""Bytes that come with a body besides it, in addition to as many as it has: a chunk has at least five of its own."""
KEPT_ALIVE_S = 60.0
PLAIN = ("", "identity")
_HOST = re.compile(rb"[a-z0-9._-]+|[0-9a-f:.]+")
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Answer:
    """What a server answered.

    Attributes:
        status: HTTP status; a redirect is an answer like any other.
        headers: By lower-case name.
        body: Decompressed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outbound:
    """Posts to servers that somebody else names, and to public addresses only.

    Every address of a name is checked and a checked one connected to; redirects are not followed, proxies, cookies and
    passwords of the environment not used. TLS trusts the public authorities, or what SSL_CERT_FILE names. One request
    at a time: a second thread waits.

    Args:
        allowed_networks: Private or local networks the operator allows.
        allowed_only: Connect to nothing outside of these.
        resolve: Looks names up; the machine's own resolver by default.
        ssl_context: For tests with an authority of their own.
        max_bytes: Largest answer, packed and unpacked.
        cut_at: Take so many bytes of an answer for all of it, and what came of one that breaks: for whoever asks for
            the status. What is compressed is not unpacked but left out.
        check_cancelled: Called at least once a second while a request waits; may raise to give it up.
    """

    def __init__(
        self,
        allowed_networks: Sequence[Network],
        *,
        allowed_only: bool = False,
        resolve: Resolve = system_addresses,
        ssl_context: ssl.SSLContext | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
        cut_at: int | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._watch = Watch(check_cancelled)
        self._backend = Backend(resolve, list(allowed_networks), self._watch, allowed_only=allowed_only)
        self._ssl_context = ssl_context
        self._max_bytes = max_bytes
        self._cut_at = cut_at
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Return the client; its connections are closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def renew(self) -> None:
        """Close the connections; what is posted next opens another."""
        with self._lock:
            pool = self.__dict__.pop("_pool", None)
        if pool is not None:
            pool.close()

    @cached_property
    def _pool(self) -> httpcore.ConnectionPool:
        # The engine below httpx, without what httpx adds: environment, cookies, redirects, and a log line per URL.
        return httpcore.ConnectionPool(
            ssl_context=self._ssl_context or trusted(),
            max_connections=4,
            keepalive_expiry=KEPT_ALIVE_S,
            network_backend=self._backend,
        )

    def post(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> Answer:
        """Post a body and return the answer, whatever its status.

        Args:
            url: Where to.
            body: Bytes to send.
            headers: Content-Type and what else is to be said; Host and Content-Length are set here.
            timeout_s: Seconds until the last byte of the answer must be there.

        Raises:
            OutboundError: There is no answer; see :mod:`seatrial.net.errors`.
        """
        target, host = _parse(url)
        try:
            said = httpx.Headers({"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "seatrial"})
            said.update({**headers, "Host": host})
        except UnicodeEncodeError:
            raise _unsendable() from None
        with self._lock:
            self._watch.start(timeout_s, HEAD_BYTES)
            try:
                with self._pool.stream("POST", target, headers=said.raw, content=body) as response:
                    self._watch.expect(2 * (self._cut_at or self._max_bytes) + FRAMING_BYTES)
                    answered = httpx.Headers(response.headers)
                    if self._cut_at is not None:
                        start = self._read_start(response, self._cut_at)
                        is_plain = answered.get("content-encoding", "").lower() in PLAIN
                        return Answer(response.status, dict(answered), start if is_plain else b"")
                    packed = self._read(response, answered.get("content-length", ""))
            # Its message quotes the header, which may be a secret.
            except httpcore.LocalProtocolError:
                raise _unsendable() from None
            # So does that of an answer which is no HTTP, and a server may have repeated the header.
            except (httpcore.NetworkError, httpcore.RemoteProtocolError):
                raise ConnectionBrokenError("the connection ended before the answer did") from None
        return Answer(response.status, dict(answered), self._unpack(packed, answered.get("content-encoding", "")))

    def _read(self, response: httpcore.Response, announced: str) -> bytes:
        body = bytearray()
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._max_bytes:
            raise self._too_large()
        for chunk in response.iter_stream():
            body += chunk
            if len(body) > self._max_bytes:
                raise self._too_large()
        return bytes(body)

    def _read_start(self, response: httpcore.Response, most: int) -> bytes:
        body = bytearray()
        with suppress(TransientError, AnswerUnusableError, httpcore.NetworkError, httpcore.RemoteProtocolError):
            for chunk in response.iter_stream():
                body += chunk
                if len(body) >= most:
                    break
        return bytes(body[:most])

    def _unpack(self, packed: bytes, encoding: str) -> bytes:
        if encoding.lower() in PLAIN:
            return packed
        if encoding.lower() not in ("gzip", "x-gzip"):
            raise AnswerUnusableError("the answer is compressed though it was asked for as it is")
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            body = unpacker.decompress(packed, self._max_bytes + 1)
        except zlib.error as error:
            raise AnswerUnusableError("the answer says it is gzip and is not") from error
        if len(body) > self._max_bytes:
            raise self._too_large()
        if not unpacker.eof:
            raise AnswerUnusableError("the answer's gzip is cut short")
        return body

    def _too_large(self) -> AnswerUnusableError:
        return AnswerUnusableError(f"the answer has more than {self._max_bytes:,} bytes")


def _unsendable() -> RequestRefusedError:
    return RequestRefusedError("a header holds characters that cannot be sent: printable ASCII is wanted")


def host_of(url: str) -> str:
    """Return the host a URL leads to, as :meth:`Outbound.post` reads it: two parsers may be led to two hosts.

    Raises:
        RequestRefusedError: It is no http:// or https:// URL.

    >>> host_of("http://[::1]:8000/"), host_of("https://Models.Example.com/v1")
    ('::1', 'models.example.com')
    """
    return _parse(url)[0].host.decode("ascii")


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL.

    Raises:
        RequestRefusedError: It is no http:// or https:// URL.

    >>> origin_of("HTTPS://Models.Example.com/v1"), origin_of("http://[::1]:8000/")
    (('https', 'models.example.com', 443), ('http', '::1', 8000))
    """
    target = _parse(url)[0]
    origin = target.origin
    return target.scheme.decode("ascii"), target.host.decode("ascii"), origin.port


def _parse(url: str) -> tuple[httpcore.URL, str]:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise RequestRefusedError(f"not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.raw_host:
        raise RequestRefusedError("only http:// and https:// URLs with a host are requested")
    if not _HOST.fullmatch(parsed.raw_host):
        raise RequestRefusedError("the URL's host is neither a name nor an address")
    target = httpcore.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)
    return target, parsed.netloc.decode("ascii")
