"""Requests for noise take turns, end when nobody waits, and have a time."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

from app.perturb import service
from app.perturb.turns import Turns
from app.web.problems import TooManyRequestsError
from seatrial.contracts.perturb import PerturbRequest
from seatrial.store.settings import Settings
from tests.perturb.asking import ALL, TEXT, refused


def test_requests_take_turns_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_thread = threading.get_ident()
    running, most = 0, 0
    threads: set[int] = set()
    guard, render = threading.Lock(), service._render

    def watched(*arguments: Any) -> bytes:
        nonlocal running, most
        threads.add(threading.get_ident())
        with guard:
            running += 1
            most = max(most, running)
        try:
            return render(*arguments)
        finally:
            with guard:
                running -= 1

    monkeypatch.setattr(service, "_render", watched)
    body = PerturbRequest(texts=[TEXT] * 20, attackers=["intrude", "visual"])

    async def four() -> list[bytes]:
        return await asyncio.gather(*(service.answer(body, ALL, "json") for _ in range(4)))

    assert len(set(asyncio.run(four()))) == 1
    assert most == 1
    assert loop_thread not in threads


def endless(made: list[int], begun: threading.Event) -> Callable[..., bytes]:
    """Return a computation that goes on until it is told to end."""

    def render(_body: Any, _lexicons: Any, _wanted: Any, effort: service.Effort) -> bytes:
        begun.set()
        while True:
            effort.check(len(made))
            made.append(1)

    return render


def test_what_nobody_waits_for_is_computed_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    monkeypatch.setattr(service, "_render", endless([], begun))
    body = PerturbRequest(texts=[TEXT])

    async def is_disconnected() -> bool:
        return begun.is_set()

    # Its time would be over after an hour, with another error.
    with pytest.raises(ClientDisconnect):
        asyncio.run(service.answer(body, ALL, "json", deadline_s=3600, is_disconnected=is_disconnected))


def test_a_client_that_disconnects_ends_its_computation(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, statuses = threading.Event(), list[int]()
    monkeypatch.setattr(service, "_render", endless([], begun))
    services = client.app.state.services  # type: ignore[attr-defined]
    object.__setattr__(services, "settings", services.settings.model_copy(update={"perturb_deadline_s": 3600.0}))
    body = json.dumps({"texts": [TEXT]}).encode()
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        **{"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "query_string": b""},
        **{"path": "/v1/perturb", "raw_path": b"/v1/perturb", "headers": headers, "client": ("127.0.0.1", 1)},
        "server": ("127.0.0.1", 80),
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        while not begun.is_set():
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(client.app(scope, receive, send))  # type: ignore[attr-defined]
    assert statuses == [400]


def test_a_request_that_waits_in_vain_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    monkeypatch.setattr(service, "_render", endless([], begun))
    body = PerturbRequest(texts=[TEXT])
    gone: set[str] = set()

    async def scenario() -> None:
        def ask(name: str) -> asyncio.Task[bytes]:
            async def is_disconnected() -> bool:
                return name in gone

            return asyncio.create_task(
                service.answer(body, ALL, "json", project_id="p", deadline_s=3600, is_disconnected=is_disconnected)
            )

        first, second = ask("first"), ask("second")
        await asyncio.to_thread(begun.wait, 30)
        gone.add("second")
        with pytest.raises(ClientDisconnect):
            await second
        assert not first.done()
        monkeypatch.setattr(service, "_render", lambda *_: b"third")
        third = ask("third")
        gone.add("first")
        assert await third == b"third"
        with pytest.raises(ClientDisconnect):
            await first

    asyncio.run(scenario())


def test_the_time_is_over_in_the_computation(client: httpx.Client) -> None:
    services = client.app.state.services  # type: ignore[attr-defined]
    object.__setattr__(services, "settings", services.settings.model_copy(update={"perturb_deadline_s": 1e-9}))
    pointer, detail = refused(client, texts=[TEXT] * 20, attackers=["intrude"], levels=[0.5])
    assert pointer == "/texts"
    assert "1 of 20 copies" in detail
    assert "SEATRIAL_PERTURB_DEADLINE_S" in detail
    assert "seatrial perturb" in detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        {
            "sentences": [[f"w{n}x{m}" for m in range(1500)] for n in range(10)],
            "attackers": ["combined"],
            "levels": [1],
        },
        {"texts": ["a " * 10_000], "attackers": ["combined"], "levels": [1], "draws": 10},
        {"texts": ["visible words " * 7] * 20, "attackers": ["visual"], "levels": [0.8], "draws": 100},
    ],
    ids=["tokens", "characters", "copies"],
)
def test_an_honest_request_of_the_largest_size_fits(body: dict[str, Any]) -> None:
    largest = PerturbRequest(**body)
    service.refuse_too_much(largest)
    began = time.thread_time()
    assert len(list(service.perturb(largest, ALL))) == len(largest.texts or largest.sentences or ()) * largest.copies
    # Of the thread itself, whatever else the machine does; twice as slow a machine still answers.
    assert time.thread_time() - began < Settings().perturb_deadline_s


def test_projects_take_turns_and_so_many_of_one_wait() -> None:
    turns, order = Turns(2), list[str]()

    async def scenario() -> None:
        release = asyncio.Event()

        async def ask(name: str) -> None:
            async with turns.turn(name[0], retry_after_s=2):
                order.append(name)
                await release.wait()

        asked = []
        for name in ("a1", "a2", "a3", "b1", "c1"):
            asked.append(asyncio.create_task(ask(name)))
            await asyncio.sleep(0)
        with pytest.raises(TooManyRequestsError, match="ask again in 2 s") as caught:
            await ask("a4")
        assert caught.value.headers == {"Retry-After": "2"}
        release.set()
        await asyncio.gather(*asked)
        # Nobody waits and nobody is in: the next one need not wait.
        await ask("a5")

    asyncio.run(scenario())
    assert order == ["a1", "a2", "b1", "c1", "a3", "a5"]
