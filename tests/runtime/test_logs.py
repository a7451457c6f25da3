"""With JSON lines, every line of a worker names what it is about, and a traceback stands inside its line."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from seatrial.logs import json_formatter
from seatrial.store.artifacts import LocalStore
from seatrial.store.claiming import claim_check, ids_of
from seatrial.store.database import Database
from seatrial.store.lifecycle import open_stage
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ShardRow
from tests.rows import add_audit
from tests.runtime.inline import InlineWorker
from workers.runtime.stages import make_shards


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=2, heartbeat_s=0.1, device="cpu", torch_threads=1, log_json=True)


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the worker's loggers write, as ``seatrial.logs.log_to_stderr`` makes them."""
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("workers")
    handler.setFormatter(json_formatter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_shard_that_stumbles_says_whose_it_is_and_where(
    db: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: io.StringIO
) -> None:
    audit_id = add_audit(db, request_id="req-1")
    with db.write() as session:
        check = claim_check(session, lease_s=60, worker="w")
        assert check is not None
    with db.write() as session:
        rows = make_shards(check[0], "attack", [(0, 100)])
        open_stage(session, *check, name="attack", source="sample", examples=100, shards=rows)
    worker = InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)

    def stumble(*arguments: object) -> None:
        raise RuntimeError("a bug\nof two lines")

    monkeypatch.setattr(worker.executor, "run", stumble)
    assert worker.step()
    with db.read() as session:
        shard_id = session.scalars(select(ShardRow.id)).one()
        project_id = session.scalars(select(AuditRow.project_id)).one()
    failed, reference, worked = lines(written)
    ids = {"audit_id": audit_id, "check_id": check[0], "shard_id": shard_id}
    ids |= {"project_id": project_id, "request_id": "req-1"}
    assert reference["level"] == "warning"
    for line in (failed, reference, worked):
        assert {name: line[name] for name in ids} == ids
        assert line["logger"].startswith("workers.")
        assert line["timestamp"].endswith("Z")
    assert failed["level"] == "error"
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("RuntimeError: a bug\nof two lines")
    assert worked["seconds"] >= 0


def test_what_nobody_asked_for_over_http_names_no_request_and_nothing_lingers(
    db: Database, settings: Settings, tmp_path: Path, written: io.StringIO
) -> None:
    audit_id = add_audit(db, model_state="rejected")
    with db.read() as session:
        check_id = session.scalars(select(CheckRow.id).where(CheckRow.audit_id == audit_id)).one()
        ids = ids_of(session, CheckRow, check_id)
    assert set(ids) == {"audit_id", "check_id", "project_id"}
    worker = InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)
    worker.drain()
    logging.getLogger("workers").info("of nothing")
    told = lines(written)
    assert told[0]["check_id"] == check_id
    assert not {"audit_id", "check_id", "project_id"} & set(told[-1])
