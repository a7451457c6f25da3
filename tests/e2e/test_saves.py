"""Long shards go on where they were: real workers killed, frozen, stopped and cancelled, on both set-ups."""

import io
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from seatrial.store.tables import DiscardRow, ShardRow
from tests.e2e.deployment import LEASE_S, Deployment, on_both
from tests.e2e.stepping_worker import LOG, STEPS
from tests.servers import Process, eventually
from tests.stepping import play, saves_in, steps_run
from workers.runtime.seeds import derive_seed

pytestmark = pytest.mark.slow


def log_of(deployment: Deployment) -> Path:
    return deployment.home / "steps.log"


def add_worker(deployment: Deployment) -> Process:
    deployment.environment[LOG] = str(log_of(deployment))
    # The game writes its log, where no model could.
    deployment.environment["SEATRIAL_CONFINE"] = "false"
    return deployment.add_worker(module="tests.e2e.stepping_worker")


def begin(deployment: Deployment, *, until: int = 5) -> tuple[str, Process]:
    """Submit a game of one shard; return it and its worker once so many steps were run."""
    model, dataset = deployment.upload()
    worker = add_worker(deployment)
    audit_id = deployment.submit(model, dataset, shards=1)
    reach(deployment, until)
    return audit_id, worker


def steps_of(deployment: Deployment) -> list[tuple[int, int]]:
    return [(pid, step) for pid, _, step in steps_run(log_of(deployment))]


def reach(deployment: Deployment, count: int) -> None:
    eventually(lambda: len(steps_of(deployment)) >= count, timeout_s=90, every_s=0.01)


def freeze(deployment: Deployment, worker: Process) -> None:
    """Stop a process as it is, though not while it keeps the whole database waiting."""
    while True:
        worker.signal(signal.SIGSTOP)
        deployment.settle(0.05)
        try:
            if deployment.is_distributed:
                with deployment.database.write() as session:
                    session.scalars(select(ShardRow.id).with_for_update(nowait=True)).all()
            else:
                with closing(sqlite3.connect(deployment.home / "seatrial.db", timeout=0.2)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
        except (OperationalError, sqlite3.OperationalError):
            worker.signal(signal.SIGCONT)
            deployment.settle(0.05)
        else:
            return


def end(deployment: Deployment, audit_id: str) -> list[float]:
    """Wait for a good end and return the game's last state."""
    assert deployment.wait(audit_id)["state"] == "succeeded"
    return list(pq.read_table(io.BytesIO(deployment.records(audit_id)))["state"][0].as_py())


def undisturbed() -> list[float]:
    generator = torch.Generator().manual_seed(derive_seed(7, "uncertainty_span", "game", 0))
    state = torch.zeros(3, dtype=torch.float64)
    for _ in range(STEPS):
        state = play(state, generator)
    return list(state.tolist())


def no_save_is_left(deployment: Deployment) -> bool:
    # A worker killed between announcing a file and naming it leaves one that is deleted in an hour: let it be over.
    with deployment.database.write() as session:
        session.execute(update(DiscardRow).values(due_at=0.0))
    eventually(lambda: not saves_in(deployment.home / "artifacts"), timeout_s=15)
    return True


@on_both("distributed")
def test_a_killed_worker_costs_the_step_in_its_hands(deployment: Deployment) -> None:
    audit_id, killed = begin(deployment)
    killed.signal(signal.SIGKILL)
    killed.wait()
    before = len(steps_of(deployment))
    assert len(saves_in(deployment.home / "artifacts")) in (1, 2)
    add_worker(deployment)
    assert end(deployment, audit_id) == undisturbed()
    steps = [step for _, step in steps_of(deployment)]
    # At most the step that was run and not yet saved is run again.
    assert steps[:before] == list(range(1, before + 1))
    assert steps[before:] in (list(range(before + 1, STEPS + 1)), list(range(before, STEPS + 1)))
    assert [shard.attempts for shard in deployment.shards(audit_id)] == [2]
    assert no_save_is_left(deployment)


@pytest.mark.drill
@on_both("distributed")
def test_a_worker_asked_to_stop_loses_no_step(deployment: Deployment) -> None:
    audit_id, stopped = begin(deployment)
    stopped.signal(signal.SIGTERM)
    stopped.wait()
    assert len(saves_in(deployment.home / "artifacts")) == 1
    add_worker(deployment)
    assert end(deployment, audit_id) == undisturbed()
    assert [step for _, step in steps_of(deployment)] == list(range(1, STEPS + 1))
    assert [shard.attempts for shard in deployment.shards(audit_id)] == [1]
    assert no_save_is_left(deployment)


@pytest.mark.drill
@on_both("embedded")
def test_a_frozen_worker_wakes_up_and_saves_nothing(deployment: Deployment) -> None:
    audit_id, frozen = begin(deployment)
    freeze(deployment, frozen)
    # What runs its models is not frozen: it waits for an answer when it saves.
    theirs = {pid for pid, _ in steps_of(deployment)}
    before = len(steps_of(deployment))
    add_worker(deployment)
    time.sleep(LEASE_S)
    reach(deployment, before + 3)
    frozen.signal(signal.SIGCONT)
    assert end(deployment, audit_id) == undisturbed()
    others = [step for pid, step in steps_of(deployment) if pid not in theirs]
    assert others in (list(range(before, STEPS + 1)), list(range(before + 1, STEPS + 1)))
    # Awake, it ends the step in its hands at most.
    assert len(steps_of(deployment)) - len(others) <= before + 1
    assert frozen.is_running()
    assert no_save_is_left(deployment)


@on_both("embedded")
def test_cancel_deletes_what_was_saved(deployment: Deployment) -> None:
    audit_id, _ = begin(deployment)
    assert saves_in(deployment.home / "artifacts")
    assert deployment.client.post(f"/v1/audits/{audit_id}/cancel").status_code == 202
    assert deployment.wait(audit_id)["state"] == "cancelled"
    assert len(steps_of(deployment)) < STEPS
    assert no_save_is_left(deployment)


@pytest.mark.drill
@on_both("distributed")
def test_what_waits_with_a_save_is_cancelled_without_a_trace(deployment: Deployment) -> None:
    audit_id, stopped = begin(deployment)
    stopped.signal(signal.SIGTERM)
    stopped.wait()
    assert deployment.client.post(f"/v1/audits/{audit_id}/cancel").status_code == 202
    assert deployment.wait(audit_id)["state"] == "cancelled"
    # No worker was there to delete it; the next one does, though there is nothing to work on.
    assert len(saves_in(deployment.home / "artifacts")) == 1
    add_worker(deployment)
    assert no_save_is_left(deployment)
