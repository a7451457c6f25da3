"""Long computations have threads of their own, and a project has one of them at a time."""

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.web import computing
from app.web.computing import AT_ONCE, Computations
from app.web.problems import TooManyRequestsError


class Work:
    """Works until it is let go; tells how much is worked on at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.running: list[str] = []

    def __call__(self, name: str) -> str:
        self.running.append(name)
        assert self.go.wait(10)
        return name

    async def until(self, running: set[str]) -> None:
        while set(self.running) != running:
            await asyncio.sleep(0.01)


def request(gone: asyncio.Event | None = None) -> Request:
    async def receive() -> dict[str, Any]:
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


def test_a_project_computes_one_thing_at_a_time_and_another_project_goes_past_it() -> None:
    async def scenario() -> list[str]:
        computations, work = Computations(), Work()

        def ask(project: str, name: str) -> asyncio.Task[str]:
            return asyncio.ensure_future(computations.run(request(), project, lambda: work(name)))

        asked = [ask("a", f"a{n}") for n in range(5)]
        await work.until({"a0"})
        asked.append(ask("b", "b0"))
        await work.until({"a0", "b0"})
        # The threads that answer short requests are all free.
        await asyncio.wait_for(asyncio.gather(*[asyncio.to_thread(int) for _ in range(AT_ONCE)]), 5)
        work.go.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(asyncio.wait_for(scenario(), 20)) == ["a0", "a1", "a2", "a3", "a4", "b0"]


def test_those_too_many_are_refused_and_those_who_go_away_wait_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "MOST_WAITING", 1)

    async def scenario() -> list[str]:
        computations, work, gone = Computations(), Work(), asyncio.Event()
        first = asyncio.ensure_future(computations.run(request(), "a", lambda: work("first")))
        await work.until({"first"})
        leaving = asyncio.ensure_future(computations.run(request(gone), "a", lambda: work("leaving")))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequestsError, match="of this project wait for a report"):
            await computations.run(request(), "a", lambda: work("refused"))
        gone.set()
        with pytest.raises(ClientDisconnect):
            await leaving
        last = asyncio.ensure_future(computations.run(request(), "a", lambda: work("last")))
        work.go.set()
        return [await first, await last, *work.running]

    assert asyncio.run(asyncio.wait_for(scenario(), 20)) == ["first", "last", "first", "last"]
