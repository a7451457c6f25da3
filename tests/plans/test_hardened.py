"""Plans that begin with a hardening: what is refused, what is retried, and what nobody gets a green light by."""

from typing import Any

import pytest

from app.web.services import Services
from seatrial.contracts.plans import PlanEstimate
from seatrial.store.ids import new_id
from seatrial.store.tables import DeliveryRow, HardeningRow, ModelRow
from tests.plans.conftest import World

pytestmark = pytest.mark.slow


@pytest.fixture
def world(sqlite_world: World) -> World:
    """What is asked here is the same on both databases."""
    return sqlite_world


def submitted(world: World, steps: list[dict[str, Any]]) -> str:
    answer = world.client.post("/v1/plans", json={"steps": steps})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def with_(step: dict[str, Any], part: str, **more: Any) -> dict[str, Any]:
    return {**step, part: {**step[part], **more}}


def test_what_could_never_run_is_refused_by_its_field(world: World) -> None:
    harden, audit, judge = world.steps("harden", "audit", "judge")
    nowhere = with_(harden, "hardening", audit={**harden["hardening"]["audit"], "policy": "nonsense"})
    cases: list[tuple[list[Any], str, str]] = [
        ([harden], "invalid-request", "/steps"),
        ([harden, judge], "invalid-request", "/steps"),
        ([audit, harden], "invalid-request", "/steps"),
        ([harden, harden, audit], "invalid-request", "/steps"),
        ([{"kind": "harden"}, audit], "invalid-request", "/steps/0/hardening"),
        ([with_(harden, "hardening", method="magic"), audit], "invalid-request", "/steps/0/hardening/method"),
        (
            [with_(harden, "hardening", params={"epochs": 0}), audit],
            "invalid-request",
            "/steps/0/hardening/params/epochs",
        ),
        ([with_(harden, "hardening", model="mdl_none"), audit], "unknown-reference", "/steps/0/hardening/model"),
        ([nowhere, audit], "unknown-policy", "/steps/0/hardening/audit/policy"),
        # What is trained on is what is audited: told by the hardening, as when it is submitted by itself.
        (
            [with_(harden, "hardening", dataset=world.dataset), audit],
            "training-overlaps-audit",
            "/steps/0/hardening/dataset",
        ),
        # The model as it was, and data that may have been trained on, are no audit of what was hardened.
        ([harden, with_(audit, "audit", model=world.model)], "outside-the-hardening", "/steps/1/audit/model"),
        ([harden, with_(audit, "audit", dataset=world.training)], "outside-the-hardening", "/steps/1/audit/dataset"),
        ([harden, with_(audit, "audit", checks=[])], "invalid-request", "/steps/1/audit/checks"),
    ]
    for steps, code, pointer in cases:
        for path in ("/v1/plans", "/v1/plans/estimate"):
            answer = world.client.post(path, json={"steps": steps})
            assert answer.status_code == 422, (pointer, answer.text)
            told = answer.json()
            assert (told["code"], told["errors"][0]["pointer"]) == (code, pointer)
    assert world.client.get("/v1/plans").json()["items"] == []
    assert world.jobs()["hardenings"] == 0


def test_an_estimate_tells_what_each_job_would_be_told_alone(world: World) -> None:
    harden, audit, judge = world.steps("harden", "audit", "judge")
    answer = world.client.post("/v1/plans/estimate", json={"steps": [harden, audit, judge]})
    assert answer.status_code == 200, answer.text
    told = PlanEstimate.model_validate(answer.json())
    alone = world.client.post("/v1/hardenings/estimate", json=harden["hardening"]).json()
    audited = world.client.post("/v1/audits/estimate", json={**audit["audit"], "model": world.model}).json()
    training, audits, judging = told.steps
    assert training.hardening is not None
    assert audits.audit is not None
    assert training.hardening.model_dump(mode="json") == alone
    assert audits.audit.model_dump(mode="json") == audited
    assert (judging.hardening, judging.audit) == (None, None)
    if None not in (alone["seconds"], alone["audit_seconds"], audited["seconds"]):
        assert told.seconds == pytest.approx(alone["seconds"] + alone["audit_seconds"] + audited["seconds"])
    assert world.jobs() == dict.fromkeys(world.jobs(), 0)


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"verdict": "failed"}, "failed"),
        ({"verdict": "passed", "accuracy_holds": "failed"}, "failed"),
        ({"accuracy_holds": "inconclusive"}, "inconclusive"),
        ({"accuracy_holds": "errored"}, "errored"),
    ],
)
def test_a_hardening_that_is_no_pass_ends_its_plan_as_none(world: World, told: dict[str, str], verdict: str) -> None:
    plan_id = world.submit("harden", "audit", "judge", "attest", "notify")
    world.advance()
    world.end_jobs(**told)
    ended = world.run(plan_id)
    assert [step["state"] for step in ended["steps"]] == ["succeeded"] * 5
    assert (ended["state"], ended["verdict"], ended["error"]["code"]) == ("failed", verdict, "verdict-not-passed")
    assert "verdict of judge: passed" in ended["error"]["detail"]
    assert message_of(world.services, ended)["verdict"] == verdict
    assert world.client.post(f"/v1/plans/{plan_id}/retry").status_code == 409


def message_of(services: Services, plan: dict[str, Any]) -> dict[str, Any]:
    with services.database.read() as session:
        data: dict[str, Any] = session.get_one(DeliveryRow, plan["steps"][-1]["job"]).payload["data"]
    return data


def test_an_audit_that_fails_by_its_own_policy_does_not_pass_by_a_laxer_one(world: World) -> None:
    [audit, judge] = world.steps("audit", "judge")
    strict = {"name": "mine", "rules": [{"metric": "uncertainty_span.mus", "max": 0.1}]}
    plan_id = submitted(world, [with_(audit, "audit", policy=strict), judge])
    world.advance()
    world.end_jobs()
    world.judge()
    told = world.run(plan_id)
    assert [(step["result"] or {}).get("verdict") for step in told["steps"]] == ["failed", "passed"]
    assert (told["state"], told["verdict"]) == ("failed", "failed")


def test_a_failed_hardening_is_retried_as_the_same_and_one_that_was_cancelled_anew(world: World) -> None:
    plan_id = world.submit("harden", "audit")
    world.advance()
    world.end_jobs("failed")
    world.advance()
    first = world.plan(plan_id)
    assert (first["state"], first["steps"][0]["error"]["code"]) == ("failed", "job-failed")
    again = world.client.post(f"/v1/plans/{plan_id}/retry").json()
    assert again["steps"][0]["job"] == first["steps"][0]["job"]
    assert world.client.get(f"/v1/hardenings/{again['steps'][0]['job']}").json()["state"] != "failed"
    world.client.post(f"/v1/hardenings/{again['steps'][0]['job']}/cancel")
    world.advance()
    assert world.states(plan_id)[:2] == ["failed", "failed"]
    assert world.client.post(f"/v1/plans/{plan_id}/retry").json()["steps"][0]["job"] is None
    told = world.run(plan_id)
    assert told["state"] == "succeeded"
    assert told["steps"][0]["job"] != first["steps"][0]["job"]
    # What was asked is what was stored, whatever came between.
    with world.services.database.read() as session:
        was, now = (session.get_one(HardeningRow, one["steps"][0]["job"]) for one in (first, told))
        assert (was.params, was.seed, was.model_id) == (now.params, now.seed, now.model_id)


def test_cancelling_a_plan_ends_its_hardening(world: World) -> None:
    plan_id = world.submit("harden", "audit")
    world.advance()
    told = world.client.post(f"/v1/plans/{plan_id}/cancel").json()
    assert world.client.get(f"/v1/hardenings/{told['steps'][0]['job']}").json()["state"] == "cancelled"
    assert world.advance() == 0


def test_nothing_the_plan_goes_on_from_is_deleted_or_swapped(world: World) -> None:
    plan_id = world.submit("harden", "audit", "judge")
    world.advance()
    world.end_jobs()
    world.advance_one()
    made = world.plan(plan_id)["steps"][0]["result"]["model"]
    for subject in (made, world.model, world.dataset, world.training):
        kind = "models" if subject.startswith("mdl_") else "datasets"
        answer = world.client.delete(f"/v1/{kind}/{subject}", params={"cascade": True})
        assert answer.status_code == 409, (subject, answer.text)
        assert plan_id in answer.text
    # A plan that has failed holds nothing; one retried then finds the version gone, and takes no other for it.
    world.advance()
    world.end_jobs("failed")
    world.advance()
    assert world.plan(plan_id)["state"] == "failed"
    version = world.client.get(f"/v1/models/{made}").json()["version"]
    assert world.client.delete(f"/v1/models/{made}", params={"cascade": True}).status_code == 200
    with world.services.database.write() as session:
        base = session.get_one(ModelRow, world.model)
        names = ("project_id", "name", "task", "manifest", "digest", "size_bytes", "format", "facts", "state")
        session.add(ModelRow(id=new_id("mdl"), version=version, **{name: getattr(base, name) for name in names}))
    assert world.client.post(f"/v1/plans/{plan_id}/retry").status_code == 202
    world.advance()
    told = world.plan(plan_id)
    assert (told["state"], told["error"]["code"]) == ("failed", "unknown-reference")
    assert world.jobs()["audits"] == 0
