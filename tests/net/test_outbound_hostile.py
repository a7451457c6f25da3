"""The guarded client against servers and resolvers that want to hold it: it gives up when told, and by itself."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from seatrial.net import (
    AnswerTimeoutError,
    AnswerUnusableError,
    ConnectionBrokenError,
    Outbound,
    OutboundError,
    connections,
)
from tests.net.test_outbound import LOCAL, knowing, post
from tests.scripted import Asked, serving


class GivenUpError(Exception):
    pass


class GivingUp:
    """Gives up at the third call: one before the wait, and one in it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls >= 3:
            raise GivenUpError


@contextmanager
def listening(*, backlog: int) -> Iterator[tuple[int, socket.socket]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
        yield listener.getsockname()[1], listener


@contextmanager
def never_accepting() -> Iterator[int]:
    """Listen where the queue of connections is full: the kernel answers nobody any more."""
    with listening(backlog=0) as (port, _):
        waiting = []
        try:
            for _ in range(4):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                waiting.append(one)
            yield port
        finally:
            for one in waiting:
                one.close()


@contextmanager
def silent() -> Iterator[int]:
    """Accept connections and say nothing."""
    with listening(backlog=16) as (port, _):
        yield port


@pytest.mark.parametrize(
    ("held_by", "scheme"), [(never_accepting, "http"), (silent, "https"), (silent, "http")],
    ids=["connecting", "shaking hands", "reading"],
)  # fmt: skip
def test_whoever_waits_may_give_up_and_has_a_deadline(held_by: Callable[[], Any], scheme: str) -> None:
    with held_by() as port:
        url = f"{scheme}://127.0.0.1:{port}/"
        # A wait of ten seconds in one piece would end in another error than these.
        with pytest.raises(GivenUpError):
            post(url, timeout_s=60, check_cancelled=GivingUp())
        with pytest.raises(AnswerTimeoutError, match=r"0\.2 s"):
            post(url, timeout_s=0.2)


def test_a_resolver_that_does_not_answer_is_left_alone() -> None:
    released, ended = threading.Event(), threading.Semaphore(0)

    def resolve(host: str, port: int) -> list[str]:
        assert released.wait(60)
        ended.release()
        return ["127.0.0.1"]

    with Outbound(LOCAL, resolve=resolve, check_cancelled=GivingUp()) as outbound, pytest.raises(GivenUpError):
        outbound.post("http://m.example.com/", b"", {}, timeout_s=60)
    with pytest.raises(AnswerTimeoutError):
        post("http://m.example.com/", timeout_s=0.2, resolve=resolve)
    assert not ended.acquire(blocking=False)
    released.set()
    for _ in range(2):
        assert ended.acquire(timeout=30)


def test_silent_resolvers_hold_so_many_threads_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_look_ups", threading.BoundedSemaphore(3))
    released, looking = threading.Event(), list[str]()

    def resolve(host: str, port: int) -> list[str]:
        looking.append(host)
        released.wait(60)
        return []

    for _ in range(5):
        with pytest.raises(AnswerTimeoutError):
            post("http://m.example.com/", timeout_s=0.2, resolve=resolve)
    assert len(looking) == 3
    released.set()
    with serving(lambda handler, asked: handler.send_error(404)) as server:
        assert post(f"http://m.example.com:{server.port}/", resolve=knowing(["127.0.0.1"])).status == 404


def sending(head: bytes, forever: bytes) -> Callable[[BaseHTTPRequestHandler, Asked], None]:
    """Send something once and something else for ever."""

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        handler.wfile.write(head)
        many = forever * max(1, 2**15 // len(forever))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            handler.wfile.write(many)

    return answer


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "one header": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "many headers": (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
    "folded headers": (b"HTTP/1.1 200 OK\r\nX: a\r\n", b" a\r\n"),
    "a status line": (b"HTTP/1.1 200 ", b"a"),
    "no status line": (b"", b"a"),
    "empty lines": (b"", b"\r\n"),
    "1xx": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "1xx with headers": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "chunks of a byte": (CHUNKED, b"1\r\na\r\n"),
    "an extension of a chunk": (CHUNKED + b"1;", b"a"),
    "extensions of chunks": (CHUNKED, b"1;" + b"a" * 1000 + b"\r\na\r\n"),
    "a chunk's length": (CHUNKED, b"0"),
    "trailers": (CHUNKED + b"0\r\n", b"X: a\r\n"),
}


@pytest.mark.parametrize(("head", "forever"), FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("cut_at", [None, 4096])
def test_an_answer_without_an_end_is_refused_by_its_bytes(head: bytes, forever: bytes, cut_at: int | None) -> None:
    # Before the minute of the deadline is over, which would be another error.
    with serving(sending(head, forever)) as server:
        options: dict[str, Any] = {"max_bytes": 100_000, "cut_at": cut_at, "timeout_s": 60}
        if cut_at is not None and head.startswith(CHUNKED):
            # The status is there; what follows is not waited for.
            assert post(server.url, **options).status == 200
        else:
            with pytest.raises((AnswerUnusableError, ConnectionBrokenError)):
                post(server.url, **options)
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"x" * 100_000, b"x" * 99_999])
@pytest.mark.parametrize("chunk", [16, 1000])
def test_an_honest_answer_in_small_chunks_is_taken(body: bytes, chunk: int) -> None:
    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        pieces = [body[start : start + chunk] for start in range(0, len(body), chunk)]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" + CHUNKED + framed + b"0\r\n\r\n")

    with serving(answer) as server:
        assert post(server.url, max_bytes=100_000).body == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffffff\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\x00: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_hardly_http_is_an_answer_or_an_error_of_ours(answer: bytes) -> None:
    def send(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        handler.wfile.write(answer)
        handler.close_connection = True

    with serving(send) as server, Outbound(LOCAL, max_bytes=1000) as outbound:
        for _ in range(2):
            try:
                told = outbound.post(server.url, b"", {}, timeout_s=20)
            except OutboundError:
                continue
            assert told.status in (101, 200)
