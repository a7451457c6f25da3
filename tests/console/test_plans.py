"""Pages of plans: every step with its job and what came of it, and only the buttons that do something."""

from seatrial.store.tables import PlanRow
from tests.audits.acting import make_ready
from tests.console import seeding
from tests.console.conftest import Console, actions, elements, words
from tests.uploads import upload_both


def links(console: Console, path: str) -> set[str]:
    return {str(one["href"]) for one in elements(console.get(path), "a")}


def test_a_page_leads_to_the_job_of_each_step(console: Console) -> None:
    audit = console.finished()
    plan = seeding.planned(console.services.database, audit)
    steps = console.client.get(f"/v1/plans/{plan}").json()["steps"]
    judgement = steps[2]["result"]["judgement"]
    assert f"/plans/{plan}" in links(console, "/plans")
    shown = links(console, f"/plans/{plan}")
    assert {
        f"/hardenings/{steps[0]['job']}",
        "/models/cifar-resnet20/history",
        f"/audits/{audit}",
        f"/audits/{audit}/report",
        f"/audits/{audit}#judged",
        f"/audits/{audit}/attestation?judgement={judgement}",
    } <= shown
    page = console.get(f"/plans/{plan}")
    assert "inconclusive" in words(page)
    # It has ended with every step done: neither button would do anything.
    assert not {one for one in actions(page) if one.startswith("/plans/")}
    assert console.post(f"/plans/{plan}/retry").status_code == 409


def test_a_plan_is_cancelled_and_a_failed_step_retried(console: Console) -> None:
    model, dataset = upload_both(console.client)
    make_ready(console.services)
    asked = {"model": model, "dataset": dataset, "checks": [{"kind": "uncertainty_span"}]}
    plan = console.client.post("/v1/plans", json={"steps": [{"kind": "audit", "audit": asked}]}).json()["id"]
    page = console.get(f"/plans/{plan}")
    assert {one for one in actions(page) if one.startswith("/plans/")} == {f"/plans/{plan}/cancel"}
    assert [one["data-fragment"] for one in elements(page, "div") if "data-fragment" in one] == [
        f"/plans/{plan}/progress"
    ]
    assert console.post(f"/plans/{plan}/cancel").headers["location"] == f"/plans/{plan}?done=cancelled"
    assert "cancelled" in words(console.get(f"/plans/{plan}?done=cancelled"))
    failed = seeding.planned(console.services.database, console.finished(), fails="audit")
    assert {one for one in actions(console.get(f"/plans/{failed}")) if one.startswith("/plans/")} == {
        f"/plans/{failed}/retry"
    }
    assert console.post(f"/plans/{failed}/retry").status_code == 303
    with console.services.database.read() as session:
        assert session.get_one(PlanRow, failed).state == "running"


def test_who_only_reads_has_no_buttons_and_sees_no_other_project(locked: Console) -> None:
    plan = seeding.planned(locked.services.database, locked.finished(), fails="audit")
    locked.log_in("read")
    page = locked.get(f"/plans/{plan}")
    assert not {one for one in actions(page) if one.startswith("/plans/")}
    assert locked.post(f"/plans/{plan}/retry").status_code == 403
    locked.log_in("run", project="another")
    assert locked.get(f"/plans/{plan}").status_code == 404
    assert f"/plans/{plan}" not in links(locked, "/plans")
