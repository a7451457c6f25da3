"""Slow receivers run out of time and hold up nobody else."""

import threading

import pytest

from app.webhooks.delivery import AT_ONCE, AT_ONCE_PER_PROJECT, Deliverer
from seatrial.store.database import Database
from tests.rows import add_project
from tests.scripted import Scripted, dripping, serving
from tests.servers import eventually, free_port
from tests.webhooks.hooks import Holding, add_webhook, deliverer, delivery, leave, send_all


def test_slow_receivers_run_out_of_time_and_dead_ones_refuse(db: Database) -> None:
    with serving(dripping) as server:
        slow = leave(db, add_webhook(db, server.url)[0])[0]
        dead = leave(db, add_webhook(db, f"http://127.0.0.1:{free_port()}/")[0])[0]
        send_all(deliverer(db, timeout_s=0.3))
    [entry] = delivery(db, slow).log
    assert (entry["status"], entry["error"]) == (None, "no whole answer within 0.3 s")
    assert entry["ms"] >= 250
    assert "accepts no connection" in delivery(db, dead).log[0]["error"]
    assert {delivery(db, one).status for one in (slow, dead)} == {"pending"}


def test_a_receiver_that_hangs_holds_up_nobody_else(db: Database, receiver: Scripted) -> None:
    hanging = Holding()
    with serving(hanging) as server:
        stuck = leave(db, add_webhook(db, server.url)[0], 6)
        others = leave(db, add_webhook(db, receiver.url)[0], 4)
        sending = deliverer(db, at_once=4, at_once_per_webhook=2)
        assert sending.begin() >= 4
        eventually(lambda: sending.begin() == 0 and {delivery(db, one).status for one in others} == {"delivered"})
        assert len(server.asked) == 2
        assert {delivery(db, one).status for one in stuck} == {"pending"}
        assert not sending.settle(0.01)
        hanging.release()
        assert sending.settle(20)
        send_all(sending)
    assert {delivery(db, one).status for one in stuck} == {"delivered"}


@pytest.mark.slow
def test_slow_receivers_of_one_project_leave_room_for_others(db: Database, receiver: Scripted) -> None:
    hanging = Holding()
    slow, other = add_project(db), add_project(db)
    with serving(hanging) as server:
        stuck = [leave(db, add_webhook(db, server.url, project_id=slow)[0], 2) for _ in range(AT_ONCE)]
        sending = deliverer(db)
        assert sending.begin() == AT_ONCE_PER_PROJECT
        # Due for less long than everything of the other project.
        messages = leave(db, add_webhook(db, receiver.url, project_id=other)[0], 3)
        assert send_others(sending, db, messages)
        assert len(server.asked) == AT_ONCE_PER_PROJECT
        hanging.release()
        assert sending.settle(20)
        send_all(sending)
    assert {delivery(db, one).status for pair in stuck for one in pair} == {"delivered"}


def send_others(sending: Deliverer, db: Database, messages: list[str]) -> bool:
    def are_delivered() -> bool:
        sending.begin()
        return all(delivery(db, one).status == "delivered" for one in messages)

    eventually(are_delivered)
    return True


def test_a_free_place_is_for_the_project_with_the_fewest(db: Database) -> None:
    hanging = Holding()
    crowd, other = add_project(db), add_project(db)
    with serving(hanging) as server:
        for _ in range(6):
            leave(db, add_webhook(db, server.url, project_id=crowd)[0])
        late = leave(db, add_webhook(db, f"{server.url}/late", project_id=other)[0])
        assert deliverer(db, at_once=2).begin() == 2
        for _ in range(2):
            assert hanging.arrived.acquire(timeout=10)
        assert sorted(asked.path for asked in server.asked) == ["/classify", "/classify/late"]
        hanging.release()
    eventually(lambda: delivery(db, late[0]).status == "delivered")


def test_an_attempt_has_one_deadline_with_the_look_up_in_it(db: Database, receiver: Scripted) -> None:
    released, ended = threading.Event(), threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        released.wait(60)
        ended.set()
        return ["127.0.0.1"]

    [message] = leave(db, add_webhook(db, f"http://hooks.example.com:{receiver.port}/")[0])
    send_all(deliverer(db, resolve=resolve, timeout_s=0.2))
    assert not ended.is_set()
    assert delivery(db, message).log[0]["error"] == "no whole answer within 0.2 s"
    released.set()
    assert ended.wait(30)
