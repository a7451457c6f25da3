"""Jobs do not get lost: real workers killed, frozen, doubled and cancelled, on both set-ups."""

import signal
import time
from pathlib import Path

import pytest

from seatrial.contracts.states import RunState
from seatrial.families.uncertainty_span.effort import CROSSING, DISPLACED, INTEGRATED, STAGES, TRANSFORMED
from seatrial.store.queue import WakeupNotifier
from tests.e2e.deployment import LEASE_S, Deployment, on_both
from tests.servers import Postgres, Valkey, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Run the audit with nothing in its way, in one shard, and return its records: whichever set-up, the same."""
    with Deployment(tmp_path_factory.mktemp("undisturbed")) as deployment:
        deployment.add_worker()
        audit_id = deployment.submit(*deployment.upload(), shards=1)
        assert deployment.wait(audit_id)["state"] == "succeeded"
        return deployment.records(audit_id)


@on_both("embedded")
def test_a_killed_worker_costs_one_shard_and_no_number(deployment: Deployment, undisturbed: bytes) -> None:
    model, dataset = deployment.upload()
    worker = deployment.add_unhurried_worker()
    audit_id = deployment.submit(model, dataset)
    deployment.until_shard(audit_id, lambda shards: any(s.state == "running" for s in shards[1:]))
    worker.signal(signal.SIGKILL)
    worker.wait()
    deployment.add_unhurried_worker()
    assert deployment.wait(audit_id)["state"] == "succeeded"
    # Exactly the shard in hand was begun twice.
    assert sorted(shard.attempts for shard in deployment.shards(audit_id)) == [1] * 4 + [2]
    assert deployment.records(audit_id) == undisturbed


@on_both("embedded")
def test_neither_shards_nor_workers_change_a_record(deployment: Deployment, undisturbed: bytes) -> None:
    model, dataset = deployment.upload()
    deployment.add_unhurried_worker()
    deployment.add_unhurried_worker()
    pair = deployment.submit(model, dataset, shards=5)
    assert deployment.wait(pair)["state"] == "succeeded"
    assert len({shard.worker for shard in deployment.shards(pair)}) == 2
    assert deployment.records(pair) == undisturbed


@pytest.mark.drill
@on_both("embedded")
def test_neither_shards_nor_kills_change_a_record_of_the_further_attacks(deployment: Deployment) -> None:
    model, dataset = deployment.upload()
    worker = deployment.add_worker()
    params = {"steps": 30, "effort": "standard"}
    whole = deployment.submit(model, dataset, shards=1, params=params)
    assert deployment.wait(whole)["state"] == "succeeded"
    cut = deployment.submit(model, dataset, params=params)
    deployment.until_shard(cut, lambda shards: any(s.state == "running" for s in shards), stage="surrogate")
    worker.signal(signal.SIGKILL)
    worker.wait()
    deployment.add_worker()
    assert deployment.wait(cut)["state"] == "succeeded"
    for stage in ("surrogate", *STAGES, CROSSING, TRANSFORMED, INTEGRATED, DISPLACED):
        assert deployment.records(cut, stage) == deployment.records(whole, stage), stage


@on_both("distributed")
def test_a_frozen_worker_wakes_up_and_writes_nothing(deployment: Deployment, undisturbed: bytes) -> None:
    model, dataset = deployment.upload()
    frozen = deployment.add_unhurried_worker()
    audit_id = deployment.submit(model, dataset)
    deployment.until_shard(audit_id, lambda shards: any(s.state == "running" for s in shards[1:]))
    frozen.signal(signal.SIGSTOP)
    deployment.add_unhurried_worker()
    time.sleep(LEASE_S)
    assert deployment.wait(audit_id)["state"] == "succeeded"
    before = [(s.id, s.token, s.records_digest, s.finished_at, s.worker) for s in deployment.shards(audit_id)]
    history = [(event.seq, event.data) for event in deployment.events(audit_id)]
    frozen.signal(signal.SIGCONT)
    deployment.settle(2.0)
    assert frozen.is_running()
    assert [(s.id, s.token, s.records_digest, s.finished_at, s.worker) for s in deployment.shards(audit_id)] == before
    assert [(event.seq, event.data) for event in deployment.events(audit_id)] == history
    assert deployment.records(audit_id) == undisturbed


@on_both("embedded")
def test_a_worker_asked_to_stop_gives_its_shard_back(deployment: Deployment) -> None:
    model, dataset = deployment.upload()
    worker = deployment.add_unhurried_worker()
    audit_id = deployment.submit(model, dataset, params={"steps": 2000})
    deployment.until_shard(audit_id, lambda shards: any(s.state == "running" for s in shards))
    worker.signal(signal.SIGTERM)
    worker.wait(15)
    shards = deployment.shards(audit_id)
    assert {shard.state for shard in shards} <= {"queued", "succeeded"}
    assert all(shard.attempts == 0 for shard in shards if shard.state == "queued")


@on_both("distributed")
def test_cancel_stops_within_a_batch(deployment: Deployment) -> None:
    model, dataset = deployment.upload()
    deployment.add_unhurried_worker()
    # One shard of five batches of several seconds each.
    audit_id = deployment.submit(model, dataset, shards=1, params={"steps": 3000})
    deployment.until_shard(audit_id, lambda shards: shards[0].state == "running")
    assert deployment.client.post(f"/v1/audits/{audit_id}/cancel").status_code == 202
    began = time.monotonic()
    ended = deployment.wait(audit_id, timeout_s=15)
    assert ended["state"] == "cancelled"
    assert ended["checks"][0]["state"] == "cancelled"
    assert time.monotonic() - began < 10
    assert deployment.shards(audit_id)[0].done <= 10


def test_what_kills_its_worker_three_times_fails_with_its_reason(embedded: Deployment) -> None:
    model, dataset = embedded.upload()
    audit_id = embedded.submit(model, dataset, shards=1, params={"steps": 3000})
    for attempt in (1, 2, 3):
        worker = embedded.add_unhurried_worker()
        embedded.until_shard(
            audit_id, lambda shards, n=attempt: shards[0].state == "running" and shards[0].attempts == n
        )
        worker.signal(signal.SIGKILL)
        worker.wait()
    embedded.add_unhurried_worker()
    ended = embedded.wait(audit_id)
    assert ended["state"] == "failed"
    assert ended["checks"][0]["error"]["code"] == "worker-died"
    # A retry gives it another three attempts.
    assert embedded.client.post(f"/v1/audits/{audit_id}/retry").status_code == 202
    embedded.until_shard(audit_id, lambda shards: shards[0].state == "running")
    assert embedded.shards(audit_id)[0].attempts == 1
    embedded.client.post(f"/v1/audits/{audit_id}/cancel")


@pytest.mark.drill
def test_one_failing_check_does_not_lose_the_other(embedded: Deployment) -> None:
    model, dataset = embedded.upload()
    other, _ = embedded.upload(scale=1.5, name="other")
    embedded.add_worker()
    eventually(lambda: embedded.client.get(f"/v1/models/{other}").json()["state"] == "ready")
    # The second model's bytes rot under a running service. Gone, they would be waited for.
    digest = embedded.client.get(f"/v1/models/{other}").json()["digest"]
    for process in embedded.processes:
        process.stop()
    next(embedded.home.joinpath("artifacts").rglob(digest.removeprefix("sha256:"))).write_bytes(b"rotten")
    embedded.add_worker()
    good = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 20}
    audit_id = embedded.submit(model, dataset, checks=[{**good, "transfer_model": other}, good])
    ended = embedded.wait(audit_id)
    assert ended["state"] == "failed"
    bad, fine = ended["checks"]
    assert bad["state"] == "failed"
    assert bad["error"]["code"] == "artifact-damaged"
    assert fine["state"] == "succeeded"
    assert fine["result"]["estimates"]["mus"]["value"] > 0


def test_a_message_delivered_twice_does_the_work_once(distributed: Deployment, undisturbed: bytes) -> None:
    model, dataset = distributed.upload()
    distributed.add_unhurried_worker()
    distributed.add_unhurried_worker()
    audit_id = distributed.submit(model, dataset)
    notifier = WakeupNotifier(distributed.settings)
    for _ in range(10):
        notifier.notify()
    assert distributed.wait(audit_id)["state"] == "succeeded"
    assert [shard.attempts for shard in distributed.shards(audit_id)] == [1] * 5
    ends = [event for event in distributed.events(audit_id) if event.data.get("state") == RunState.SUCCEEDED]
    assert len(ends) == 2  # the check's and the audit's
    assert distributed.records(audit_id) == undisturbed


def test_a_broker_killed_and_restarted_loses_nothing(distributed_on_valkey: Deployment, valkey: Valkey) -> None:
    distributed = distributed_on_valkey
    model, dataset = distributed.upload()
    distributed.add_unhurried_worker()
    busy = distributed.submit(model, dataset)
    distributed.until_shard(busy, lambda shards: any(s.state == "running" for s in shards))
    valkey.stop()
    # Submitted while no broker answers: accepted, stored, and found when the bell rings again.
    meanwhile = distributed.submit(model, dataset, params={"steps": 20})
    assert distributed.wait(busy)["state"] == "succeeded"
    valkey.start()
    assert distributed.wait(meanwhile)["state"] == "succeeded"
    # And idle: killed, restarted, then new work.
    valkey.stop()
    valkey.start()
    later = distributed.submit(model, dataset, params={"bins": 13})
    assert distributed.wait(later)["state"] == "succeeded"
    assert distributed.records(busy) == distributed.records(later)


def test_a_database_that_goes_away_for_a_while_costs_nothing(
    valkey: Valkey, tmp_path: Path, undisturbed: bytes
) -> None:
    try:
        server = Postgres()
    except Exception as error:  # the fixture of the other tests says so loudly
        pytest.skip(f"no Postgres of our own to stop: {error!r}")
    try:
        home = tmp_path / "home"
        home.mkdir()
        with Deployment(home, database_url=server.url("postgres"), broker_url=valkey.url) as deployment:
            model, dataset = deployment.upload()
            deployment.add_unhurried_worker()
            audit_id = deployment.submit(model, dataset)
            deployment.until_shard(audit_id, lambda shards: any(s.state == "running" for s in shards[1:]))
            server.stop()
            deployment.settle(LEASE_S / 2)
            assert deployment.client.get(f"/v1/audits/{audit_id}").status_code == 503
            assert deployment.client.get("/readyz").status_code == 503
            server.start()
            assert deployment.wait(audit_id)["state"] == "succeeded"
            assert deployment.records(audit_id) == undisturbed
    finally:
        server.remove()
