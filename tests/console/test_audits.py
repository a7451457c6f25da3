"""The list of audits and an audit's page, while it runs and when it has ended."""

import json

import pytest

from app.gates.service import judge_ended
from app.policies.presets import POLICIES
from seatrial.families.uncertainty_span.stage_costs import stage_costs
from seatrial.store.tables import AuditRow, BaselineRow, CheckRow, JudgementRow, ModelRow
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.console.conftest import Console, actions, elements, words
from tests.reports import fabricated, fabricated_judgements
from tests.uploads import submission, upload_both


def links(console: Console, path: str) -> list[str]:
    """Return the audits a list shows, by id."""
    hrefs = [str(one["href"]) for one in elements(console.get(path), "a")]
    return [href.removeprefix("/audits/") for href in hrefs if href.startswith("/audits/")]


def submitted(console: Console, **more: object) -> tuple[str, str]:
    """Submit an audit over the API and return its id and its check's."""
    model, dataset = upload_both(console.client)
    make_ready(console.services)
    answer = console.client.post("/v1/audits", json=submission(model, dataset, **more))
    assert answer.status_code == 202, answer.text
    audit = answer.json()["id"]
    return audit, first_check(console.services, audit)


def end(console: Console, check: str, *, fails: bool = False) -> None:
    """Run an audit to its end."""
    open_stage(console.services, check, "attack", [(0, 20)])
    run_shard(console.services, fails=fails)
    if not fails:
        end_check(console.services)


def test_the_list_shows_the_newest_first_and_only_what_is_asked_for(console: Console) -> None:
    passed = console.finished(audit={"verdict": "passed"})
    failed = console.finished(model={"version": "4"}, dataset_of=passed, audit={"verdict": "failed"})
    running = console.running(model={"version": "5"}, dataset_of=passed)
    with console.services.database.read() as session:
        model = session.get_one(AuditRow, failed).model_id
    assert links(console, "/") == [running, failed, passed]
    assert links(console, "/?state=running") == [running]
    assert links(console, "/?verdict=passed") == [passed]
    assert links(console, f"/?model={model}&state=succeeded") == [failed]
    assert links(console, f"/?model={model}&state=running") == []
    assert "No audit matches" in words(console.get("/?verdict=errored"))
    assert links(console, "/?state=nonsense&model=%00&verdict=<b>") == [running, failed, passed]
    row = words(console.get("/?verdict=failed"))
    for told in ("cifar-resnet20 4", "cifar10-test 1", "uncertainty_span", "succeeded", "failed", "UTC"):
        assert told in row


def test_the_filter_offers_no_model_that_was_rejected(console: Console) -> None:
    audit = console.finished()
    with console.services.database.write() as session:
        model = session.get_one(ModelRow, session.get_one(AuditRow, audit).model_id)
        model_id, model.state = model.id, "rejected"
    offered = [one.get("value") for one in elements(console.get("/"), "option")]
    assert model_id not in offered
    assert model_id in [one.get("value") for one in elements(console.get(f"/?model={model_id}"), "option")]


def test_the_list_goes_on_without_a_gap_and_keeps_its_filter(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.console.audits.PER_PAGE", 2)
    first = console.finished()
    others = [console.finished(model={"version": str(n)}, dataset_of=first) for n in range(10, 14)]
    seen: list[str] = []
    path = "/?state=succeeded"
    while path:
        seen += links(console, path)
        older = [str(one["href"]) for one in elements(console.get(path), "a") if one.get("rel") == "next"]
        assert all("state=succeeded" in href for href in older)
        path = older[0] if older else ""
    assert seen == [*reversed(others), first]
    assert console.get("/?cursor=nonsense").status_code == 422


def test_an_empty_service_says_what_to_do(console: Console) -> None:
    assert "There is no audit yet" in words(console.get("/"))


def test_a_page_that_is_not_there_is_told_in_words(console: Console) -> None:
    page = console.get("/audits/aud_nothing")
    assert page.status_code == 404
    assert "There is no audit aud_nothing in this project." in words(page)


def test_a_running_audit_is_followed(console: Console) -> None:
    audit, check = submitted(console)
    open_stage(console.services, check, "attack", [(0, 10), (10, 20)])
    run_shard(console.services)
    page = console.get(f"/audits/{audit}")
    told = words(page)
    assert "10 of 20" in told
    assert "time left" in told
    (live,) = [one for one in elements(page, "div") if "data-events" in one]
    assert live["data-events"] == f"/audits/{audit}/events"
    # Without scripts the page loads itself anew.
    assert [one["content"] for one in elements(page, "meta") if one.get("http-equiv") == "refresh"] == ["5"]
    assert actions(page) == {f"/audits/{audit}/cancel"}
    part = console.get(str(live["data-fragment"]))
    (progress,) = [one for one in elements(part, "div") if one.get("id") == "progress"]
    assert progress["data-over"] == "no"
    params = console.client.get(f"/v1/audits/{audit}").json()["checks"][0]["params"]
    costs = stage_costs(params, 20)
    whole, examples = elements(part, "progress")
    # Half of the first stage.
    assert float(whole.pop("value")) == pytest.approx(costs["attack"] / 2 / sum(costs.values()), abs=1e-4)
    assert whole == {"max": "1", "aria-label": "The whole audit, done"}
    assert examples == {"max": "20", "value": "10", "aria-label": "Examples of uncertainty_span done"}


def test_the_stream_is_the_api_s_and_goes_on_where_it_broke(console: Console) -> None:
    audit, check = submitted(console)
    end(console, check)
    whole = console.get(f"/audits/{audit}/events")
    assert whole.headers["content-type"].startswith("text/event-stream")
    assert whole.text == console.get(f"/v1/audits/{audit}/events").text
    last = whole.text.rstrip().split("\n\n")[-1]
    rest = console.get(f"/audits/{audit}/events", **{"last-event-id": str(whole.text.count("\nid: ") - 1)})
    assert rest.text.rstrip().split("\n\n")[1:] == [last]


def test_a_stranger_s_stream_is_no_login_page(locked: Console) -> None:
    assert locked.get("/audits/aud_x/events").status_code == 401


def test_an_ended_audit_waits_for_its_verdict_and_then_shows_it(console: Console) -> None:
    audit, check = submitted(console, policy="lenient")
    end(console, check)
    page = console.get(f"/audits/{audit}")
    assert 'data-over="no"' in page.text
    judge_ended(console.services)
    page = console.get(f"/audits/{audit}")
    assert "data-over" not in page.text
    with console.services.database.read() as session:
        judgement = session.query(JudgementRow).one().judgement
    told = words(page)
    assert judgement["headline"] in told
    assert "lenient" in told
    assert POLICIES["lenient"][0] in told
    for rule in judgement["rules"]:
        assert rule["reason"] in told
        assert rule["requirement"] in told


def test_an_ended_audit_shows_what_it_found(console: Console) -> None:
    flag = {"code": "zero_gradients", "severity": "warning", "message": "Gradients vanish."}
    audit = console.finished(flags=[flag])
    page = console.get(f"/audits/{audit}")
    told = words(page)
    assert "Is the confidence of cifar-resnet20 3 real?" in told
    assert "zero gradients" in told
    assert "Gradients vanish." in told
    assert "0.9825 [0.9725, 0.9925]" in told
    pictures = [str(one["src"]) for one in elements(page, "img")]
    assert len(pictures) == 2
    for picture in pictures:
        assert console.get(picture).headers["content-type"] == "image/svg+xml"


def test_a_verdict_stands_beside_what_was_attacked(console: Console) -> None:
    audit = console.finished()
    fabricated_judgements.store(console.services.database, audit, fabricated_judgements.CASES["failed"])
    assert "Attacked within l_inf 0.0314 (8/255) of each input, effort standard, " in words(
        console.get(f"/audits/{audit}")
    )


def test_what_failed_is_told_and_can_be_tried_again(console: Console) -> None:
    audit, check = submitted(console)
    end(console, check, fails=True)
    with console.services.database.read() as session:
        if session.get_one(CheckRow, check).state == "running":
            session.close()
            end_check(console.services, state="failed")  # type: ignore[arg-type]
    page = console.get(f"/audits/{audit}")
    assert "It broke." in words(page)
    assert f"/audits/{audit}/retry" in actions(page)
    answer = console.post(f"/audits/{audit}/retry")
    assert answer.headers["location"] == f"/audits/{audit}?done=retried"
    assert "queued again" in words(console.get(answer.headers["location"]))
    again = console.post(f"/audits/{audit}/retry")
    assert again.status_code == 409
    assert "only a failed audit can be retried" in words(again)


def test_an_audit_is_cancelled_once(console: Console) -> None:
    audit, _ = submitted(console)
    assert console.post(f"/audits/{audit}/cancel").headers["location"] == f"/audits/{audit}?done=cancelled"
    page = console.get(f"/audits/{audit}?done=cancelled")
    assert "cancelled" in words(page)
    # Nothing had begun that could stop at a batch.
    assert "Cancelling" not in words(page)
    assert f"/audits/{audit}/cancel" not in actions(page)
    assert console.post(f"/audits/{audit}/cancel").status_code == 409


def test_a_cancelled_audit_is_not_called_an_error(console: Console) -> None:
    audit, _ = submitted(console, policy="strict")
    console.post(f"/audits/{audit}/cancel")
    judge_ended(console.services)
    with console.services.database.read() as session:
        assert session.get_one(AuditRow, audit).verdict == "errored"
    told = words(console.get(f"/audits/{audit}"))
    assert "Not judged: the audit was cancelled." in told
    assert "errored" not in told.partition("How it was run")[0]
    assert "ould not be judged" not in told
    assert "! errored" not in words(console.get("/"))


def test_nothing_that_was_queued_when_the_page_was_loaded_says_so_for_long(console: Console) -> None:
    audit, _ = submitted(console)
    told = words(console.get(f"/audits/{audit}"))
    assert "Not known yet: this check has not ended." in told


def test_what_an_address_says_was_done_is_not_shown_itself(console: Console) -> None:
    audit = console.finished()
    assert "hacked" not in console.get(f"/audits/{audit}?done=hacked").text


def test_an_audit_is_judged_by_another_policy_and_keeps_its_own_verdict(console: Console) -> None:
    audit = console.finished(audit={"verdict": "passed"})
    answer = console.post(f"/audits/{audit}/judge", policy="strict", baseline="")
    assert answer.headers["location"] == f"/audits/{audit}?done=judged#judged"
    told = words(console.get(f"/audits/{audit}"))
    assert "Rules of policy strict" in told
    with console.services.database.read() as session:
        assert session.get_one(AuditRow, audit).verdict == "passed"
    assert console.post(f"/audits/{audit}/judge", policy="lenient").status_code == 303
    assert "Earlier judgements (1)" in words(console.get(f"/audits/{audit}"))


def sections(console: Console, audit: str) -> dict[str, str]:
    """Return what a person reads on an audit's page, by heading."""
    text = words(console.get(f"/audits/{audit}"))
    headings = ("May it ship?", "Is the confidence of", "Also judged by", "How it was run")
    places = {one: text.index(one) for one in headings if one in text}
    ends = [*list(places.values())[1:], len(text)]
    return {heading: text[at:end] for (heading, at), end in zip(places.items(), ends, strict=True)}


def test_no_later_judgement_takes_the_place_of_the_verdict(console: Console) -> None:
    audit, check = submitted(console, policy="strict")
    end(console, check)
    judge_ended(console.services)
    own = console.client.get(f"/v1/audits/{audit}").json()
    easy = {"name": "easy", "rules": [{"metric": "uncertainty_span.mus", "max": 100.0, "interval": "ignored"}]}
    assert console.client.post("/v1/policies", json=easy).status_code == 201
    for _ in range(21):
        assert console.post(f"/audits/{audit}/judge", policy="easy").status_code == 303
    told = sections(console, audit)
    assert own["judgement"]["headline"] in told["May it ship?"]
    assert "easy" not in told["May it ship?"]
    assert "The verdict stays that of strict" in told["Also judged by"]
    assert "Rules of policy easy version 1" in told["Also judged by"]


def test_a_policy_or_baseline_that_is_not_there_is_told(console: Console) -> None:
    audit = console.finished()
    for fields in ({"policy": "nonsense"}, {"policy": ""}, {"policy": "standard", "baseline": "nobody"}):
        assert console.post(f"/audits/{audit}/judge", **fields).status_code == 422, fields
    page = console.post(f"/audits/{audit}/judge", policy="nonsense")
    assert "There is no policy" in words(page)


def test_an_audit_is_promoted_and_compared_with(console: Console) -> None:
    first = console.finished(audit={"verdict": "passed"})
    second = console.finished(model={"version": "4"}, dataset_of=first, under=1.1)
    answer = console.post(f"/audits/{first}/promote", name="champion", note="The one in production.")
    assert answer.headers["location"] == f"/audits/{first}?done=promoted"
    with console.services.database.read() as session:
        row = session.query(BaselineRow).one()
        assert (row.audit_id, row.name, row.note) == (first, "champion", "The one in production.")
    console.post(f"/audits/{second}/judge", policy="standard")
    page = console.get(f"/audits/{second}")
    assert f"/compare?a={first}&b={second}" in {str(one["href"]) for one in elements(page, "a")}
    assert console.post(f"/audits/{first}/promote", name="No Name").status_code == 422
    assert "baseline champion" in words(console.get(f"/audits/{first}"))
    assert "baseline champion" not in words(page)


@pytest.mark.parametrize("verdict", ["failed", None])
def test_what_did_not_pass_is_promoted_only_after_a_second_question(console: Console, verdict: str | None) -> None:
    before = console.finished(audit={"verdict": "passed"})
    console.post(f"/audits/{before}/promote", name="champion")
    audit = console.finished(model={"version": "4"}, dataset_of=before, audit={"verdict": verdict})
    asked = console.post(f"/audits/{audit}/promote", name="champion", note="Why.")
    assert asked.status_code == 200
    told = words(asked)
    assert "Promote an audit that did not pass?" in told
    assert (f"has the verdict ✗ {verdict}." if verdict else "has no verdict") in told
    assert f"It would replace aud_…{before[-8:]}" in told
    with console.services.database.read() as session:
        assert [row.audit_id for row in session.query(BaselineRow)] == [before]
    sent = {str(one["name"]): str(one["value"]) for one in elements(asked, "input") if one.get("type") == "hidden"}
    assert console.post(f"/audits/{audit}/promote", **sent).status_code == 303
    with console.services.database.read() as session:
        row = session.query(BaselineRow).filter_by(audit_id=audit).one()
        assert (row.name, row.note) == ("champion", "Why.")
    assert "baseline champion" not in words(console.get(f"/audits/{before}"))


def test_who_may_not_promote_it_is_told_before(locked: Console) -> None:
    audit = locked.finished(audit={"verdict": "failed"})
    locked.log_in("run")
    page = locked.get(f"/audits/{audit}")
    assert f"/audits/{audit}/promote" not in actions(page)
    assert "Its verdict is failed: a key with scope run promotes what passed" in words(page)
    assert locked.post(f"/audits/{audit}/promote", name="champion", sure="yes").status_code == 403


def test_everything_can_be_taken_away(console: Console) -> None:
    audit, check = submitted(console, policy="lenient")
    end(console, check)
    judge_ended(console.services)
    page = console.get(f"/audits/{audit}")
    hrefs = [str(one["href"]) for one in elements(page, "a")]
    offered = [href for href in hrefs if f"/audits/{audit}/" in href]
    kinds = {}
    for href in offered:
        answer = console.get(href)
        assert answer.status_code == 200, (href, answer.text)
        kinds[href.removeprefix(f"/audits/{audit}/")] = answer.headers["content-type"].partition(";")[0]
    assert kinds == {
        "report": "text/html",
        "report?format=html": "text/html",
        "report?format=json": "application/json",
        "report?format=markdown": "text/markdown",
        "report?format=junit": "application/junit+xml",
        "report?format=sarif": "application/sarif+json",
        "report?format=cyclonedx": "application/vnd.cyclonedx+json",
        "report?format=model-index": "application/yaml",
        "report?format=annex-iv": "text/html",
        "report?format=annex-iv-markdown": "text/markdown",
        "bundle": "application/zip",
        f"records/{check}?format=parquet": "application/vnd.apache.parquet",
        f"records/{check}?format=jsonl": "application/x-ndjson",
        f"records/{check}?format=csv": "text/csv",
    }
    assert json.loads(console.get(f"/audits/{audit}/report?format=json").text)["audit"] == audit


def test_what_needs_a_verdict_is_not_offered_without_one(console: Console) -> None:
    page = console.get(f"/audits/{console.finished()}").text
    assert "format=markdown" in page
    assert "format=junit" not in page


def test_the_report_opens_with_its_own_policy(console: Console) -> None:
    report = console.get(f"/audits/{console.finished()}/report")
    assert report.headers["content-security-policy"].endswith("sandbox")
    assert "script" not in report.headers["content-security-policy"]
    assert fabricated.SVG not in report.text


def test_model_and_dataset_lead_to_their_pages_and_back(console: Console) -> None:
    audit = console.finished()
    with console.services.database.read() as session:
        dataset = session.get_one(AuditRow, audit).dataset_id
    links = [one.get("href") for one in elements(console.get(f"/audits/{audit}"), "a")]
    assert {"/models/cifar-resnet20/history", f"/datasets/{dataset}"} <= set(links)
    for path in ("/models", "/models/cifar-resnet20/history", f"/datasets/{dataset}", "/policies/standard"):
        assert console.get(path).status_code == 200
    assert "/models/cifar-resnet20/history" in [one.get("href") for one in elements(console.get("/models"), "a")]
    # In the navigation and below the page.
    for path, back in (("/models/cifar-resnet20/history", "/models"), ("/policies/standard", "/policies")):
        assert [one.get("href") for one in elements(console.get(path), "a")].count(back) == 2, path


def test_flags_lead_to_a_form_with_the_audit_s_settings(console: Console) -> None:
    flag = {"code": "zero_gradients", "severity": "warning", "message": "Some were zero."}
    audit = console.finished(flags=[flag])
    links = [one.get("href") for one in elements(console.get(f"/audits/{audit}"), "a")]
    assert links.count(f"/submit?audit={audit}") == 2
    assert console.get(f"/submit?audit={audit}").status_code == 200
