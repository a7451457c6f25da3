"""Hardenings are deleted as other things are: whole, with a tombstone, and never while somebody waits for them."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update

from app.web.services import Services
from seatrial.contracts.hardenings import HardeningCreate
from seatrial.store.hardening import record_hardening
from seatrial.store.ids import new_id
from seatrial.store.keeping import apply_retention
from seatrial.store.tables import (
    AuditRow,
    DiscardRow,
    HardeningEventRow,
    HardeningRow,
    PlanRow,
    PlanStepRow,
    ReleaseRow,
)
from seatrial.store.tables.base import utc_now
from tests.deletions.test_http import ended
from tests.uploads import upload_both
from tests.web.test_problems import assert_problem

TRAINED, SAVED = ("sha256:" + digit * 64 for digit in "12")


@pytest.fixture
def pair(client: httpx.Client) -> tuple[str, str]:
    return upload_both(client)


@pytest.fixture
def hardening(client: httpx.Client, services: Services, pair: tuple[str, str]) -> str:
    """One that failed in its audits, of which both have ended, and whose version was never stored."""
    before, after = (ended(client, services, pair, seed=seed) for seed in range(2))
    spec = {"model": pair[0], "dataset": pair[1], "method": "gaussian"}
    audit = {"dataset": pair[1], "checks": [{"kind": "uncertainty_span"}]}
    with services.database.write() as session:
        row = HardeningRow(
            **{"id": new_id("hrd"), "project_id": session.get_one(AuditRow, before).project_id, "model_id": pair[0]},
            **{"dataset_id": pair[1], "audited_id": pair[1], "method": "gaussian", "seed": 7, "estimated_s": 12.5},
            params={"method": "gaussian", "epochs": 3},
            spec=HardeningCreate.model_validate({**spec, "audit": audit}).model_dump(mode="json"),
            outcome={"digest": TRAINED, "weights_digest": None, "recalibration": None, "size_bytes": 1},
            saved_digest=SAVED,
            saved_attempt=1,
            state="failed",
            stage="auditing",
            error={"code": "audit-failed", "title": "Failed", "detail": "It failed.", "field": None},
            audit_before=before,
            audit_after=after,
            finished_at=utc_now(),
        )
        session.add(row)
        session.flush()
        record_hardening(session, row.id, "hardening", {"state": "failed"})
        return row.id


def change(services: Services, hardening: str, **values: Any) -> None:
    with services.database.write() as session:
        session.execute(update(HardeningRow).where(HardeningRow.id == hardening).values(**values))


def test_it_is_gone_with_what_is_its_own_and_its_audits_stay(
    client: httpx.Client, services: Services, hardening: str
) -> None:
    spent = client.get("/v1/projects/default").json()["spent"]["daily_s"]
    gone = client.delete(f"/v1/hardenings/{hardening}")
    assert gone.status_code == 200, gone.text
    told = gone.json()
    assert (told["kind"], told["name"], told["actor"], told["along"]) == ("hardening", "parity 1", "operator", [])
    details = told["details"]
    assert (details["method"], details["seed"], details["params"]["epochs"]) == ("gaussian", 7, 3)
    assert (details["state"], details["error"]["code"], details["hardened"]) == ("failed", "audit-failed", None)
    assert client.delete(f"/v1/hardenings/{hardening}").json() == told
    for of in ("", "/events", "/report"):
        assert_problem(client.get(f"/v1/hardenings/{hardening}{of}"), 410, "deleted")
    for of in ("/cancel", "/retry"):
        assert_problem(client.post(f"/v1/hardenings/{hardening}{of}"), 410, "deleted")
    assert_problem(client.delete("/v1/hardenings/hrd_never"), 404, "not-found")
    for audit in (details["audit_before"], details["audit_after"]):
        assert client.get(f"/v1/audits/{audit}").json()["state"] == "succeeded"
    (listed,) = client.get("/v1/tombstones", params={"kind": "hardening"}).json()["items"]
    assert listed["subject"] == hardening
    log = client.get("/v1/activity", params={"action": "hardening.deleted"}).json()["items"]
    assert [one["subject"] for one in log] == [hardening]
    # Training again, and deleting that too, is no way around a day's quota.
    assert client.get("/v1/projects/default").json()["spent"]["daily_s"] == pytest.approx(spent)
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(HardeningEventRow)) == 0
        assert set(session.scalars(select(ReleaseRow.digest))) == {TRAINED}
        assert set(session.scalars(select(DiscardRow.digest))) == {SAVED}


def test_what_runs_or_a_plan_waits_for_stays(client: httpx.Client, services: Services, hardening: str) -> None:
    for state in ("queued", "running", "cancelling"):
        change(services, hardening, state=state)
        refused = client.delete(f"/v1/hardenings/{hardening}")
        assert_problem(refused, 409, "in-use")
        assert f"it is {state}: cancel it" in refused.json()["detail"]
    change(services, hardening, state="succeeded")
    with services.database.write() as session:
        project = session.get_one(HardeningRow, hardening).project_id
        session.add(PlanRow(id="pln_1", project_id=project, name="", state="running"))
        session.flush()
        step = {"kind": "harden", "params": {}, "state": "running", "job": hardening}
        session.add(PlanStepRow(id="stp_1", plan_id="pln_1", ordinal=0, **step))
    refused = client.delete(f"/v1/hardenings/{hardening}")
    assert_problem(refused, 409, "in-use")
    assert [(use["kind"], use["id"]) for use in refused.json()["uses"]] == [("plan", "pln_1")]
    assert not refused.json()["can_cascade"]


def test_one_that_goes_along_leaves_a_tombstone_of_its_own(
    client: httpx.Client, services: Services, pair: tuple[str, str], hardening: str
) -> None:
    refused = client.delete(f"/v1/models/{pair[0]}")
    assert_problem(refused, 409, "in-use")
    assert ("hardening", hardening) in [(use["kind"], use["id"]) for use in refused.json()["uses"]]
    gone = client.delete(f"/v1/models/{pair[0]}", params={"cascade": True}).json()
    assert {one.partition("_")[0] for one in gone["along"]} == {"aud", "hrd"}
    told = client.get(f"/v1/tombstones/{hardening}").json()
    assert (told["cascade_of"], told["details"]["model"]["id"]) == (pair[0], pair[0])
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(HardeningRow)) == 0


def test_a_project_keeps_them_for_days_and_then_its_audits_are_free(
    client: httpx.Client, services: Services, hardening: str
) -> None:
    for keep in ({"hardenings": 90}, {"audits": 90}):
        assert client.patch("/v1/projects/default", json={"retention": keep}).status_code == 200
    with services.database.write() as session:
        session.execute(update(AuditRow).values(finished_at=utc_now() - timedelta(days=100)))
    # Its audits are old; it is not.
    assert apply_retention(services.database) == 0
    change(services, hardening, finished_at=utc_now() - timedelta(days=100), state="running")
    assert apply_retention(services.database) == 0
    change(services, hardening, state="succeeded")
    assert apply_retention(services.database) == 3
    assert client.get(f"/v1/tombstones/{hardening}").json()["actor"] == "retention"


def test_its_page_deletes_it(client: httpx.Client, services: Services, hardening: str) -> None:
    change(services, hardening, saved_digest=None, saved_attempt=None)
    assert f'action="/hardenings/{hardening}/delete"' in client.get(f"/hardenings/{hardening}").text
    origin = {"Origin": str(client.base_url)}
    answer = client.post(f"/hardenings/{hardening}/delete", headers=origin, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/hardenings?done=deleted")
    assert "The hardening is deleted" in client.get(answer.headers["location"]).text
    assert client.get(f"/hardenings/{hardening}").status_code == 410
