import itertools
import json
import threading
from typing import Any

import httpx
import pytest

from app.audits import events
from app.web.services import Services
from seatrial.store.tables import AuditRow
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem


@pytest.fixture
def audit(client: httpx.Client, services: Services) -> str:
    """An audit whose model is ready."""
    pair = upload_both(client)
    make_ready(services)
    return str(client.post("/v1/audits", json=submission(*pair)).json()["id"])


def finish(services: Services, audit: str) -> None:
    check = first_check(services, audit)
    open_stage(services, check, "attack", [(0, 10), (10, 20)])
    run_shard(services)
    run_shard(services)
    end_check(services)


def parse(text: str) -> list[tuple[int, str, dict[str, object]]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "id" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])["data"]))
    return found


def test_the_stream_tells_everything_in_order_and_ends(client: httpx.Client, services: Services, audit: str) -> None:
    finish(services, audit)
    answer = client.get(f"/v1/audits/{audit}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = parse(answer.text)
    assert [seq for seq, _, _ in told] == list(range(1, len(told) + 1))
    assert [data["state"] for _, kind, data in told if kind == "audit"] == ["queued", "running", "succeeded"]
    assert [data["done"] for _, kind, data in told if kind == "progress"] == [0, 10, 20]


def test_a_broken_stream_goes_on_where_it_broke(client: httpx.Client, services: Services, audit: str) -> None:
    finish(services, audit)
    whole = parse(client.get(f"/v1/audits/{audit}/events").text)
    for seen in range(len(whole) + 1):
        rest = client.get(f"/v1/audits/{audit}/events", headers={"Last-Event-ID": str(seen)})
        assert parse(rest.text) == whole[seen:]
        assert parse(client.get(f"/v1/audits/{audit}/events?after={seen}").text) == whole[seen:]
    for beyond in (str(len(whole) + 5), "9" * 30):
        assert parse(client.get(f"/v1/audits/{audit}/events", headers={"Last-Event-ID": beyond}).text) == []
        assert parse(client.get(f"/v1/audits/{audit}/events?after={beyond}").text) == []


def test_events_come_as_they_happen(
    client: httpx.Client, services: Services, audit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_S", 0.02)
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.06)
    looks = itertools.count(1)
    read_events = events.read_events

    def finish_at_the_tenth_look(*asked: Any) -> events.Look:
        # By looks, not by the clock: a busy machine may pause for longer than any timer.
        if next(looks) == 10:
            finish(services, audit)
        return read_events(*asked)

    monkeypatch.setattr(events, "read_events", finish_at_the_tenth_look)
    answer = client.get(f"/v1/audits/{audit}/events")
    assert ": heartbeat" in answer.text
    assert parse(answer.text)[-1][2] == {"state": "succeeded"}


def test_a_bad_position_is_a_problem(client: httpx.Client, audit: str) -> None:
    for odd in ("", "nonsense", "-1", "1.5"):
        for asked in ({"params": {"after": odd}}, {"headers": {"Last-Event-ID": odd}}):
            problem = assert_problem(client.get(f"/v1/audits/{audit}/events", **asked), 422)
            assert problem.errors
            assert problem.errors[0].pointer in ("/after", "/last-event-id")


def test_a_position_beyond_the_newest_event_repeats_nothing_and_misses_nothing(
    client: httpx.Client, services: Services, audit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_S", 0.02)
    with services.database.read() as session:
        so_far = session.get_one(AuditRow, audit).event_seq
    timer = threading.Timer(0.3, finish, (services, audit))
    timer.start()
    told = parse(client.get(f"/v1/audits/{audit}/events", headers={"Last-Event-ID": "1000000"}).text)
    timer.join()
    assert told[0][0] == so_far + 1
    assert told[-1][2] == {"state": "succeeded"}
