"""What is announced is announced with what happened or not at all, on both databases."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import select

from app.webhooks import repository
from seatrial.contracts.states import RunState
from seatrial.contracts.webhooks import WebhookMessage
from seatrial.store.claiming import claim_check
from seatrial.store.database import Database
from seatrial.store.lifecycle import cancel_audit, close_check, open_stage
from seatrial.store.outbox import announce
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, DeliveryRow
from tests.rows import add_audit, add_project
from tests.servers import ROOT, die_with_parent
from tests.webhooks.hooks import add_webhook

URL = "https://ci.example.com/hook"


def take_check(db: Database) -> tuple[str, str]:
    """Claim the check that waits."""
    with db.write() as session:
        claimed = claim_check(session, lease_s=60.0, worker="w")
    assert claimed is not None
    return claimed


def start_audit(db: Database, project_id: str) -> str:
    """Store an audit whose one check runs and has nothing left to do; return its id."""
    audit_id = add_audit(db, project_id=project_id)
    claimed = take_check(db)
    with db.write() as session:
        assert open_stage(session, *claimed, name="attack", source="sample", examples=0, shards=[])
    return audit_id


def end_audit(db: Database, state: RunState = RunState.SUCCEEDED) -> None:
    """End the check that waits, and its audit with it."""
    claimed = take_check(db)
    with db.write() as session:
        assert close_check(session, *claimed, state)


def left(db: Database) -> Sequence[DeliveryRow]:
    with db.read() as session:
        return session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)).all()


def state_of(db: Database, audit_id: str) -> str:
    with db.read() as session:
        return session.get_one(AuditRow, audit_id).state


@pytest.mark.slow
def test_an_audit_that_ends_tells_those_who_listen(database: Database) -> None:
    project, other = add_project(database), add_project(database)
    listening = [
        add_webhook(database, URL, project_id=project)[0],
        add_webhook(database, URL, project_id=project, events=["audit.failed", "audit.judged"])[0],
    ]
    for silent in ({"events": ["audit.succeeded"]}, {"is_enabled": False}, {"project_id": other}):
        add_webhook(database, URL, **{"project_id": project, **silent})
    audit_id = start_audit(database, project)
    end_audit(database, RunState.FAILED)
    rows = left(database)
    assert [row.webhook_id for row in rows] == listening
    assert {row.status for row in rows} == {"pending"}
    with database.read() as session:
        audit = session.get_one(AuditRow, audit_id)
    for row in rows:
        message = WebhookMessage.model_validate(row.payload)
        assert message.type == row.event == "audit.failed"
        assert abs((message.timestamp - audit.finished_at).total_seconds()) < 60
        assert message.data == {
            "audit": audit_id,
            "state": "failed",
            "verdict": None,
            "model": audit.model_id,
            "dataset": audit.dataset_id,
        }


def test_every_end_has_its_event(db: Database) -> None:
    project = add_project(db)
    add_webhook(db, URL, project_id=project)
    start_audit(db, project)
    end_audit(db)
    cancelled = add_audit(db, project_id=project)
    with db.write() as session:
        assert cancel_audit(session, cancelled)
    with db.write() as session:
        announce(session, cancelled, "audit.judged", {"verdict": "errored", "policy": "release"})
    rows = left(db)
    assert [row.event for row in rows] == ["audit.succeeded", "audit.cancelled", "audit.judged"]
    assert rows[2].payload["data"] | {"verdict": "errored", "policy": "release"} == rows[2].payload["data"]


def test_what_is_undone_is_not_told(db: Database) -> None:
    project = add_project(db)
    add_webhook(db, URL, project_id=project)
    audit_id = start_audit(db, project)
    claimed = take_check(db)

    def fail_at_the_end() -> None:
        with db.write() as session:
            assert close_check(session, *claimed, RunState.SUCCEEDED)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail_at_the_end()
    assert (state_of(db, audit_id), left(db)) == ("running", [])
    with db.write() as session:
        assert close_check(session, *claimed, RunState.SUCCEEDED)
    assert (state_of(db, audit_id), len(left(db))) == ("succeeded", 1)


@pytest.mark.slow
def test_a_process_killed_in_between_neither_loses_nor_invents_an_event(db: Database, settings: Settings) -> None:
    project = add_project(db)
    add_webhook(db, URL, project_id=project)
    audit_id = start_audit(db, project)
    program = """
import sys, time
from seatrial.contracts.states import RunState
from seatrial.store.claiming import claim_check
from seatrial.store.database import connect
from seatrial.store.lifecycle import close_check
from seatrial.store.settings import get_settings
with connect(get_settings()).write() as session:
    assert close_check(session, *claim_check(session, lease_s=60.0, worker="w"), RunState.SUCCEEDED)
    print("told", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "SEATRIAL_HOME": str(settings.home)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"told\n"
        process.send_signal(signal.SIGKILL)
    assert (state_of(db, audit_id), left(db)) == ("running", [])
    end_audit(db)
    assert (state_of(db, audit_id), len(left(db))) == ("succeeded", 1)


def test_a_webhook_deleted_at_the_same_time_does_not_undo_the_end(database: Database) -> None:
    project = add_project(database)
    webhook, _ = add_webhook(database, URL, project_id=project)
    audit_id = start_audit(database, project)
    claimed = take_check(database)

    def delete() -> None:
        with database.write() as session:
            assert repository.find(session, project, webhook, for_update=True) is not None
            repository.remove(session, webhook)

    deleting = threading.Thread(target=delete)
    with database.write() as session:
        assert close_check(session, *claimed, RunState.SUCCEEDED)
        deleting.start()
        # The deletion waits for the message to be in.
        deleting.join(0.3)
        assert deleting.is_alive()
    deleting.join(10)
    assert (state_of(database, audit_id), left(database)) == ("succeeded", [])


def test_who_is_being_deleted_is_not_told(database: Database) -> None:
    project = add_project(database)
    webhook, _ = add_webhook(database, URL, project_id=project)
    audit_id = start_audit(database, project)
    ending = threading.Thread(target=end_audit, args=(database,))
    with database.write() as session:
        repository.remove(session, webhook)
        ending.start()
        ending.join(0.3)
    ending.join(10)
    assert (state_of(database, audit_id), left(database)) == ("succeeded", [])


def test_who_wants_bad_news_only_is_told_of_every_verdict_but_a_pass(db: Database) -> None:
    project_id = add_project(db)
    add_webhook(db, URL, project_id=project_id, events=["audit.not_passed"])
    audit_id = start_audit(db, project_id)
    for verdict in ("passed", "failed", "inconclusive", "errored"):
        with db.write() as session:
            announce(session, audit_id, "audit.judged", {"verdict": verdict})
            announce(session, audit_id, "audit.succeeded")
    assert [one.payload["data"]["verdict"] for one in left(db)] == ["failed", "inconclusive", "errored"]
