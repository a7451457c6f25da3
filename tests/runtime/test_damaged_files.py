"""A stored file that is not what it was gives no number: it fails by name, and its true bytes mend it."""

from pathlib import Path

import pytest
from sqlalchemy import update

from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import LocalStore
from seatrial.store.database import Database
from seatrial.store.integrity import find_damage
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from tests import assets
from tests.runtime.bench import AuditBench, flip_bits
from workers.runtime import checking
from workers.runtime.sandboxed import SandboxedExecutor
from workers.runtime.worker import Worker


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


@pytest.fixture
def bench(db: Database, settings: Settings) -> AuditBench:
    return AuditBench(db, settings)


@pytest.mark.parametrize("which", ["model", "dataset"])
def test_three_flipped_bits_of_an_upload_give_no_number(bench: AuditBench, which: str) -> None:
    uploaded = bench.model if which == "model" else bench.dataset
    flip_bits(bench.stored(uploaded.digest), 3)
    audit_id = bench.submit()
    bench.worker().drain()
    check = bench.check(audit_id)
    assert (bench.audit(audit_id).state, check.result) == ("failed", None)
    assert check.error is not None
    assert check.error["code"] == "artifact-damaged"
    assert uploaded.digest in check.error["detail"]
    # Not tried three times: the next attempt would find the same bytes.
    assert {shard.attempts for shard in bench.shards(audit_id)} == {1}


@pytest.mark.slow
def test_a_child_process_is_given_no_damaged_file(bench: AuditBench, settings: Settings) -> None:
    flip_bits(bench.stored(bench.model.digest), 3)
    audit_id = bench.submit()
    store = LocalStore(bench.root)
    worker = Worker(bench.db, store, settings, executor=SandboxedExecutor(store, settings))
    try:
        worker.drain()
    finally:
        worker.leave()
    assert (bench.check(audit_id).error or {})["code"] == "artifact-damaged"


def test_no_single_flip_in_a_file_of_records_reaches_a_result(bench: AuditBench) -> None:
    audit_id = bench.submit()
    worker = bench.worker()
    while not all(shard.state == "succeeded" for shard in bench.shards(audit_id)) or len(bench.shards(audit_id)) < 3:
        assert worker.step()
    records = bench.stored(bench.shards(audit_id)[-1].records_digest)
    whole = records.read_bytes()
    for n in range(40):
        data = bytearray(whole)
        data[len(data) * n // 40] ^= 1 << n % 8
        records.write_bytes(bytes(data))
        assert [one.digest for one in find_damage(bench.db, bench.store)] == [f"sha256:{records.name}"]
    worker.drain()
    check = bench.check(audit_id)
    assert (check.state, check.result) == ("failed", None)
    assert (check.error or {})["code"] == "artifact-damaged"


def test_a_model_in_its_check_waits_for_its_true_bytes(bench: AuditBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "put_off_s", lambda deferrals: 0.0)
    with bench.db.write() as session:
        session.execute(update(ModelRow).values(state=ModelState.CHECKING, facts=None))
    flip_bits(bench.stored(bench.model.digest), 3)
    worker = bench.worker()
    for _ in range(4):
        assert worker.step()

    def model() -> ModelRow:
        with bench.db.read() as session:
            return session.get_one(ModelRow, bench.model.id)

    waiting = model()
    assert (waiting.state, waiting.attempts, (waiting.problem or {})["code"]) == ("checking", 0, "artifact-damaged")
    bench.store.put_bytes(assets.weights())
    assert worker.step()
    assert (model().state, model().problem) == ("ready", None)


def test_a_walk_names_what_is_damaged_and_what_is_gone(bench: AuditBench) -> None:
    audit_id = bench.submit()
    bench.worker().drain()
    assert bench.audit(audit_id).state == "succeeded"
    assert list(find_damage(bench.db, bench.store)) == []
    flip_bits(bench.stored(bench.model.digest))
    lost = bench.shards(audit_id)[-1].records_digest
    bench.stored(lost).unlink()
    weights = bench.store.put_bytes(b"weights")
    with bench.db.write() as session:
        session.get_one(ModelRow, bench.model.id).weights_digest = weights
    bench.stored(weights).unlink()
    found = list(find_damage(bench.db, bench.store))
    assert [(found[0].digest, found[0].is_missing)] == [(bench.model.digest, False)]
    assert {one.digest for one in found[1:] if one.is_missing} == {lost, weights}
    assert found[0].uploads == [f"model m 1 ({bench.model.id})"]
    of_digest = {one.digest: one for one in found}
    assert of_digest[lost].audits == [audit_id]
    assert of_digest[weights].weights == [f"weights of model m 1 ({bench.model.id})"]
    assert (of_digest[weights].uploads, of_digest[weights].unfinished) == ([], [])
