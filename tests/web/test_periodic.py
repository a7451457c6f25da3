"""Periodic work: jobs done over and over, whatever becomes of one of them."""

import logging
import threading
import time
from pathlib import Path

import pytest

from app.main import create_app
from app.web import periodic
from app.web.periodic import Hurry, PeriodicRunner
from seatrial.store.settings import Settings
from tests.conftest import BASE_URL, TestClient
from tests.gates.over_http import ended, policy
from tests.servers import eventually


class Counting:
    """A job that counts its calls, and raises in some of them."""

    def __init__(self, failures: range = range(0)) -> None:
        self.calls: list[float] = []
        self._failures = failures

    def __call__(self) -> None:
        self.calls.append(time.monotonic())
        if len(self.calls) - 1 in self._failures:
            raise ValueError(f"call {len(self.calls)}")


def test_jobs_are_done_until_the_runner_is_stopped() -> None:
    first, second = Counting(), Counting()
    before = set(threading.enumerate())
    working = PeriodicRunner({"first": first, "second": second}, every_s=0.001)
    working.start()
    eventually(lambda: len(second.calls) >= 3)
    working.stop()
    assert "periodic" not in [thread.name for thread in set(threading.enumerate()) - before]
    assert len(first.calls) == len(second.calls)


def test_stopping_waits_for_the_job_in_hand() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), []

    def job() -> None:
        begun.set()
        may_end.wait(10)
        done.append(True)

    working = PeriodicRunner({"job": job}, every_s=0.001)
    working.start()
    begun.wait(10)
    threading.Timer(0.05, may_end.set).start()
    working.stop()
    assert done == [True]


def test_whoever_waits_gets_a_round_at_once_and_no_more_rounds_than_that() -> None:
    job, hurry = Counting(), Hurry()
    working = PeriodicRunner({"job": job}, every_s=60.0, hurry=hurry)
    working.start()
    eventually(lambda: len(job.calls) == 1)
    for _ in range(10_000):
        hurry.ask()
    eventually(lambda: len(job.calls) >= 2)
    began = time.monotonic()
    working.stop()
    assert time.monotonic() - began < 10
    assert len(job.calls) <= 2 + (time.monotonic() - job.calls[0]) / periodic.LEAST_S
    assert job.calls[1] - job.calls[0] >= periodic.LEAST_S


def test_a_runner_that_never_began_can_be_stopped() -> None:
    PeriodicRunner({"job": Counting()}).stop()


def test_a_failing_job_is_told_once_left_alone_for_longer_and_taken_up_again(caplog: pytest.LogCaptureFixture) -> None:
    failing, sound = Counting(range(4)), Counting()
    working = PeriodicRunner({"failing": failing, "sound": sound}, every_s=0.01, max_pause_s=0.08)
    with caplog.at_level(logging.WARNING, logger=periodic.__name__):
        working.start()
        eventually(lambda: len(failing.calls) >= 6)
        working.stop()
    assert [record.message for record in caplog.records] == [
        "failing failed and will be tried again: ValueError: call 1",
        "failing works again",
    ]
    pauses = [later - earlier for earlier, later in zip(failing.calls[:5], failing.calls[1:5], strict=False)]
    # The fourth would be 0.16 s without a longest.
    for pause, least in zip(pauses, (0.01, 0.02, 0.04, 0.08), strict=True):
        assert pause >= least
    assert len(sound.calls) >= len(failing.calls)


def test_the_api_judges_by_itself(settings: Settings) -> None:
    with TestClient(create_app(settings), base_url=BASE_URL) as client:
        audit = ended(client, policy=policy())
        eventually(lambda: client.get(f"/v1/audits/{audit}").json()["verdict"] == "passed")


def test_the_api_judges_what_ended_while_it_was_away(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, TestClient(create_app(settings), base_url=BASE_URL) as client:
        patch.setattr(PeriodicRunner, "start", lambda self: None)
        audit = ended(client, policy=policy())
    with TestClient(create_app(settings), base_url=BASE_URL) as client:
        eventually(lambda: client.get(f"/v1/audits/{audit}").json()["verdict"] == "passed")


def test_without_a_database_the_api_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(Settings(home=tmp_path, require_keys=False))
    with TestClient(app, base_url=BASE_URL) as client, caplog.at_level(logging.WARNING, logger=periodic.__name__):
        eventually(lambda: [one for one in caplog.records if one.message.startswith("judging failed")])
        assert client.get("/healthz").status_code == 200
