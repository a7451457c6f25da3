"""Audits that have ended, with numbers of a test's choosing, and the policies they are judged by."""

from typing import Any

import httpx
import pyarrow as pa

from app.gates.service import judge_ended
from app.web.services import Services
from seatrial.contracts.states import RunState
from seatrial.store import claiming, lifecycle
from seatrial.store.records import to_parquet
from tests.audits.acting import LEASE, first_check, make_ready, open_stage
from tests.uploads import submission, upload_both

METRIC = "uncertainty_span.mus"


def estimate(value: float, low: float, high: float, n: int = 400) -> dict[str, Any]:
    """Return an estimate as results have it."""
    return {"value": value, "low": low, "high": high, "n": n, "method": "gaffke"}


def result(**estimates: dict[str, Any]) -> dict[str, Any]:
    """Return a result; by default a span of 0.4 between 0.35 and 0.45."""
    told = estimates or {"mus": estimate(0.4, 0.35, 0.45)}
    return {"estimates": told, "series": {}, "flags": [], "counts": {"n": 400, "errored": 0}}


def policy(name: str = "release", **rule: Any) -> dict[str, Any]:
    """Return a policy of one rule; without a bound the span must be at most 0.6, and is."""
    asked = {"metric": METRIC, **rule}
    if not {"max", "min", "max_regression"} & set(rule):
        asked["max"] = 0.6
    return {"name": name, "rules": [asked]}


PASSES, FAILS, OPEN = policy(max=0.6), policy(max=0.1), policy(max=0.42)


def read(client: httpx.Client, audit: str) -> dict[str, Any]:
    """Read an audit once everything that waits has been judged."""
    judge_ended(client.app.state.services)  # type: ignore[attr-defined]
    return dict(client.get(f"/v1/audits/{audit}").json())


def submitted(client: httpx.Client, pair: tuple[str, str] | None = None, **more: Any) -> str:
    """Submit an audit of ``pair``, uploaded when it is not given, and return its id."""
    answer = client.post("/v1/audits", json=submission(*(pair or upload_both(client)), **more))
    assert answer.status_code == 202, answer.text
    make_ready(client.app.state.services)  # type: ignore[attr-defined]
    return str(answer.json()["id"])


def end(
    services: Services,
    audit: str,
    told: dict[str, Any] | None = None,
    *,
    state: RunState = RunState.SUCCEEDED,
    records: pa.Table | None = None,
) -> None:
    """Run a submitted audit of one check to its end, with these numbers and records."""
    check = first_check(services, audit)
    open_stage(services, check, "attack", [(0, 20)])
    finish(services, told, state=state, records=records)


def finish(
    services: Services,
    told: dict[str, Any] | None = None,
    *,
    state: RunState = RunState.SUCCEEDED,
    records: pa.Table | None = None,
) -> None:
    """End the shard that is queued, and its check."""
    error = {"code": "broken", "title": "Broken", "detail": "It broke.", "field": None}
    has_succeeded = state == RunState.SUCCEEDED
    with services.database.write() as session:
        claimed = claiming.claim_shard(session, **LEASE)
        assert claimed is not None
    with services.database.write() as session:
        table = pa.table({"example_id": list(range(20))}) if records is None else records
        values: dict[str, Any] = {"error": error}
        if has_succeeded:
            values = {"records_digest": services.store.put_bytes(to_parquet(table)), "done": 20, "seconds": 1.0}
        assert lifecycle.close_shard(session, *claimed, state, **values)
    with services.database.write() as session:
        claimed = claiming.claim_check(session, **LEASE)
        assert claimed is not None
        values = {"result": told or result(), "figures": {}} if has_succeeded else {"error": error}
        assert lifecycle.close_check(session, *claimed, state, **values)


def ended(client: httpx.Client, pair: tuple[str, str] | None = None, told: Any = None, **more: Any) -> str:
    """Submit an audit, run it to its success with these numbers, and return its id."""
    audit = submitted(client, pair, **more)
    end(client.app.state.services, audit, told)  # type: ignore[attr-defined]
    return audit
