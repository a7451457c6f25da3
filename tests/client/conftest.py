"""A real server on a real port, in this process, without workers; and clients whose requests a test answers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from app.main import create_app
from seatrial.client import Client, async_session, retries, sync_session
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from tests.client.asking import Asking
from tests.databases import migrated
from tests.servers import eventually, free_port


@dataclass
class Server:
    """Where it listens, and what it writes to."""

    url: str
    settings: Settings
    database: Database


@contextmanager
def served(home: Path) -> Iterator[Server]:
    """Serve an empty database over HTTP."""
    settings = Settings(home=home, require_keys=False)
    database = migrated(settings)
    port = free_port()
    config = uvicorn.Config(create_app(settings), port=port, log_level="warning", access_log=False)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    eventually(lambda: running.started, what="the server")
    yield Server(f"http://127.0.0.1:{port}", settings, database)
    running.should_exit = True
    thread.join()
    database.dispose()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A service of the test's own."""
    with served(tmp_path / "home") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """Speak to it."""
    with Client(server.url) as speaking:
        yield speaking


@pytest.fixture(params=["sync", "async"])
def asking(request: pytest.FixtureRequest) -> Callable[..., Asking]:
    """Return what makes a client of each kind whose requests are answered in turn."""
    return lambda *answers, **options: Asking(request.param, *answers, **options)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect the pauses instead of making them, none of them shortened by chance."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(sync_session.time, "sleep", made.append)
    monkeypatch.setattr(async_session.anyio, "sleep", sleep)
    monkeypatch.setattr(retries.random, "uniform", lambda low, high: high)
    return made
