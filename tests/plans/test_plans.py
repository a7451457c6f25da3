"""Plans: what they make, once each, whatever is killed when; and what they are refused for."""

import json
import threading
import time
from typing import Any

import pytest

from app.plans import advancing
from seatrial.attestation.dsse import read_envelopes
from seatrial.attestation.statements import TEST_RESULT, Statement
from seatrial.contracts.plans import PlanRead, PlanSummary
from seatrial.store.tables import AuditRow, DeliveryRow, PlanStepRow, QuotaRow, WebhookRow
from tests.plans.conftest import ALL, HARDENED, World

pytestmark = pytest.mark.slow

ONE_EACH = {"audits": 1, "judgements": 1, "deliveries": 1, "attestations": 1, "hardenings": 1}


class KilledError(BaseException):
    """The process is gone: nothing after this is done, and what was not committed is not there."""


def test_steps_follow_each_other_and_each_leaves_its_job(world: World) -> None:
    plan_id = world.submit(*HARDENED)
    assert world.states(plan_id) == ["queued", *["queued"] * 5]
    world.advance()
    assert world.states(plan_id) == ["running", "running", *["queued"] * 4]
    assert world.advance() == 0
    told = PlanRead.model_validate(world.run(plan_id))
    assert (told.state, told.verdict, [step.state for step in told.steps]) == ("succeeded", "passed", ["succeeded"] * 5)
    hardened, audit, judged, attested, notified = told.steps
    hardening = world.client.get(f"/v1/hardenings/{hardened.job}").json()
    version = {"model": hardening["hardened"], "verdict": None, "accuracy_holds": "passed"}
    assert hardened.result == {"hardening": hardened.job, **version}
    audited = world.client.get(f"/v1/audits/{audit.job}").json()
    assert (audited["id"], audited["model"]) == (audit.result["audit"], hardening["hardened"])
    signed = world.client.get(f"/v1/audits/{audit.job}/attestation", params={"judgement": judged.result["judgement"]})
    assert signed.headers["etag"] == f'"{attested.result["digest"]}"'
    with world.services.database.read() as session:
        message = session.get_one(DeliveryRow, notified.job).payload
    assert message["type"] == "plan.notified"
    results = {**hardened.result, **audit.result, **judged.result, **attested.result}
    assert message["data"] == {"plan": plan_id, **results}
    assert world.jobs() == ONE_EACH
    assert PlanSummary.model_validate(world.client.get("/v1/plans").json()["items"][0]).id == plan_id


def test_a_verdict_that_is_no_pass_is_attested_told_and_ends_the_plan_as_failed(world: World) -> None:
    told = world.run(world.submit(*ALL, most=0.1))
    assert (told["state"], told["verdict"], told["error"]["code"]) == ("failed", "failed", "verdict-not-passed")
    assert [step["state"] for step in told["steps"]] == ["succeeded"] * 4
    audit, judged = told["steps"][:2]
    signed = world.client.get(
        f"/v1/audits/{audit['job']}/attestation", params={"judgement": judged["result"]["judgement"]}
    )
    [result] = [
        statement
        for one in read_envelopes(signed.content)
        if (statement := Statement.model_validate(json.loads(one.content()))).predicate_type == TEST_RESULT
    ]
    assert result.predicate["result"] == "FAILED"
    answer = world.client.post(f"/v1/plans/{told['id']}/retry")
    assert answer.status_code == 409
    assert "which no retry changes" in answer.json()["detail"]


@pytest.mark.parametrize("kind", HARDENED)
def test_a_plan_killed_at_any_step_goes_on_from_there(world: World, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    waits = kind in ("harden", "audit", "notify")
    # Claimed and nothing done; made, in a transaction that is rolled back; done and committed.
    for plans, point in enumerate(("_begin", "_wait_for" if waits else "_succeed", kind), 1):
        plan_id = world.submit(*HARDENED)
        killed: list[str] = []
        with monkeypatch.context() as patched:
            _kill_at(patched, kind, point, killed)
            for _ in range(14):
                try:
                    world.advance(lease_s=0.001)
                except KilledError:
                    time.sleep(0.01)
                world.end_jobs()
        assert killed == [point]
        told = world.plan(plan_id)
        assert told["state"] == "succeeded", told
        assert world.jobs() == dict.fromkeys(ONE_EACH, plans)


def _kill_at(patched: pytest.MonkeyPatch, kind: str, point: str, killed: list[str]) -> None:
    """End whoever does a step of a kind, once: before `_begin`, else after the function, or the whole step."""
    is_step = point == kind
    real = advancing._ACTIONS[kind] if is_step else getattr(advancing, point)

    def replaced(*arguments: Any) -> Any:
        step = next(one for one in arguments if isinstance(one, advancing.Claimed))
        is_now = step.kind == kind and not killed
        if is_now and point == "_begin":
            killed.append(point)
            raise KilledError
        done = real(*arguments)
        if is_now:
            killed.append(point)
            raise KilledError
        return done

    if is_step:
        patched.setitem(advancing._ACTIONS, kind, replaced)
    else:
        patched.setattr(advancing, point, replaced)


def test_what_kills_whoever_does_it_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = world.submit("audit", "judge")
    world.advance()
    world.end_jobs()

    def deadly(*_: Any, **__: Any) -> None:
        raise KilledError

    monkeypatch.setattr(advancing, "judge_audit", deadly)
    for _ in range(6):
        try:
            world.advance(lease_s=0.001)
        except KilledError:
            time.sleep(0.01)
    told = world.plan(plan_id)
    assert (told["state"], told["steps"][1]["error"]["code"]) == ("failed", "step-gave-up")
    monkeypatch.undo()
    assert world.client.post(f"/v1/plans/{plan_id}/retry").status_code == 202
    assert world.run(plan_id)["state"] == "succeeded"


def test_a_process_that_slept_through_its_lease_writes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = world.submit("audit", "judge")
    world.advance()
    world.end_jobs()
    real, slept = advancing.judge_audit, []

    def slow(*arguments: Any, **more: Any) -> Any:
        judged = real(*arguments, **more)
        if not slept:
            slept.append(world.jobs()["judgements"])
            time.sleep(0.02)
            # Another process finds the lease run out, and does it.
            assert world.advance() == 1
        return judged

    monkeypatch.setattr(advancing, "judge_audit", slow)
    world.advance(lease_s=0.001)
    assert slept == [0]
    assert world.jobs()["judgements"] == 1
    assert world.states(plan_id) == ["succeeded", "succeeded", "succeeded"]


def test_processes_at_once_do_each_step_once(world: World) -> None:
    plans = [world.submit(*HARDENED) for _ in range(3)]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(12):
                world.advance()
                time.sleep(0.005)
        except BaseException as error:
            errors.append(error)

    for _ in range(5):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        world.end_jobs()
    world.advance()
    assert errors == []
    assert [world.plan(plan_id)["state"] for plan_id in plans] == ["succeeded"] * 3
    assert world.jobs() == dict.fromkeys(ONE_EACH, 3)


def test_a_failed_audit_is_retried_by_its_plan(world: World) -> None:
    plan_id = world.submit("audit", "judge")
    world.advance()
    world.end_jobs("failed")
    world.advance()
    told = world.plan(plan_id)
    assert (told["state"], told["steps"][0]["error"]["code"]) == ("failed", "job-failed")
    assert told["steps"][1]["state"] == "queued"
    assert world.advance() == 0
    again = world.client.post(f"/v1/plans/{plan_id}/retry").json()
    assert (again["state"], again["steps"][0]["job"], again["error"]) == ("running", told["steps"][0]["job"], None)
    assert world.run(plan_id)["state"] == "succeeded"
    assert world.jobs()["audits"] == 1


def test_a_step_that_a_quota_refuses_for_now_waits(world: World) -> None:
    def later() -> None:
        with world.services.database.write() as session:
            session.query(PlanStepRow).filter(PlanStepRow.lease_until.is_not(None)).update({"lease_until": 1.0})

    other = world.client.post("/v1/audits", json=world.steps("audit")[0]["audit"]).json()["id"]
    with world.services.database.write() as session:
        session.add(QuotaRow(project_id=world.project, unfinished_audits=1))
    plan_id = world.submit("audit", "judge")
    # More often than a step is tried that kills whoever does it.
    for _ in range(2 * advancing.MAX_ATTEMPTS):
        assert world.advance() == 1
        assert world.advance() == 0
        later()
    assert world.states(plan_id) == ["running", "running", "queued"]
    # Whoever looks is told what it waits for, until it goes on.
    assert "it has 1: wait for one to end" in world.plan(plan_id)["steps"][0]["error"]["detail"]
    assert "It waits. Beyond what this project may use" in world.client.get(f"/plans/{plan_id}").text
    assert world.client.post(f"/v1/audits/{other}/cancel").status_code < 300
    told = world.run(plan_id)
    assert (told["state"], told["steps"][0]["error"]) == ("succeeded", None)
    with world.services.database.write() as session:
        session.query(QuotaRow).update({"unfinished_audits": 0})
    told = world.run(world.submit("audit", "judge"))
    # Time does not cure what the operator has to raise.
    assert (told["state"], told["error"]["code"]) == ("failed", "quota-exceeded")


def test_a_message_that_was_not_delivered_is_sent_anew_and_nothing_else(world: World) -> None:
    plan_id = world.submit("audit", "notify")
    world.advance()
    world.end_jobs()
    world.advance()
    world.end_jobs(status="failed")
    world.advance()
    assert world.states(plan_id) == ["failed", "succeeded", "failed"]
    world.client.post(f"/v1/plans/{plan_id}/retry")
    assert world.run(plan_id)["state"] == "succeeded"
    assert world.jobs() == {"audits": 1, "judgements": 0, "deliveries": 2, "attestations": 0, "hardenings": 0}


def test_a_cancelled_plan_ends_its_audit_and_goes_no_further(world: World) -> None:
    plan_id = world.submit("audit", "judge", "attest")
    world.advance()
    told = world.client.post(f"/v1/plans/{plan_id}/cancel").json()
    assert [told["state"], *(step["state"] for step in told["steps"])] == ["cancelled"] * 4
    with world.services.database.read() as session:
        assert session.get_one(AuditRow, told["steps"][0]["job"]).state in ("cancelling", "cancelled")
    assert world.advance() == 0
    assert world.client.post(f"/v1/plans/{plan_id}/cancel").status_code == 409
    assert world.client.post(f"/v1/plans/{plan_id}/retry").status_code == 409


def test_what_could_never_run_is_refused_at_once(world: World) -> None:
    audit, judge, attest, notify = world.steps(*ALL)
    gone = {**audit, "audit": {**audit["audit"], "model": "mdl_gone"}}
    cases: list[tuple[list[Any], str]] = [
        ([judge], "/steps"),
        ([audit, attest, judge], "/steps"),
        ([audit, audit], "/steps"),
        ([gone], "/steps/0/audit/model"),
        ([audit, {**judge, "policy": "nonsense"}], "/steps/1/policy"),
        ([audit, attest], "/steps/1"),
        ([audit, {**notify, "webhook": "whk_0"}], "/steps/1/webhook"),
        ([audit, {"kind": "train"}], "/steps/1/kind"),
        ([{**audit, "audit": {**audit["audit"], "model": "hardened"}}], "/steps/0/audit/model"),
    ]
    for steps, pointer in cases:
        answer = world.client.post("/v1/plans", json={"steps": steps})
        assert answer.status_code == 422, (pointer, answer.text)
        assert answer.json()["errors"][0]["pointer"].startswith(pointer), (pointer, answer.text)
    assert world.client.get("/v1/plans").json()["items"] == []


def test_a_policy_is_the_one_there_was_at_submission(world: World) -> None:
    lax = {"name": "mine", "rules": [{"metric": "uncertainty_span.mus", "max": 0.1}]}
    assert world.client.post("/v1/policies", json=lax).status_code == 201
    [audit] = world.steps("audit")
    steps = [audit, {"kind": "judge", "policy": "mine"}]
    plan_id = world.client.post("/v1/plans", json={"steps": steps}).json()["id"]
    # Who wants a green light makes the policy laxer before the audit has ended.
    lax["rules"][0]["max"] = 2.0  # type: ignore[index]
    assert world.client.post("/v1/policies", json=lax).status_code == 201
    assert world.run(plan_id)["verdict"] == "failed"


def test_the_same_key_is_one_plan_and_another_projects_is_not_found(world: World) -> None:
    body = {"steps": world.steps("audit")}
    first, again = (world.client.post("/v1/plans", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert len(world.client.get("/v1/plans").json()["items"]) == 1
    for path in ("", "/cancel", "/retry"):
        ask = world.client.post if path else world.client.get
        assert ask(f"/v1/plans/pln_none{path}").status_code == 404


def test_a_webhook_that_is_gone_by_then_fails_the_step_with_the_reason(world: World) -> None:
    plan_id = world.submit("audit", "notify")
    world.advance()
    with world.services.database.write() as session:
        session.query(WebhookRow).delete()
    told = world.run(plan_id)
    assert (told["state"], told["error"]["code"]) == ("failed", "job-failed")
    assert "is gone" in told["error"]["detail"]
