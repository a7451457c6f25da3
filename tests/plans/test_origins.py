"""What a plan or a hardening submits carries the request, and the trace, that asked for it."""

from typing import Any

import pytest

from app.hardenings.advancing import advance_hardenings
from seatrial import tracing
from seatrial.store.claiming import ids_of, trace_of
from seatrial.store.tables import AuditRow, HardeningRow, PlanRow
from tests.plans.conftest import OUTCOME, World
from tests.web.test_tracing import CALLER, TRACE, Recorder

pytestmark = pytest.mark.slow


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Recorder()
    tracing.use(made)
    yield made
    tracing.use(None)


def test_from_the_plan_to_the_audits_of_its_hardening(sqlite_world: World, traces: Recorder) -> None:
    world = sqlite_world
    headers = {"X-Request-ID": "ci-42"}
    with tracing.span("a caller", f"00-{TRACE}-{CALLER}-01"):
        steps = world.steps("harden", "audit")
        plan_id = world.client.post("/v1/plans", json={"steps": steps}, headers=headers).json()["id"]
    world.advance()
    with world.services.database.write() as session:
        hardening = session.query(HardeningRow).one()
        hardening.state, hardening.stage, hardening.outcome = "running", "auditing", {**OUTCOME, "size_bytes": 1}
        hardening_id = hardening.id
    assert advance_hardenings(world.services) == 1
    with world.services.database.write() as session:
        told = session.get_one(HardeningRow, hardening_id)
        told.state, told.result = "succeeded", {"accuracy_holds": "passed"}
    world.advance()
    with world.services.database.read() as session:
        plan = session.get_one(PlanRow, plan_id)
        audits = session.query(AuditRow).all()
        rows = [plan, session.get_one(HardeningRow, hardening_id), *audits]
        ids = ids_of(session, HardeningRow, hardening_id)
        parent = trace_of(session, ids)
    # The pair, and the audit of the plan.
    assert len(audits) == 3
    assert {row.request_id for row in rows} == {"ci-42"}
    assert ids["request_id"] == "ci-42"
    assert {str(row.traceparent).split("-")[1] for row in rows} == {TRACE}
    assert parent == rows[1].traceparent
    assert {span.name for span in traces.spans} >= {"harden step of a plan", "audits of a hardening"}


def test_what_no_request_is_known_of_begins_a_trace_of_its_own(sqlite_world: World, traces: Recorder) -> None:
    plan_id = sqlite_world.submit("audit")
    with sqlite_world.services.database.write() as session:
        # As a version before stored it.
        row = session.get_one(PlanRow, plan_id)
        row.request_id = row.traceparent = None
    sqlite_world.advance()
    with sqlite_world.services.database.read() as session:
        audit = session.query(AuditRow).one()
    assert audit.request_id is None
    assert TRACE not in str(audit.traceparent)
