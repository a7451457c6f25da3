"""The smallest server behind our protocol, as a process: ``python -m tests.web.echoing '{"max_connections": 8}'``."""

import asyncio
import json
import sys
from typing import Any

import uvicorn

from app.web.listening import bounded_http
from seatrial.store.settings import Settings

waiting: list[Any] = []


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Tell what was asked.

    ``/hold`` never answers, ``/early`` answers before the body, ``/large`` has 30 MB; ``/wait`` waits until the client
    leaves, and ``/still`` tells how many of these wait.
    """
    if scope["path"] == "/wait":
        waiting.append(scope)
        while (await receive())["type"] != "http.disconnect":
            pass
        waiting.remove(scope)
        return
    if scope["path"] == "/hold":
        await asyncio.sleep(600)
    length, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message.get("body", b"")), message["more_body"]
    told: dict[str, Any] = {
        "path": scope["path"],
        "length": length,
        "headers": [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
    }
    if scope["path"] == "/still":
        told = {"waiting": len(waiting)}
    body = b"x" * 30_000_000 if scope["path"] == "/large" else json.dumps(told).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _serve(settings: Settings) -> None:
    config = uvicorn.Config(
        echo,
        port=0,
        lifespan="off",
        log_level="critical",
        ws="none",
        timeout_keep_alive=60,
        http=bounded_http(settings, files=20_000),
    )
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await running


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config(echo).get_loop_factory()) as runner:
        runner.run(_serve(Settings(**json.loads(sys.argv[1]))))
