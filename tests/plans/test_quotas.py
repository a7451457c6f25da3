"""Trainings count in a project's quotas as audits do, and what is put off says what it waits for."""

from typing import Any

import pytest

from app.cli.hardenings import estimated, print_hardening
from app.cli.plans import estimated_plan
from app.hardenings.advancing import advance_hardenings
from seatrial.contracts.hardenings import HardeningEstimate, HardeningRead
from seatrial.contracts.plans import PlanEstimate
from seatrial.store.tables import HardeningRow, ModelRow
from tests.audits.acting import FACTS
from tests.plans.conftest import OUTCOME, World

pytestmark = pytest.mark.slow


@pytest.fixture
def world(sqlite_world: World) -> World:
    """A project whose model has been checked."""
    with sqlite_world.services.database.write() as session:
        session.get_one(ModelRow, sqlite_world.model).facts = FACTS
    return sqlite_world


def limit(world: World, **quotas: Any) -> None:
    answer = world.client.patch("/v1/projects/default", json={"quotas": quotas})
    assert answer.status_code == 200, answer.text


def test_a_training_is_refused_by_every_quota_of_audits_and_its_estimate_says_so(world: World) -> None:
    asked = world.steps("harden")[0]["hardening"]
    # Its audits take long, its training does not: they are refused for it, before it trains.
    cost = world.client.post("/v1/hardenings/estimate", json=asked).json()
    limit(world, audit_s=2 * cost["seconds"])
    answer = world.client.post("/v1/hardenings", json=asked)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("This audit may take")
    limit(world, audit_s=None)
    asked = {**asked, "params": {"epochs": 500}, "audit": {**asked["audit"], "samples": 4}}
    cost = world.client.post("/v1/hardenings/estimate", json=asked).json()
    assert "refused" not in cost
    assert cost["seconds"] > cost["audit_seconds"]
    first = world.client.post("/v1/hardenings", json=asked).json()
    assert first["estimated_s"] == cost["seconds"]
    spent = world.client.get("/v1/projects/default").json()["spent"]
    assert spent == {"unfinished_audits": 1, "daily_s": pytest.approx(cost["seconds"])}
    free = dict.fromkeys(("unfinished_audits", "daily_s", "audit_s"))
    for status, told, quotas in (
        (429, "it has 1, 1 of them trainings: wait", {"unfinished_audits": 1}),
        (429, "This project may submit no training", {"unfinished_audits": 0}),
        (429, "are left, what was deleted counted", {"daily_s": 1.5 * cost["seconds"]}),
        (413, "an audit or a training of this project may take", {"audit_s": cost["seconds"] / 2}),
    ):
        limit(world, **{**free, **quotas})
        answer = world.client.post("/v1/hardenings", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (status, "quota-exceeded"), answer.text
        assert told in answer.json()["detail"], answer.text
        refused = HardeningEstimate.model_validate(world.client.post("/v1/hardenings/estimate", json=asked).json())
        assert refused.refused == answer.json()["detail"]
        assert estimated(refused)[-1] == f"refused   now: {refused.refused}"
    # An audit waits for a training as for another audit.
    limit(world, **{**free, "unfinished_audits": 1})
    audit = world.steps("audit")[0]["audit"]
    assert world.client.post("/v1/audits", json=audit).status_code == 429
    world.client.post(f"/v1/hardenings/{first['id']}/cancel")
    assert world.client.post("/v1/audits", json=audit).status_code == 202


def test_an_estimate_of_a_plan_tells_which_of_its_jobs_a_quota_would_refuse_now(world: World) -> None:
    harden, audit = world.steps("harden", "audit")
    asked = {"steps": [harden, audit]}
    training, after = world.client.post("/v1/plans/estimate", json=asked).json()["steps"]
    assert "refused" not in training["hardening"]
    assert "refused" not in after["audit"]
    limit(world, unfinished_audits=0)
    told = world.client.post("/v1/plans/estimate", json=asked)
    training, after = told.json()["steps"]
    for path, job, wanted in (("hardenings", training["hardening"], harden), ("audits", after["audit"], audit)):
        body = wanted[path.removesuffix("s")]
        alone = world.client.post(f"/v1/{path}", json={**body, "model": world.model})
        assert (alone.status_code, alone.json()["detail"]) == (429, job["refused"])
    # The plan itself waits for its turn.
    assert world.client.post("/v1/plans", json=asked).status_code == 202
    printed = estimated_plan(PlanEstimate.model_validate(told.json()))
    assert sum(line.startswith("  refused   now: This project may submit no ") for line in printed) == 2


def test_a_hardening_says_what_its_audits_wait_for_until_they_are_submitted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    other = world.client.post("/v1/audits", json=world.steps("audit")[0]["audit"]).json()["id"]
    made = world.client.post("/v1/hardenings", json=world.steps("harden")[0]["hardening"]).json()["id"]
    with world.services.database.write() as session:
        row = session.get_one(HardeningRow, made)
        row.state, row.stage, row.outcome = "running", "auditing", {**OUTCOME, "size_bytes": 1}
    limit(world, unfinished_audits=1)
    for _ in range(3):
        assert advance_hardenings(world.services) == 1
        with world.services.database.write() as session:
            session.query(HardeningRow).update({"lease_until": 1.0})
    read = HardeningRead.model_validate(world.client.get(f"/v1/hardenings/{made}").json())
    assert (read.state, read.audit_before, read.error and read.error.code) == ("running", None, "quota-exceeded")
    assert read.error is not None
    print_hardening(read)
    assert f"  it waits: {read.error.title}: {read.error.detail}" in capsys.readouterr().out
    for page in (f"/hardenings/{made}", f"/hardenings/{made}/progress"):
        told = world.client.get(page).text
        assert "It waits, and goes on by itself." in told, page
        assert "it has 1: wait for one to end" in told, page
    limit(world, unfinished_audits=None)
    world.client.post(f"/v1/audits/{other}/cancel")
    advance_hardenings(world.services)
    read = HardeningRead.model_validate(world.client.get(f"/v1/hardenings/{made}").json())
    assert read.error is None
    assert None not in (read.audit_before, read.audit_after)
    # Told once as an event, not every time it was tried again.
    world.client.post(f"/v1/hardenings/{made}/cancel")
    events = world.client.get(f"/v1/hardenings/{made}/events").text
    assert events.count('"waits"') == 1
