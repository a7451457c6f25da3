"""A real HTTP server in a thread that answers as it is told, well or badly."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answerer = Callable[[BaseHTTPRequestHandler, Asked], None]


@dataclass
class Scripted:
    """Answers requests from ``script`` in turn, then all others as ``otherwise`` does."""

    otherwise: Answerer
    script: list[Answerer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/classify"


@contextmanager
def serving(
    otherwise: Answerer, *script: Answerer, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
) -> Iterator[Scripted]:
    """Serve on a free port."""
    server = Scripted(otherwise, list(script), scheme="https" if tls else "http")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.path, headers, body, self.client_address, time.monotonic())
            server.asked.append(asked)
            answer = server.script.pop(0) if server.script else server.otherwise
            try:
                answer(self, asked)
            except OSError:
                # Whoever asked has had enough.
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass

    http = Server((address, 0), Handler)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def answering(body: Any, status: int = 200, **headers: str) -> Answerer:
    """Answer with bytes as they are, or with anything else as JSON."""

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def dropping(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """End the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"[[0.5, 0.5], [0.")
    handler.close_connection = True


def dripping(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """Send a byte of the headers every 50 ms, for 10 s."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(200):
        handler.wfile.write(b"a")
        time.sleep(0.05)


def flooding(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """Send an answer without an end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while True:
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
