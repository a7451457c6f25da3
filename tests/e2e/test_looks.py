"""An audit that stops when it is decided, by real workers: killed between looks, and two at once."""

import io
import signal
from typing import Any

import pyarrow.parquet as pq
from sqlalchemy import select

from seatrial.store.tables import CheckRow
from tests.e2e.deployment import Deployment, on_both
from tests.servers import eventually

POLICY = {
    "name": "accuracy",
    "rules": [{"metric": "uncertainty_span.clean_accuracy", "min": 0.3}],
    "doubts": "ignored",
}
ASKED: dict[str, Any] = {"seed": 0, "samples": 200, "shards": 2, "policy": POLICY, "params": {"steps": 2}}


def looks_of(deployment: Deployment, audit_id: str) -> list[Any]:
    with deployment.database.read() as session:
        return session.scalar(select(CheckRow.looks).where(CheckRow.audit_id == audit_id)) or []


@on_both("distributed")
def test_neither_kills_nor_workers_change_what_is_decided_or_when(deployment: Deployment) -> None:
    model, dataset = deployment.upload()
    first = deployment.add_unhurried_worker()
    decided = deployment.submit(model, dataset, stop="decided", **ASKED)
    eventually(lambda: looks_of(deployment, decided), timeout_s=60, what="a look that leaves it open")
    first.signal(signal.SIGKILL)
    first.wait()
    deployment.add_worker()
    deployment.add_worker()
    ended = deployment.wait(decided)
    whole = deployment.submit(model, dataset, **ASKED)
    assert deployment.wait(whole)["state"] == "succeeded"
    looks = ended["checks"][0]["result"]["looks"]
    assert (looks["sizes"], looks["ended"]) == ([30, 60, 130, 200], 3)
    assert [look["examples"] for look in looks_of(deployment, decided)] == [30, 60]
    records, all_records = (pq.read_table(io.BytesIO(deployment.records(one))) for one in (decided, whole))
    assert records.num_rows == 130
    assert records.equals(all_records.slice(0, 130))
    eventually(lambda: deployment.audit(decided)["verdict"] == "passed", timeout_s=20, what="the verdict")
