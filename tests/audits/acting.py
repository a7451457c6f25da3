"""A worker's part, played by hand: stages opened and shards closed through the same functions a worker calls."""

from typing import Any

import httpx
import pyarrow as pa

from app.web.services import Services
from seatrial.contracts.states import ModelState, RunState
from seatrial.store import claiming, lifecycle
from seatrial.store.ids import new_id
from seatrial.store.records import to_parquet
from seatrial.store.tables import CheckRow, ModelRow, ShardRow
from seatrial.store.transitions import move
from tests.runtime.inline import InlineWorker
from tests.uploads import submission

LEASE = {"lease_s": 60.0, "worker": "actor"}
FACTS = {"parameters": 34, "classes": 2, "device": "cpu", "forward_s": 0.001, "backward_s": 0.002}
RESULT = {
    "estimates": {"mus": {"value": 0.4, "low": 0.3, "high": 0.5, "n": 20, "method": "gaffke"}},
    "series": {},
    "flags": [],
    "counts": {"n": 20, "errored": 0},
}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def submit(client: httpx.Client, pair: tuple[str, str], **more: Any) -> str:
    """Submit an audit and return its id."""
    answer = client.post("/v1/audits", json=submission(*pair, **more))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def make_ready(services: Services) -> None:
    """Judge every model ready."""
    with services.database.write() as session:
        move(session, ModelRow, ModelState.READY, ModelRow.state == ModelState.CHECKING, facts=FACTS)


def open_stage(services: Services, check_id: str, name: str, pieces: list[tuple[int, int]]) -> None:
    """Begin a stage cut into ``pieces``."""
    with services.database.write() as session:
        claimed = claiming.claim_check(session, **LEASE)
        assert claimed is not None
        assert claimed[0] == check_id
        shards = [
            ShardRow(id=new_id("shd"), check_id=check_id, stage=name, ordinal=n, start=start, stop=stop)
            for n, (start, stop) in enumerate(pieces)
        ]
        examples = pieces[-1][1]
        assert lifecycle.open_stage(session, *claimed, name=name, source="sample", examples=examples, shards=shards)


def records(start: int, stop: int) -> pa.Table:
    """Return records of positions ``start`` to ``stop``, one of them not finite."""
    entropy = [float("nan") if n == 3 else n / 7 for n in range(start, stop)]
    return pa.table(
        {
            "example_id": pa.array(range(start, stop), pa.int64()),
            "label": pa.array([n % 2 for n in range(start, stop)], pa.int64()),
            "errored": pa.array([n == 3 for n in range(start, stop)], pa.bool_()),
            "clean_entropy": pa.array(entropy, pa.float64()),
        }
    )


def run_shard(services: Services, *, fails: bool = False) -> str:
    """Claim the oldest queued shard and end it; return its id."""
    with services.database.write() as session:
        claimed = claiming.claim_shard(session, **LEASE)
        assert claimed is not None
        shard = session.get_one(ShardRow, claimed[0])
        start, stop = shard.start, shard.stop
    with services.database.write() as session:
        if fails:
            error = {"code": "broken", "title": "Broken", "detail": "It broke.", "field": None}
            assert lifecycle.close_shard(session, *claimed, RunState.FAILED, error=error)
        else:
            stored = to_parquet(records(start, stop))
            digest = services.store.put_bytes(stored)
            assert lifecycle.close_shard(
                session,
                *claimed,
                RunState.SUCCEEDED,
                records_digest=digest,
                records_bytes=len(stored),
                done=stop - start,
                seconds=1.0,
            )
    return claimed[0]


def end_check(services: Services, state: RunState = RunState.SUCCEEDED) -> None:
    """Reduce the check that waits for it."""
    figure = services.store.put_bytes(SVG)
    values = (
        {"result": RESULT, "figures": {"span": figure}, "figures_bytes": len(SVG)}
        if state == RunState.SUCCEEDED
        else {}
    )
    if state == RunState.FAILED:
        values = {"error": {"code": "broken", "title": "Broken", "detail": "It broke.", "field": None}}
    with services.database.write() as session:
        claimed = claiming.claim_check(session, **LEASE)
        assert claimed is not None
        assert lifecycle.close_check(session, *claimed, state, **values)


def first_check(services: Services, audit_id: str) -> str:
    """Return the id of an audit's first check."""
    with services.database.read() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit_id, ordinal=0).one()
        return row.id


def ended(client: httpx.Client, worker: InlineWorker, body: dict[str, Any]) -> dict[str, Any]:
    """Submit an audit, let a worker do what there is, and return the audit, which has succeeded."""
    answer = client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    worker.drain()
    told: dict[str, Any] = client.get(f"/v1/audits/{answer.json()['id']}").json()
    assert told["state"] == "succeeded", told
    return told
