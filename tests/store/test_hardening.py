"""The life of a hardening in the tables, on both databases: claims, saves, leases that run out, cancel, retry."""

import time
from typing import Any

import pytest
from sqlalchemy import select

from seatrial.contracts.states import ModelState, RunState
from seatrial.store.checkpoints import announce_checkpoint, may_resume, point_at_checkpoint
from seatrial.store.claiming import charge, claim_training, claim_work
from seatrial.store.database import Database
from seatrial.store.hardening import (
    cancel_hardening,
    close_training,
    end_hardening,
    end_training,
    give_training_back,
    report_training,
    retry_hardening,
)
from seatrial.store.ids import new_id
from seatrial.store.reaping import reap
from seatrial.store.releasing import find_named
from seatrial.store.tables import (
    AuditRow,
    CheckRow,
    DatasetRow,
    DiscardRow,
    HardeningEventRow,
    HardeningRow,
    ModelRow,
    ProjectRow,
)
from seatrial.store.tables.hardenings import AUDITING
from seatrial.store.transitions import move
from seatrial.store.waiting import count_work
from tests.rows import add_audit, add_project

LONG, SHORT = 60.0, 0.05
SAVED = "sha256:" + "1" * 64


def add_hardening(db: Database, *, project: str | None = None, model_state: str = ModelState.READY, **more: Any) -> str:
    """Insert a queued hardening of a model of its own, and return its id."""
    project = project or add_project(db)
    audit_id = add_audit(db, project_id=project, model_state=model_state)
    with db.write() as session:
        audit = session.get_one(AuditRow, audit_id)
        model, dataset = audit.model_id, audit.dataset_id
        session.query(CheckRow).filter_by(audit_id=audit_id).delete()
        session.delete(session.get_one(AuditRow, audit_id))
        other = session.get_one(DatasetRow, dataset)
        assert other.project_id == project
        values: dict[str, Any] = {"method": "gaussian", "params": {"method": "gaussian"}, "seed": 0, "spec": {}}
        row = HardeningRow(
            id=new_id("hrd"),
            project_id=project,
            model_id=model,
            dataset_id=dataset,
            audited_id=dataset,
            **(values | more),
        )
        session.add(row)
        session.flush()
        return row.id


def take(db: Database, lease_s: float = LONG) -> tuple[str, str]:
    """Claim a training that must be there."""
    with db.write() as session:
        claimed = claim_training(session, lease_s=lease_s, worker="w")
    assert claimed is not None
    return claimed


def read(db: Database, hardening_id: str) -> HardeningRow:
    with db.read() as session:
        return session.get_one(HardeningRow, hardening_id)


def save(db: Database, claimed: tuple[str, str], digest: str = SAVED) -> bool:
    with db.write() as session:
        announce_checkpoint(session, digest)
    with db.write() as session:
        return point_at_checkpoint(session, *claimed, digest, 7, table=HardeningRow)


def events(db: Database, hardening_id: str) -> list[tuple[int, str, str]]:
    query = select(HardeningEventRow).where(HardeningEventRow.hardening_id == hardening_id)
    with db.read() as session:
        rows = session.scalars(query.order_by(HardeningEventRow.seq)).all()
    return [(row.seq, row.kind, str(row.data.get("state", row.data.get("step")))) for row in rows]


def test_a_training_is_claimed_once_and_its_lost_claim_writes_nothing(database: Database) -> None:
    hardening = add_hardening(database)
    with database.write() as session:
        assert count_work(session) == 1
        table, row_id, token = claim_work(session, lease_s=SHORT, worker="a") or pytest.fail("nothing to claim")
        assert (table, row_id) == (HardeningRow, hardening)
        assert claim_work(session, lease_s=SHORT, worker="b") is None
    first = (row_id, token)
    assert save(database, first)
    time.sleep(2 * SHORT)
    assert reap(database, max_attempts=3) == 1
    second = take(database)
    with database.write() as session:
        lost: dict[str, Any] = {"progress": {"step": 1}, "curves": []}
        assert not report_training(session, first[0], first[1], **lost, lease_s=LONG)
        assert not close_training(session, *first, outcome={})
        assert not end_training(session, *first, RunState.FAILED)
        assert not give_training_back(session, *first, counts=True)
        assert not point_at_checkpoint(session, *first, SAVED, 7, table=HardeningRow)
        assert report_training(session, second[0], second[1], **lost, lease_s=LONG)
    row = read(database, hardening)
    assert (row.state, row.attempts, row.saved_digest) == (RunState.RUNNING, 2, SAVED)
    # The second attempt begins where the first had saved; were it to end alike, the third would begin anew.
    assert may_resume(row)
    with database.write() as session:
        assert close_training(session, *second, outcome={"digest": "d"})
    row = read(database, hardening)
    assert (row.state, row.stage, row.token, row.saved_digest) == (RunState.RUNNING, "auditing", None, None)
    with database.read() as session:
        assert session.scalar(select(DiscardRow.digest)) == SAVED
    assert [seq for seq, *_ in events(database, hardening)] == [1, 2, 3]


def test_what_kills_every_worker_fails_with_its_reason(database: Database) -> None:
    hardening = add_hardening(database)
    for attempt in range(2):
        save(database, take(database, SHORT), f"sha256:{attempt:064}")
        time.sleep(2 * SHORT)
        reap(database, max_attempts=2)
    row = read(database, hardening)
    assert (row.state, row.saved_digest) == (RunState.FAILED, None)
    assert row.error is not None
    assert row.error["code"] == "worker-died"
    with database.write() as session:
        assert retry_hardening(session, hardening)
        assert not retry_hardening(session, hardening)
    row = read(database, hardening)
    assert (row.state, row.attempts, row.error, row.finished_at) == (RunState.QUEUED, 0, None, None)


def test_a_worker_that_stops_or_waits_for_its_machine_costs_no_attempt(database: Database) -> None:
    hardening = add_hardening(database)
    claimed = take(database)
    assert save(database, claimed)
    with database.write() as session:
        assert give_training_back(session, *claimed, counts=False)
    claimed = take(database)
    with database.write() as session:
        assert give_training_back(session, *claimed, counts=False, put_off_s=LONG)
        assert claim_training(session, lease_s=LONG, worker="w") is None
    row = read(database, hardening)
    assert (row.state, row.attempts, row.deferrals, row.saved_digest) == (RunState.QUEUED, 0, 1, SAVED)


def test_cancelling_ends_what_waits_and_asks_what_trains(database: Database) -> None:
    waiting = add_hardening(database)
    with database.write() as session:
        assert cancel_hardening(session, waiting)
        assert not cancel_hardening(session, waiting)
    assert read(database, waiting).state == RunState.CANCELLED
    running = add_hardening(database)
    claimed = take(database, SHORT)
    save(database, claimed)
    with database.write() as session:
        assert cancel_hardening(session, running)
        assert cancel_hardening(session, running)
        assert not close_training(session, *claimed, outcome={})
    assert read(database, running).state == RunState.CANCELLING
    # Its worker died before it could say so.
    time.sleep(2 * SHORT)
    reap(database, max_attempts=3)
    row = read(database, running)
    assert (row.state, row.saved_digest) == (RunState.CANCELLED, None)
    assert [state for *_, state in events(database, running)] == ["cancelling", "cancelled"]


def test_cancelling_while_it_is_audited_cancels_both_audits_and_a_retry_keeps_the_training(
    database: Database,
) -> None:
    project = add_project(database)
    audits = [add_audit(database, project_id=project) for _ in range(2)]
    pair = {"audit_before": audits[0], "audit_after": audits[1]}
    hardening = add_hardening(database, project=project, **pair)
    with database.write() as session:
        assert close_training(session, *(claim_training(session, lease_s=LONG, worker="w") or ("", "")), outcome={})
        assert end_hardening(session, hardening, RunState.FAILED, error={"code": "c"})
        assert retry_hardening(session, hardening)
    row = read(database, hardening)
    assert (row.state, row.stage, row.audit_before) == (RunState.RUNNING, "auditing", audits[0])
    with database.write() as session:
        assert cancel_hardening(session, hardening)
    assert read(database, hardening).state == RunState.CANCELLED
    with database.read() as session:
        states = session.scalars(select(AuditRow.state).where(AuditRow.id.in_(audits))).all()
    assert set(states) == {RunState.CANCELLED}


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.FAILED, RunState.SUCCEEDED, RunState.CANCELLED])
def test_what_was_trained_is_kept_for_a_retry(database: Database, state: RunState) -> None:
    trained = {"digest": "d" * 64, "weights_digest": "e" * 64, "notes": []}
    hardening = add_hardening(database, state=state, stage=AUDITING, outcome=trained)
    files = {trained["digest"], trained["weights_digest"]}
    with database.write() as session:
        named, is_over = find_named(session, files), state in (RunState.SUCCEEDED, RunState.CANCELLED)
        assert named == (set() if is_over else files)
        assert retry_hardening(session, hardening) == (state == RunState.FAILED)


def test_a_training_waits_for_its_model_and_is_charged_to_its_project(database: Database) -> None:
    hardening = add_hardening(database, model_state=ModelState.CHECKING)
    with database.write() as session:
        assert claim_training(session, lease_s=LONG, worker="w") is None
        move(session, ModelRow, ModelState.READY)
    row_id, _ = take(database)
    assert row_id == hardening
    with database.write() as session:
        charge(session, HardeningRow, hardening, 11.0)
        assert session.scalar(select(ProjectRow.turn).where(ProjectRow.turn > 0)) == 10.0


def test_the_older_of_training_and_audit_comes_first(database: Database) -> None:
    project = add_project(database)
    first = add_hardening(database, project=project)
    add_audit(database, project_id=project)
    second = add_hardening(database, project=project)
    with database.write() as session:
        taken = [claim_work(session, lease_s=LONG, worker="w") for _ in range(3)]
    assert [one and one[0] for one in taken] == [HardeningRow, CheckRow, HardeningRow]
    assert [one[1] for one in (taken[0], taken[2]) if one] == [first, second]
