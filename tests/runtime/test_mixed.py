"""What measured a check is told; where it was not one code on one type of hardware, that is told before its numbers."""

from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import update

from app.reports.repository import measured_by
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables import ShardRow
from tests.runtime.bench import AuditBench
from workers.runtime import running, worker
from workers.runtime.code import code_version, hardware
from workers.runtime.inline import left_out


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


def flags_of(bench: AuditBench, audit_id: str) -> dict[str, str]:
    result = bench.check(audit_id).result
    assert result is not None
    return {flag["code"]: flag["message"] for flag in result["flags"] if flag["code"].startswith("mixed")}


def test_shards_tell_their_code_and_hardware(db: Database, settings: Settings) -> None:
    bench = AuditBench(db, settings)
    audit_id = bench.submit()
    bench.worker().drain()
    on = hardware("cpu", settings)
    assert on.endswith(", 1 threads")
    assert hardware("NVIDIA H100", settings) == "NVIDIA H100"
    assert {(shard.code, shard.hardware) for shard in bench.shards(audit_id)} == {(code_version(), on)}
    assert bench.audit(audit_id).code == code_version()
    assert flags_of(bench, audit_id) == {}
    with db.read() as session:
        told = measured_by(session, audit_id)
    assert told == {"code that measured": code_version()[:12], "hardware that measured": on}


def test_two_versions_never_share_an_audit(db: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = AuditBench(db, settings)
    audit_id = bench.submit(shards=4)
    old = bench.worker()
    while len(bench.shards(audit_id)) < 4:
        assert old.step()
    monkeypatch.setattr(worker, "code_of_audits", lambda settings: "another version")
    new = bench.worker()
    assert not new.step()
    old.drain()
    assert bench.audit(audit_id).state == "succeeded"
    assert {shard.code for shard in bench.shards(audit_id)} == {code_version()}


def test_where_the_operator_lets_codes_mix_it_is_flagged(
    db: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = AuditBench(db, settings.model_copy(update={"mix_code": True}))
    audit_id = bench.submit(shards=4)
    first, second = bench.worker(), bench.worker()
    while len(bench.shards(audit_id)) < 4:
        assert first.step()
    with monkeypatch.context() as patch:
        patch.setattr(running, "code_version", lambda: "0123456789abcdef")
        patch.setattr(running, "hardware", lambda device, settings: "another processor, 1 threads")
        assert second.step()
    first.drain()
    assert bench.audit(audit_id).code is None
    told = flags_of(bench, audit_id)
    assert told.keys() == {"mixed_code", "mixed_hardware"}
    assert "0123456789ab" in told["mixed_code"]
    assert "another processor" in told["mixed_hardware"]


def test_records_of_workers_from_before_count_as_another_code(db: Database, settings: Settings) -> None:
    bench = AuditBench(db, settings)
    audit_id = bench.submit()
    worker = bench.worker()
    while not any(shard.state == "succeeded" for shard in bench.shards(audit_id)):
        assert worker.step()
    with db.write() as session:
        session.execute(update(ShardRow).where(ShardRow.state == "succeeded").values(code=None, hardware=None))
    worker.drain()
    assert flags_of(bench, audit_id).keys() == {"mixed_code"}


def test_numbers_of_which_many_examples_are_left_out_are_doubted() -> None:
    def records(errored: int) -> pa.Table:
        return pa.table({"errored": pa.array([True] * errored + [False] * (100 - errored))})

    many = {"attack": records(5), "score": records(80), "growth": records(6)}
    assert left_out({"attack": records(5), "growth": records(0), "score": None}, 1.0) == []
    assert left_out(many, 0.05) == []
    (flag,) = left_out(many, 0.9)
    assert (flag.code, flag.severity) == ("left_out", "warning")
    assert flag.message.startswith("80% of the examples of stage score errored")
