"""Inspections run in processes of their own: limited, shared fairly, and gone when their client is."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from app.web.inspecting import Inspections
from app.web.problems import MalformedBodyError, TooManyRequestsError
from seatrial.ingest.inspection.errors import ContentError, MalformedFileError, UploadTooLargeError
from seatrial.sandbox import confinement
from seatrial.sandbox.calls import InspectionFailedError
from seatrial.sandbox.launcher import LaunchError, Zygote
from seatrial.store.settings import Settings
from tests.sandbox.test_launcher import is_running

pytestmark = pytest.mark.inspected_apart

MIB = 2**20


@pytest.fixture
def limits(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        inspections=2,
        inspections_per_project=1,
        inspections_waiting=1,
        inspection_memory_bytes=128 * MIB,
        # For the log of processes, which the inspections write.
        confine=False,
        endpoint_secrets={"TOKEN": {"host": "models.example.com", "value": "secret"}},  # type: ignore[dict-item]
    )


class Client:
    """A client that is there until it goes."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    @property
    def request(self) -> Request:
        return Request({"type": "http", "method": "POST", "path": "/v1/models", "headers": []}, self._receive)

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def ask(inspections: Inspections, function: str, *arguments: Any, project: str = "a", client: Client) -> Any:
    name = f"tests.web.inspected:{function}"
    return await inspections.run(client.request, project, name, arguments, size_bytes=0)


def run(limits: Settings, function: str, *arguments: Any) -> Any:
    async def once() -> Any:
        return await ask(Inspections(limits), function, *arguments, client=Client())

    return asyncio.run(once())


def test_a_function_runs_in_a_process_of_its_own_without_secrets(limits: Settings) -> None:
    word, most, secrets, pid = run(limits, "tell", "word")
    assert (word, most, secrets) == ("word", limits.max_examples, {})
    assert pid != os.getpid()
    assert not is_running(pid)


def test_a_refusal_arrives_as_it_was_raised(limits: Settings) -> None:
    with pytest.raises(ContentError, match="for the test") as refused:
        run(limits, "refuse")
    assert refused.value.field == "/manifest/labels"


@pytest.mark.skipif(not confinement.version(), reason="the kernel offers no Landlock")
def test_an_inspection_opens_its_own_file_and_no_other(limits: Settings, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for path in (own, other):
        path.write_text("told")
    confined = limits.model_copy(update={"confine": True})
    assert run(confined, "read", own, str(own)) == "told"
    with pytest.raises(InspectionFailedError, match="PermissionError"):
        run(confined, "read", own, str(other))
    with pytest.raises(InspectionFailedError, match="PermissionError"):
        run(confined, "sleep", str(other))


def test_more_memory_than_allowed_is_a_refusal_that_names_the_setting(limits: Settings) -> None:
    assert run(limits, "take_memory", 32 * MIB) == 32 * MIB
    with pytest.raises(UploadTooLargeError, match="SEATRIAL_INSPECTION_MEMORY_BYTES"):
        run(limits, "take_memory", 256 * MIB)


def test_arrow_reserves_nothing_of_an_inspections_memory(limits: Settings) -> None:
    ample = limits.model_copy(update={"inspection_memory_bytes": 4096 * MIB})
    assert run(ample, "reserve") < 128 * MIB


def test_more_time_than_allowed_is_a_refusal_and_the_process_is_gone(limits: Settings, tmp_path: Path) -> None:
    log = tmp_path / "pids"
    with pytest.raises(UploadTooLargeError, match="SEATRIAL_INSPECTION_DEADLINE_S"):
        run(limits.model_copy(update={"inspection_deadline_s": 0.5}), "sleep", str(log))
    assert not is_running(int(log.read_text()))


def test_a_library_that_crashes_is_a_damaged_file(limits: Settings) -> None:
    with pytest.raises(MalformedFileError, match="SIGSEGV"):
        run(limits, "crash")


def test_a_mistake_of_ours_is_no_refusal(limits: Settings) -> None:
    with pytest.raises(InspectionFailedError, match="KeyError"):
        run(limits, "err")


def test_where_no_process_can_be_started_the_client_is_told_to_come_again(
    limits: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Zygote, *args: Any, **more: Any) -> None:
        raise LaunchError("cannot allocate memory")

    monkeypatch.setattr(Zygote, "fork", fail)
    with pytest.raises(TooManyRequestsError):
        run(limits, "tell", "word")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def pids(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_client_that_goes_takes_its_inspection_along_and_the_next_has_its_turn(
    limits: Settings, tmp_path: Path
) -> None:
    log = tmp_path / "pids"

    async def scene() -> None:
        inspections, first, second = Inspections(limits), Client(), Client()
        slow = asyncio.create_task(ask(inspections, "sleep", str(log), client=first))
        await until(lambda: len(pids(log)) == 1)
        waiting = asyncio.create_task(ask(inspections, "tell", "second", client=second))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        first.gone.set()
        with pytest.raises(MalformedBodyError):
            await slow
        assert not is_running(pids(log)[0])
        assert (await waiting)[0] == "second"

    asyncio.run(scene())


def test_a_project_has_its_share_and_no_more_wait_than_may(limits: Settings, tmp_path: Path) -> None:
    log = tmp_path / "pids"

    async def scene() -> None:
        inspections, clients = Inspections(limits), [Client() for _ in range(2)]
        tasks = [asyncio.create_task(ask(inspections, "sleep", str(log), client=client)) for client in clients]
        await until(lambda: len(pids(log)) == 1)
        with pytest.raises(TooManyRequestsError, match="SEATRIAL_INSPECTIONS_WAITING") as refused:
            await ask(inspections, "tell", "third", client=Client())
        assert refused.value.headers["Retry-After"]
        # Another project's turn comes at once.
        assert (await ask(inspections, "tell", "theirs", project="b", client=Client()))[0] == "theirs"
        assert len(pids(log)) == 1
        for client in reversed(clients):
            client.gone.set()
        for task in tasks:
            with pytest.raises(MalformedBodyError):
                await task
        assert not any(map(is_running, pids(log)))
        assert (await ask(inspections, "tell", "again", client=Client()))[0] == "again"

    asyncio.run(scene())
