"""Many event streams at a time, on a real port: what they take from others, how many there may be, when they end."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
import uvicorn

from app.access.service import create_key
from app.audits import events
from app.audits.streams import EventStreams
from app.main import create_app
from app.web.services import Services
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow
from tests.audits.acting import make_ready
from tests.servers import eventually
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem


class Live:
    """A running API that wants keys, and an audit that waits for a worker."""

    def __init__(self, url: str, services: Services) -> None:
        self.url, self.services = url, services
        self.first, self.key_id = self.new_key()
        with self.client(self.first) as client:
            pair = upload_both(client)
            make_ready(services)
            self.audit = client.post("/v1/audits", json=submission(*pair)).json()["id"]

    def new_key(self, project: str = "vision") -> tuple[str, str]:
        secret, row = create_key(self.services.database, project, "follower", "run")
        return secret, row.id

    def client(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=20)

    def follow(self, stack: ExitStack, client: httpx.Client, query: str = "") -> httpx.Response:
        return stack.enter_context(client.stream("GET", f"/v1/audits/{self.audit}/events{query}"))


@pytest.fixture
def live(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Four streams per key and six per project; moments and checks that follow each other quickly."""
    monkeypatch.setattr(events, "POLL_S", 0.02)
    monkeypatch.setattr(events, "CHECK_S", 0.05)
    app = create_app(
        settings.model_copy(update={"require_keys": True, "max_streams_per_key": 4, "max_streams_per_project": 6})
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    eventually(lambda: server.started, what="the server")
    yield Live(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", app.state.services)
    server.should_exit = True
    thread.join()


def test_so_many_streams_per_key_and_per_project(live: Live) -> None:
    with ExitStack() as stack:
        one, other = (stack.enter_context(live.client(live.new_key()[0])) for _ in range(2))
        opened = [live.follow(stack, one) for _ in range(4)]
        assert {answer.status_code for answer in opened} == {200}
        refused = one.get(f"/v1/audits/{live.audit}/events")
        assert "SEATRIAL_MAX_STREAMS_PER_KEY" in assert_problem(refused, 429, "too-many-streams").detail
        assert refused.headers["retry-after"] == "5"
        assert [live.follow(stack, other).status_code for _ in range(2)] == [200, 200]
        refused = other.get(f"/v1/audits/{live.audit}/events")
        assert "SEATRIAL_MAX_STREAMS_PER_PROJECT" in assert_problem(refused, 429, "too-many-streams").detail
        assert other.head(f"/v1/audits/{live.audit}/events").status_code == 200, "a HEAD takes no place"
        # Another project has places of its own; that it has no such audit takes none.
        with live.client(live.new_key("speech")[0]) as stranger:
            for _ in range(8):
                assert_problem(stranger.get(f"/v1/audits/{live.audit}/events"), 404)
        opened[0].close()
        eventually(lambda: live.follow(stack, one).status_code == 200, what="the place of a closed stream")


def test_streams_end_when_their_key_is_revoked(live: Live) -> None:
    secret, key_id = live.new_key()
    with ExitStack() as stack:
        revoked = live.follow(stack, stack.enter_context(live.client(secret)))
        kept = live.follow(stack, stack.enter_context(live.client(live.first)))
        lines = revoked.iter_lines()
        assert next(lines) == "retry: 2000"
        admin, _ = create_key(live.services.database, "vision", "admin", "admin")
        with live.client(admin) as client:
            assert client.delete(f"/v1/keys/{key_id}").status_code == 204
        assert all("audit" in line or "check" in line or not line or line.startswith(("id", ":")) for line in lines)
        with live.services.database.write() as session:
            session.delete(session.get_one(AuditRow, live.audit))
        # The other one ends only now: there is no such audit any more.
        assert kept.read().startswith(b"retry: 2000")


def test_streams_take_no_thread_from_others(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, looking = threading.Event(), threading.Semaphore(0)
    read_events = events.read_events

    def slow(*asked: Any) -> events.Look:
        looking.release()
        assert go_on.wait(30)
        return read_events(*asked)

    monkeypatch.setattr(events, "read_events", slow)
    monkeypatch.setattr(live.services.of(EventStreams), "_max_per_key", 60)
    monkeypatch.setattr(live.services.of(EventStreams), "_max_per_project", 60)
    answers: list[int] = []

    def follow(after: int) -> None:
        with ExitStack() as stack:
            client = stack.enter_context(live.client(live.first))
            answers.append(live.follow(stack, client, f"?after={after}").status_code)

    threads = [threading.Thread(target=follow, args=(after,)) for after in range(50)]
    try:
        for thread in threads:
            thread.start()
        # Each asks for another position, so none can share; all have arrived when four look and the others wait.
        eventually(lambda: sum(live.services.of(EventStreams)._open.values()) == 150, what="50 streams")
        with live.client(live.first) as client:
            assert client.get("/v1/audits").status_code == 200
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert answers == [200] * 50
    assert looking.acquire(timeout=1)


def test_who_asks_the_same_shares_the_answer(settings: Settings) -> None:
    asked: list[int] = []

    def look() -> int:
        time.sleep(0.05)
        asked.append(1)
        return len(asked)

    async def ask_together() -> None:
        streams = EventStreams(settings)
        first = asyncio.ensure_future(streams.ask("a", look))
        others = [asyncio.ensure_future(streams.ask("a", look)) for _ in range(50)]
        await asyncio.sleep(0)
        # Whoever began it leaves.
        first.cancel()
        assert set(await asyncio.gather(*others)) == {1}
        assert await streams.ask("a", look) == 2
        with pytest.raises(ZeroDivisionError):
            await streams.ask("b", lambda: 1 // 0)
        assert not streams._asked

    asyncio.run(ask_together())
