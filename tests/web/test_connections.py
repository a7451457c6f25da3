"""What can be done to the service without a key, byte by byte: a real server in a process of its own."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import psutil
import pytest

from tests.servers import ROOT, die_with_parent, eventually

LONG_S = 30.0
STILL = b"GET /still HTTP/1.1\r\nConnection: close\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Echoing:
    """A server that tells what it was asked."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self._process = psutil.Process(pid)

    def rss(self) -> int:
        return int(self._process.memory_info().rss)

    def number_open(self) -> int:
        return sum(one.status == psutil.CONN_ESTABLISHED for one in self._process.net_connections())

    @contextmanager
    def open(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=LONG_S) as connection:
            yield connection

    def ask(self, *raw: bytes) -> bytes:
        """Send so many bytes and return everything until the server closes."""
        with self.open() as connection, suppress(ConnectionResetError, BrokenPipeError):
            for piece in raw:
                connection.sendall(piece)
            return rest_of(connection)
        return b""

    def is_well(self) -> bool:
        return b" 200 OK" in self.ask(GET.replace(b"Host", b"Connection: close\r\nHost"))


def rest_of(connection: socket.socket) -> bytes:
    """Return everything until the end of a connection; a reset ends it too."""
    told = bytearray()
    with suppress(ConnectionResetError):
        while data := connection.recv(65536):
            told += data
    return bytes(told)


def answer_on(connection: socket.socket) -> bytes:
    """Return one answer of a connection that stays open."""
    told = b""
    while not told.endswith(b"]}"):
        told += connection.recv(65536)
    return told


def problem_in(answer: bytes) -> tuple[int, str]:
    """Return status and code of a raw answer, which is a complete problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head.lower()
    assert b"content-type: application/problem+json" in head
    told = json.loads(body)
    assert f" {told['status']} ".encode() in head.split(b"\r\n")[0]
    assert {"type", "title", "detail", "instance", "code", "request_id"} <= set(told)
    return told["status"], told["code"]


Start = Callable[..., Echoing]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start servers with the settings given."""
    with ExitStack() as stack:

        def started(**settings: object) -> Echoing:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.web.echoing", json.dumps(settings)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                preexec_fn=die_with_parent,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            return Echoing(int(process.stdout.readline()), process.pid)

        yield started


@pytest.fixture(scope="module")
def patient(start: Start) -> Echoing:
    """A server whose time-outs no test waits for."""
    return start(header_timeout_s=300, body_timeout_s=300)


@pytest.fixture(scope="module")
def hasty(start: Start) -> Echoing:
    """A server that waits half a second and wants 2,000 bytes a second."""
    return start(header_timeout_s=0.5, body_timeout_s=0.5, min_body_rate=2000)


@pytest.fixture(scope="module")
def crowded(start: Start) -> Echoing:
    """A server with eight places."""
    return start(max_connections=8, header_timeout_s=300, body_timeout_s=300)


ENDLESS = {
    "a header line": (b"GET / HTTP/1.1\r\nX: ", b"x", 431),
    "a header name": (b"GET / HTTP/1.1\r\n", b"x", 431),
    "a target": (b"GET /", b"x", 431),
    "headers": (b"GET / HTTP/1.1\r\n", b"X: y\r\n", 431),
    "empty lines": (b"", b"\r\n", 431),
    "a method": (b"", b"G", 400),
    "a chunk extension": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x", 400),
    "extensions": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 998 + b"\r\na\r\n", 400),
    "a trailer": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x", 400),
    "trailers": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n", 400),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_nothing_without_an_end_fills_memory(patient: Echoing, what: str) -> None:
    began, endless, status = ENDLESS[what]
    piece = endless * (500_000 // len(endless))
    before = patient.rss()
    with patient.open() as connection:
        connection.sendall(began)
        # The server may close while we send 40 MB; of short headers or trailers these were 803 MB of its memory.
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(80):
                connection.sendall(piece)
    assert patient.rss() - before < 8_000_000
    with patient.open() as connection:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(began + endless * (600_000 // len(endless)))
        assert problem_in(rest_of(connection))[0] == status


def test_headers_up_to_the_limit_are_read(patient: Echoing) -> None:
    for length, status in ((65_000, b"200"), (66_000, b"431")):
        raw = b"GET / HTTP/1.1\r\nConnection: close\r\nX: " + b"x" * length + b"\r\n\r\n"
        for pieces in ([raw], [raw[:100], raw[100:40_000], raw[40_000:]]):
            assert patient.ask(*pieces).startswith(b"HTTP/1.1 " + status)
    for number, status in ((99, b"200"), (100, b"431")):
        raw = b"GET / HTTP/1.1\r\nConnection: close\r\n" + b"X: y\r\n" * number + b"\r\n"
        assert patient.ask(raw).startswith(b"HTTP/1.1 " + status)


def test_tiny_chunks_with_an_extension_each_are_read(patient: Echoing) -> None:
    head = b"POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = patient.ask(head, b"1;a=b\r\nx\r\n" * 50_000 + b"0\r\n\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["length"] == 50_000


def test_a_trailer_never_becomes_a_header(patient: Echoing) -> None:
    head = b"POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = patient.ask(head + b"1\r\nx\r\n0\r\nX-Forwarded-Proto: https\r\nAuthorization: Bearer stolen\r\n\r\n")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert [name for name, _ in told["headers"]] == ["connection", "transfer-encoding"]


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
AMBIGUOUS = {
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a list of lengths": b"POST / HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\nx",
    "a signed length": b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
    "a huge length": b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\nx",
    "chunks that are not last": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunks by another name": b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    "a space before the colon": b"POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\nx",
    "a bare CR": b"GET / HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
    "a bare LF": b"GET / HTTP/1.1\nX: a\n\n",
    "a NUL": b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "a size that is none": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
    "a negative size": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
    "a chunk too long": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
    "an upgrade with a body": b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 40\r\n\r\n",
    "an upgrade with chunks": b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "another version": b"GET / HTTP/2.0\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a tunnel": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 80,
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_two_servers_may_read_differently_is_refused_whole(patient: Echoing, what: str) -> None:
    for pieces in ([AMBIGUOUS[what] + SMUGGLED], [AMBIGUOUS[what], SMUGGLED]):
        answer = patient.ask(*pieces)
        assert b"smuggled" not in answer
        assert problem_in(answer) == (400, "malformed-request")


def test_after_an_upgrade_nothing_more_is_read(patient: Echoing) -> None:
    raw = b"GET /first HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    for pieces in ([raw + SMUGGLED], [raw, SMUGGLED]):
        answer = patient.ask(*pieces)
        assert b"/first" in answer
        assert b"smuggled" not in answer


def test_requests_sent_ahead_are_answered_in_order_and_not_without_end(patient: Echoing) -> None:
    asked = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20))
    last = b"GET /20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answered = re.findall(rb'"path": "/(\d+)"', patient.ask(asked + last))
    assert [int(number) for number in answered] == list(range(21))
    answer = patient.ask(GET * 5000)
    assert 1 <= answer.count(b" 200 OK") <= 40


def test_a_request_with_others_behind_it_hears_that_its_client_left(start: Start) -> None:
    small = start()
    with small.open() as connection:
        connection.sendall(GET.replace(b"/ ", b"/wait ", 1) + GET)
        eventually(lambda: b'"waiting": 1' in small.ask(STILL), what="the request to begin")
    eventually(lambda: b'"waiting": 0' in small.ask(STILL), what="the request to hear of the end")


def test_a_request_in_single_bytes_and_a_kept_connection_work(patient: Echoing) -> None:
    with patient.open() as connection:
        for _ in range(3):
            for byte in b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc":
                connection.sendall(bytes([byte]))
            assert b'"length": 3' in answer_on(connection)


def test_a_client_is_told_to_go_on_with_its_body(patient: Echoing) -> None:
    with patient.open() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert b'"length": 3' in rest_of(connection)


def dripped(connection: socket.socket, first: bytes, drop: bytes) -> bytes:
    """Send a byte every tenth of a second until the server closes, and return what it says."""
    connection.sendall(first)
    connection.settimeout(0.1)
    told = b""
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(drop)
            continue
        except ConnectionResetError:
            piece = b""
        if not piece:
            return told
        told += piece
    raise AssertionError("the connection is still open")


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"


DRIPS = {
    "nothing": (b"", b""),
    "a header": (b"GET / HTTP/1.1\r\nX: ", b"x"),
    "empty lines": (b"", b"\r\n"),
    "a body": (POST, b"x"),
    "no body": (POST, b""),
    "another request": (GET + b"GET /", b"x"),
    "a body that is answered": (POST.replace(b"/ ", b"/early ", 1), b"x"),
}


def test_a_drip_keeps_no_connection(hasty: Echoing) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(len(DRIPS)) as threads:
        told = dict(
            zip(
                DRIPS,
                threads.map(lambda drip: dripped(stack.enter_context(hasty.open()), *drip), DRIPS.values()),
                strict=True,
            )
        )
    assert told.pop("nothing") == b"", "a silent one is closed without a word"
    for what in ("another request", "a body that is answered"):
        # It has been answered; what drips behind is only no longer waited for.
        assert told.pop(what).startswith(b"HTTP/1.1 200 OK"), what
    for what, answer in told.items():
        assert problem_in(answer) == (408, "request-timeout"), what
    assert hasty.is_well()


def test_who_is_slow_and_moves_is_waited_for(start: Start) -> None:
    easy = start(body_timeout_s=1.5, min_body_rate=500)
    with easy.open() as sending, easy.open() as reading:
        sending.sendall(b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n")
        reading.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        received = 0
        for _ in range(20):
            time.sleep(0.1)
            sending.sendall(b"x" * 2000)
            received += len(reading.recv(131_072))
        assert b'"length": 40000' in rest_of(sending)
        assert received + len(rest_of(reading)) > 30_000_000


def test_a_client_that_reads_nothing_is_given_up(hasty: Echoing) -> None:
    with hasty.open() as kept, hasty.open() as closed:
        kept.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        closed.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        eventually(lambda: hasty.number_open() == 2, what="the connections")
        eventually(lambda: hasty.number_open() == 0, what="connections nobody reads from to be closed")
        assert max(len(rest_of(one)) for one in (kept, closed)) < 30_000_000


def test_silent_connections_never_take_the_service_away(crowded: Echoing) -> None:
    with ExitStack() as stack:
        kept = stack.enter_context(crowded.open())
        kept.sendall(GET)
        assert b" 200 OK" in answer_on(kept)
        silent = [stack.enter_context(crowded.open()) for _ in range(40)]
        for one in silent[::3]:
            one.sendall(b"GET / HTTP/1.1\r\nX: ")
        for one in silent[1::3]:
            one.sendall(POST + b"x" * 1000)
        assert crowded.is_well()
        for one in (kept, silent[0]):
            one.settimeout(LONG_S)
            assert rest_of(one) == b"", "those that waited longest were closed"
        newest = silent[-2]
        newest.sendall(GET)
        assert b" 200 OK" in answer_on(newest)


@pytest.mark.drill
def test_who_takes_nothing_of_an_answer_makes_room(crowded: Echoing) -> None:
    with ExitStack() as stack:
        for one in [stack.enter_context(crowded.open()) for _ in range(8)]:
            one.sendall(GET.replace(b"/ ", b"/large ", 1) * 2)
        eventually(crowded.is_well, what="room", every_s=0.5)


@pytest.mark.slow
def test_only_when_all_are_busy_is_one_refused(crowded: Echoing) -> None:
    with ExitStack() as stack:
        busy = [stack.enter_context(crowded.open()) for _ in range(8)]
        for one in busy:
            one.sendall(GET.replace(b"/ ", b"/hold ", 1))
        answer = eventually(
            lambda: (told := crowded.ask(GET)).startswith(b"HTTP/1.1 503") and told, what="all places to be taken"
        )
        assert isinstance(answer, bytes)
        assert problem_in(answer) == (503, "all-connections-busy")
        assert b"\r\nRetry-After: " in answer
        for one in (stack.enter_context(crowded.open()) for _ in range(100)):
            one.sendall(b"GET")
    eventually(crowded.is_well, what="places to be free again")
