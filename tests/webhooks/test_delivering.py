"""Deliveries against real receivers: once where nothing fails, again where it does, never to where they may not go."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.webhooks.attempts import JITTER, MAX_RETRY_AFTER_S, PAUSES_S, REASON_CHARS, pause_s, retry_after
from seatrial.store.database import Database
from seatrial.store.retention import DELIVERY_KEPT, sweep_old
from seatrial.store.settings import Settings
from seatrial.store.tables import DeliveryRow, WebhookRow
from seatrial.store.tables.base import utc_now
from tests.scripted import Scripted, answering, dropping, flooding, serving
from tests.servers import ROOT, die_with_parent, eventually
from tests.webhooks.hooks import Holding, add_webhook, deliverer, delivery, leave, send_all, verified

SECOND = timedelta(seconds=1)


def is_enabled(db: Database, webhook_id: str) -> bool:
    with db.read() as session:
        return session.get_one(WebhookRow, webhook_id).is_enabled


@pytest.mark.slow
def test_a_message_arrives_signed_and_is_delivered(database: Database, receiver: Scripted) -> None:
    webhook, secret = add_webhook(database, receiver.url)
    [message] = leave(database, webhook)
    assert send_all(deliverer(database)) == 1
    [asked] = receiver.asked
    assert verified(asked, secret) == json.loads(asked.body) == delivery(database, message).payload
    assert asked.headers["webhook-id"] == message
    assert asked.headers["content-type"] == "application/json"
    row = delivery(database, message)
    assert (row.status, row.attempts, row.token, row.lease_until) == ("delivered", 1, None, None)
    assert row.finished_at is not None
    [entry] = row.log
    assert (entry["status"], entry["error"]) == (200, None)
    assert entry["ms"] >= 0
    assert send_all(deliverer(database), utc_now() + timedelta(days=10)) == 0


def test_several_deliverers_send_each_message_once(database: Database, receiver: Scripted) -> None:
    messages = [
        message
        for webhook in (add_webhook(database, receiver.url)[0], add_webhook(database, receiver.url)[0])
        for message in leave(database, webhook, 10)
    ]
    several = [deliverer(database) for _ in range(3)]
    threads = [threading.Thread(target=send_all, args=(one,)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in several:
        send_all(one)
    assert Counter(asked.headers["webhook-id"] for asked in receiver.asked) == Counter(messages)
    assert {delivery(database, message).status for message in messages} == {"delivered"}


def test_failures_are_tried_again_over_a_day_and_then_given_up(db: Database) -> None:
    with serving(answering(b"no such channel", status=500)) as server:
        webhook, _ = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        sending, began = deliverer(db), utc_now() + SECOND
        now = began
        for pause in PAUSES_S:
            assert send_all(sending, now) == 1
            row = delivery(db, message)
            assert row.status == "pending"
            waits = (row.due_at - now).total_seconds()
            assert pause * (1 - JITTER) <= waits <= pause * (1 + JITTER)
            assert send_all(sending, row.due_at - SECOND) == 0
            now = row.due_at
        assert send_all(sending, now) == 1
        assert send_all(sending, now + timedelta(days=30)) == 0
    row = delivery(db, message)
    assert (row.status, row.finished_at) == ("failed", now)
    assert timedelta(hours=21) < now - began < timedelta(hours=27)
    assert [entry["status"] for entry in row.log] == [500] * (len(PAUSES_S) + 1)
    assert {entry["error"] for entry in row.log} == {"answered 500: no such channel"}
    assert len({asked.body for asked in server.asked}) == 1
    assert {asked.headers["webhook-id"] for asked in server.asked} == {message}
    times = [int(asked.headers["webhook-timestamp"]) for asked in server.asked]
    assert times == sorted(set(times))
    assert is_enabled(db, webhook)


@given(st.integers(1, 20), st.floats(0, 1e6), st.randoms())
def test_a_receiver_can_make_a_pause_longer_and_not_shorter(attempts: int, asked_s: float, rng: random.Random) -> None:
    pause = pause_s(attempts, retry_after_s=asked_s)
    assert (pause is None) == (attempts > len(PAUSES_S))
    if pause is not None:
        assert pause >= max(asked_s, PAUSES_S[attempts - 1] * (1 - JITTER))


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("90", 90.0),
        (" 90 ", 90.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("", 0.0),
        ("٣", 0.0),
        ("9" * 400, MAX_RETRY_AFTER_S),
        (format_datetime(NOON + timedelta(minutes=3), usegmt=True), 180.0),
        (format_datetime(NOON - timedelta(minutes=3), usegmt=True), 0.0),
        (format_datetime(NOON + timedelta(days=300), usegmt=True), MAX_RETRY_AFTER_S),
        ("Sat, 21 Nov 2026 12:00:30", 30.0),
        ("Sat, 99 Nov 99999 12:00:30 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(told: str, wanted: float) -> None:
    assert retry_after({"retry-after": told}, NOON) == wanted
    assert retry_after({}, NOON) == 0.0


def test_retry_after_puts_the_next_attempt_off(db: Database) -> None:
    with serving(answering({}, status=503, Retry_After="1000")) as server:
        webhook, _ = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        now = utc_now() + SECOND
        send_all(deliverer(db), now)
    assert delivery(db, message).due_at == now + timedelta(seconds=1000)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_any_status_of_success_is_one(db: Database, status: int) -> None:
    with serving(answering(b"", status=status)) as server:
        webhook, _ = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        send_all(deliverer(db))
    assert delivery(db, message).status == "delivered"


def test_redirects_are_failures_and_lead_nowhere(db: Database, receiver: Scripted) -> None:
    with serving(answering({}, status=302, Location=receiver.url)) as server:
        webhook, _ = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        send_all(deliverer(db))
    [entry] = delivery(db, message).log
    assert (entry["status"], entry["error"]) == (302, "answered 302: redirects are not followed")
    assert receiver.asked == []


def test_gone_disables_the_webhook(database: Database) -> None:
    with serving(answering({}, status=410)) as server:
        webhook, _ = add_webhook(database, server.url)
        first, second = leave(database, webhook, 2)
        assert send_all(deliverer(database, at_once=1)) == 2
        assert len(server.asked) == 1
    assert not is_enabled(database, webhook)
    assert [delivery(database, one).status for one in (first, second)] == ["failed", "failed"]
    assert delivery(database, first).log[0]["error"] == "answered 410: the webhook is disabled"
    assert (
        delivery(database, second).log[0] | {"status": None, "error": "not sent: the webhook is disabled"}
        == (delivery(database, second).log[0])
    )


def test_an_answer_without_an_end_or_cut_short_is_still_a_success(db: Database) -> None:
    with serving(flooding, dropping) as server:
        webhook, _ = add_webhook(db, server.url)
        messages = leave(db, webhook, 2)
        send_all(deliverer(db))
    assert [delivery(db, message).status for message in messages] == ["delivered", "delivered"]


def test_of_a_long_answer_a_short_line_is_kept(db: Database) -> None:
    with serving(answering(b"\x00\x1b[31m" + b"<p>\n" * 10_000, status=400)) as server:
        webhook, _ = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        send_all(deliverer(db))
    error = delivery(db, message).log[0]["error"]
    assert error.startswith("answered 400: [31m<p> <p>")
    assert error.isprintable()
    assert len(error) <= len("answered 400: ") + REASON_CHARS


def test_a_private_address_is_never_connected_to(db: Database, receiver: Scripted) -> None:
    [message] = leave(db, add_webhook(db, f"http://hooks.example.com:{receiver.port}/")[0])
    guarded = deliverer(db, resolve=lambda host, port: ["10.0.0.7"])
    send_all(guarded)
    error = delivery(db, message).log[0]["error"]
    assert "no public address (private)" in error
    assert "10.0.0.7" not in error
    assert receiver.asked == []


def test_a_name_is_looked_up_once_for_check_and_connection(db: Database, receiver: Scripted) -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    looked_up: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return answers.pop(0)

    webhook, secret = add_webhook(db, f"http://hooks.example.com:{receiver.port}/")
    sending = deliverer(db, resolve=rebinding)
    [first] = leave(db, webhook)
    send_all(sending)
    [second] = leave(db, webhook)
    send_all(sending)
    assert looked_up == ["hooks.example.com"] * 2
    assert [asked.headers["webhook-id"] for asked in receiver.asked] == [first]
    assert verified(receiver.asked[0], secret)
    assert "no public address (link-local)" in delivery(db, second).log[0]["error"]


def test_a_deleted_webhook_takes_its_deliveries_along_while_one_is_sent(database: Database) -> None:
    hanging = Holding()
    with serving(hanging) as server:
        webhook, _ = add_webhook(database, server.url)
        leave(database, webhook, 3)
        sending = deliverer(database, at_once_per_webhook=1)
        assert sending.begin() == 1
        assert hanging.arrived.acquire(timeout=10)
        with database.write() as session:
            session.delete(session.get_one(WebhookRow, webhook))
        hanging.release()
        assert sending.settle(20)
        assert send_all(sending) == 0
    with database.read() as session:
        assert session.query(DeliveryRow).count() == 0


@pytest.mark.slow
def test_a_killed_process_costs_a_lease_and_no_message(db: Database, settings: Settings) -> None:
    program = """
from seatrial.store.database import connect
from seatrial.store.settings import get_settings
from app.webhooks.delivery import Deliverer
settings = get_settings()
sending = Deliverer(settings, connect(settings))
assert sending.begin() == 1
sending.settle(60)
"""
    hanging = Holding()
    with serving(answering({}), hanging) as server:
        webhook, secret = add_webhook(db, server.url)
        [message] = leave(db, webhook)
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "SEATRIAL_HOME": str(settings.home),
                "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS": '["127.0.0.0/8"]',
            },
            cwd=ROOT,
            preexec_fn=die_with_parent,
        )
        assert hanging.arrived.acquire(timeout=30)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert send_all(deliverer(db)) == 0
        with db.write() as session:
            # As when the lease has run out.
            session.get_one(DeliveryRow, message).lease_until = 1.0
        assert send_all(deliverer(db)) == 1
        hanging.release()
    assert len(server.asked) == 2
    assert [verified(asked, secret) for asked in server.asked] == [delivery(db, message).payload] * 2
    assert {asked.headers["webhook-id"] for asked in server.asked} == {message}
    row = delivery(db, message)
    assert (row.status, row.attempts, len(row.log)) == ("delivered", 2, 1)


def test_who_slept_through_the_lease_writes_nothing(db: Database) -> None:
    hanging = Holding()
    with serving(answering({}), hanging) as server:
        [message] = leave(db, add_webhook(db, server.url)[0])
        sleeper, other = deliverer(db, lease_s=0.5), deliverer(db)
        assert sleeper.begin() == 1
        assert hanging.arrived.acquire(timeout=10)
        eventually(lambda: other.begin() == 1)
        assert other.settle(20)
        told = delivery(db, message).log
        hanging.release()
        assert sleeper.settle(20)
    row = delivery(db, message)
    assert (row.status, row.log) == ("delivered", told)


def test_a_database_that_fails_is_survived(db: Database, receiver: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    [message] = leave(db, add_webhook(db, receiver.url)[0])
    sending = deliverer(db, lease_s=0.5)

    def fail(*_: object, **__: object) -> bool:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr("app.webhooks.repository.let_go", fail)
        assert sending.begin() == 1
        assert sending.settle(20)
    assert delivery(db, message).status == "pending"
    eventually(lambda: sending.begin() == 1)
    assert sending.settle(20)
    assert delivery(db, message).status == "delivered"
    assert len(receiver.asked) == 2


def test_deliveries_that_ended_long_ago_are_dropped(db: Database) -> None:
    webhook, _ = add_webhook(db, "https://ci.example.com/")
    ages = {"pending": 2, "delivered": 2, "failed": 2}
    kept = []
    with db.write() as session:
        for status in ages:
            for days in (1, -1):
                row = DeliveryRow(
                    id=f"dlv_{status}_{days}",
                    webhook_id=webhook,
                    event="ping",
                    payload={},
                    status=status,
                    log=[],
                    due_at=utc_now() - DELIVERY_KEPT + timedelta(days=days),
                )
                session.add(row)
                if days > 0 or status == "pending":
                    kept.append(row.id)
    sweep_old(db)
    with db.read() as session:
        assert sorted(row.id for row in session.query(DeliveryRow)) == sorted(kept)
