"""What a connection may cost before its sender is known: bytes, seconds, and a place among a limited number.

uvicorn reads a header line of any length, waits for the rest of a request for ever and takes connections until the
process has no file left. :class:`BoundedHttpProtocol` puts a bound on each; :func:`app.web.listening.bounded_http`
makes it for a server.
"""

import asyncio
import fcntl
import json
import sys
import termios
import time
from contextlib import suppress
from enum import Enum
from typing import Any

import httptools
from uuid6 import uuid7
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.web.connection_table import Alarm, ConnectionTable, TimedFlow
from app.web.problems import MEDIA_TYPE, MalformedRequestError, ProblemError, problem_body
from seatrial.store.settings import Settings

# As many as Apache takes (LimitRequestFields); browsers send about fifteen.
MAX_HEADERS = 100
# Requests sent ahead of the answer to the first one; the client sends those beyond once more (RFC 9112, section 9.3.2).
MAX_PIPELINED = 32
# Bytes around each byte of a chunked body: one chunk per byte has five, with its size in eight digits twelve.
MAX_FRAMING = 16
# So much of a body, or all of it, must be there before a connection is busy with it: a stranger's form is smaller.
HELD_BODY_BYTES = 64 * 1024
# Seconds in which a refused client may still send, so that it reads the answer instead of a reset.
LINGER_S = 2.0


class HeaderTooLargeError(ProblemError):
    """The request line and the headers are too long, or too many."""

    status = 431
    code = "header-too-large"
    title = "The headers are too large"


class TooSlowError(ProblemError):
    """The request does not come, or comes too slowly."""

    status = 408
    code = "request-timeout"
    title = "The request did not come in time"


class ServiceBusyError(ProblemError):
    """Every connection there may be is busy."""

    status = 503
    code = "all-connections-busy"
    title = "All connections are busy"


class _Message(Enum):
    """What of a request has come."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


class BoundedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a bound on everything a client can make it wait for or keep.

    * Request line and headers: bytes, number, and seconds from connecting (or, on a connection that is kept, from the
      first byte) until they are complete; a slow drip does not extend them.
    * Bodies, either way: so many bytes a second at least, averaged over a time-out, while the other side may move.
    * Chunk extensions and trailers, which nobody reads: bytes. Trailers never become headers.
    * Requests sent ahead of an answer.
    * Connections: a new one takes the place of the one that has waited longest for a request, kept or fresh, or for the
      first 64 KiB of its body, or else of one whose client has taken nothing of its answer for five seconds; only when
      all are busy with requests is it answered 503.

    Args:
        settings: The bounds.
        table: The other connections of the server.
        given: What uvicorn makes a protocol with.
    """

    flow: TimedFlow

    def __init__(self, *, settings: Settings, table: ConnectionTable, **given: Any) -> None:
        super().__init__(**given)
        self._settings = settings
        self._table = table
        self._message = _Message.NOTHING
        self._is_deaf = False
        self._running: RequestResponseCycle | None = None
        self._error: ProblemError | None = None
        # Since the last request: all bytes read, bytes of request line and headers, headers.
        self._raw = self._head = self._headers = 0
        # Of this body: its bytes, those around them, those since the last of its bytes; and what came in this window.
        self._body = self._framing = self._trailing = self._in_window = 0
        self._window_began = 0.0
        self._unsent = 0
        self._head_alarm = Alarm(self.loop, self._head_is_late)
        self._body_alarm = Alarm(self.loop, self._check_body)
        self._write_alarm = Alarm(self.loop, self._check_writing)
        self._linger_alarm = Alarm(self.loop, self.drop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection in, or answer that there is no place."""
        super().connection_made(transport)
        self.flow = TimedFlow(transport, self.loop)
        if self._table.make_room(len(self.connections)):
            self._table.waiting[self] = None
            self._head_alarm.set(self._settings.header_timeout_s)
            return
        self._table.refused[self] = None
        detail = f"All {self._table.limit} connections of this service are busy with requests; try again in a moment."
        self._refuse(ServiceBusyError(detail, headers={"Retry-After": "2"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._table.forget(self)
        for alarm in (self._head_alarm, self._body_alarm, self._write_alarm, self._linger_alarm):
            alarm.clear()
        self._unset_keepalive_if_required()
        self._tell_of_the_end()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _tell_of_the_end(self) -> None:
        # uvicorn tells the newest request only: one that is answered with others behind it would never hear.
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def drop(self) -> None:
        """Close at once, whatever is still unsent."""
        self._tell_of_the_end()
        self.connections.discard(self)
        self._table.forget(self)
        self.transport.abort()

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse what came, and look whether it is too much."""
        if self._is_deaf:
            return
        self._unset_keepalive_if_required()
        self._in_window += len(data)
        if self._message is _Message.BODY:
            self._framing += len(data)
            self._trailing += len(data)
        else:
            self._raw += len(data)
            if not self._is_busy:
                self._head_alarm.set(self._settings.header_timeout_s)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing is upgraded here, and the parser has passed over what follows.
            self.cycle.keep_alive = False
            self._is_deaf = True
        except httptools.HttpParserError:
            self._refuse(self._error or MalformedRequestError("This is not HTTP/1.1 as RFC 9112 has it."))
            return
        if self._is_deaf:
            return
        if self._message is _Message.BODY:
            self._check_framing()
        elif self._raw > self._settings.max_header_bytes:
            self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._message = _Message.HEAD
        self._head = self._headers = 0

    def on_url(self, url: bytes) -> None:
        """Take part of the request line."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one after the body is dropped: whoever looked at the headers did not see it."""
        if self._message is _Message.BODY:
            return
        self._headers += 1
        if self._headers > MAX_HEADERS:
            self._error = HeaderTooLargeError(f"The request has more than the {MAX_HEADERS} headers accepted.")
            raise self._error
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > self._settings.max_header_bytes:
            self._error = self._too_large()
            raise self._error

    def _too_large(self) -> ProblemError:
        most = self._settings.max_header_bytes
        return HeaderTooLargeError(
            f"Request line and headers have more than the {most:,} bytes accepted (SEATRIAL_MAX_HEADER_BYTES)."
        )

    def on_headers_complete(self) -> None:
        """Begin to answer, or queue the request behind those before it."""
        if self._is_busy and len(self.pipeline) >= MAX_PIPELINED:
            raise BufferError
        if (reason := self._reason_to_refuse()) is not None:
            self._error = MalformedRequestError(reason)
            raise self._error
        super().on_headers_complete()
        self._message = _Message.BODY
        self._body = self._framing = self._trailing = self._raw = 0
        self._head_alarm.clear()
        # Still waiting, now for its body: one that is there already takes it out at once.
        self._table.forget(self)
        self._table.waiting[self] = None
        self._open_window()

    def _reason_to_refuse(self) -> str | None:
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            return "This service speaks HTTP/1.1."
        if sum(name == b"host" for name, _ in self.headers) > 1:
            return "The Host header is there twice."
        has_body = any(
            (name == b"content-length" and value.strip(b"0")) or name == b"transfer-encoding"
            for name, value in self.headers
        )
        # The parser takes a body after Upgrade for another protocol; a proxy before us would take it for a body.
        if self.parser.should_upgrade() and has_body:
            return "Nothing is upgraded here: send a body without Connection: Upgrade."
        return None

    def on_body(self, body: bytes) -> None:
        """Take part of the body."""
        self._body += len(body)
        self._framing -= len(body)
        self._trailing = 0
        if self._body >= HELD_BODY_BYTES and self._is_busy:
            self._table.forget(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._message = _Message.NOTHING
        self._body_alarm.clear()
        if self._is_busy:
            self._table.forget(self)
        elif not self.transport.is_closing():
            # Answered before its body had come: from here on it is a connection that is kept, like any other.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        super().on_response_complete()
        if self.transport.is_closing():
            # The transport sends the rest of the answer first, for as long as the client takes.
            self._watch_writing()
        elif not self._is_busy:
            self._table.waiting[self] = None
            if self._message is not _Message.NOTHING:
                self._unset_keepalive_if_required()
            if self._message is _Message.HEAD:
                self._head_alarm.set(self._settings.header_timeout_s)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection nothing more came on."""
        super().timeout_keep_alive_handler()
        self._watch_writing()

    def pause_writing(self) -> None:
        """Send no more until the client has taken what was sent."""
        super().pause_writing()
        self._table.stalled[self] = time.monotonic()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Send again."""
        self._table.stalled.pop(self, None)
        self._write_alarm.clear()
        super().resume_writing()

    def _head_is_late(self) -> None:
        if not self._raw:
            # A browser may open a connection ahead of any request: there is nothing to answer.
            self.drop()
            return
        most = self._settings.header_timeout_s
        self._refuse(TooSlowError(f"Request line and headers took longer than {most:g} s."))

    def _open_window(self) -> None:
        self._in_window = 0
        self._window_began = self.loop.time()
        self._body_alarm.set(self._settings.body_timeout_s, anew=True)

    @property
    def _least_per_window(self) -> float:
        return max(1.0, self._settings.min_body_rate * self._settings.body_timeout_s)

    def _check_body(self) -> None:
        window_s = self._settings.body_timeout_s
        open_s = self.loop.time() - max(self._window_began, self.flow.readable_since)
        if self.flow.read_paused:
            self._open_window()
        elif open_s < 0.99 * window_s:
            self._body_alarm.set(window_s - open_s)
        elif self._in_window >= self._least_per_window:
            self._open_window()
        else:
            rate = self._settings.min_body_rate
            self._refuse(
                TooSlowError(
                    f"The body came at less than {rate:,} bytes a second for {window_s:g} s."
                    if self._in_window
                    else f"Nothing of the body came for {window_s:g} s."
                )
            )

    def _check_framing(self) -> None:
        most = self._settings.max_header_bytes
        if self._trailing > most or self._framing > most + MAX_FRAMING * self._body:
            self._refuse(MalformedRequestError("The chunks of the body have more extensions or trailers than content."))

    def _watch_writing(self) -> None:
        self._unsent = self._count_unsent()
        self._write_alarm.set(self._settings.body_timeout_s)

    def _check_writing(self) -> None:
        unsent = self._count_unsent()
        if self._unsent - unsent < min(self._least_per_window, self._unsent):
            self.drop()
        elif unsent:
            self._watch_writing()

    def _count_unsent(self) -> int:
        """Return the bytes the client has not acknowledged: the kernel takes more in steps of a third of its buffer."""
        held = bytearray(4)
        # A connection that is lost has no file any more.
        with suppress(OSError, ValueError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)

    def _refuse(self, error: ProblemError) -> None:
        """Answer and read nothing more; behind answers still to come, let them be the last ones."""
        self._is_deaf = True
        self._head_alarm.clear()
        self._body_alarm.clear()
        if self._is_busy and self._message is not _Message.BODY:
            self.cycle.keep_alive = False
            return
        if self._is_busy and (self.pipeline or self.cycle.response_started):
            self.drop()
            return
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self not in self._table.refused:
            self._table.waiting[self] = None
        self._linger_alarm.set(LINGER_S)
        self.flow.resume_reading()
        self.transport.write(_raw_answer(error))
        if self.transport.can_write_eof():
            self.transport.write_eof()


def _raw_answer(error: ProblemError) -> bytes:
    request_id = uuid7().hex
    body = json.dumps(problem_body(error, instance="", request_id=request_id)).encode()
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-request-id": request_id,
        **error.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[error.status] + lines.encode() + b"\r\n" + body
