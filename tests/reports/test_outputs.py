"""One verdict in every output, and which one it is."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from sqlalchemy import func, select

from app.cli.verdicts import print_judgement
from app.reports.negotiation import MEDIA_TYPES
from seatrial.contracts.policies import Judgement, Policy
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, JudgementRow, PolicyRow
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, DIGEST, outcome, store
from tests.reports.fabricated_judgements import judged as made
from tests.rows import add_audit


@pytest.fixture
def one(one_audit: OneAudit) -> OneAudit:
    """The audit as it was before any test."""
    one_audit.change(audit={"verdict": None}, state="succeeded")
    return one_audit


def verdict_in(kind: str, answer: Any) -> str:
    """Return the verdict as a reader of that format finds it."""
    if kind == "html":
        return re.search(r'<h2 id="verdict">Verdict: <strong>(\w+)</strong>', answer.text)[1]
    if kind == "json":
        body = answer.json()
        assert body["judgement"]["verdict"] == body["verdict"]
        return body["verdict"]
    if kind.startswith("annex-iv"):
        return re.search(r"Verdict: (\w+)\\?\.", answer.text)[1]
    if kind == "markdown":
        return re.match(r"## Seatrial: \S+ (\w+)\n", answer.text)[1]
    if kind == "junit":
        return ET.fromstring(answer.text).find(".//property[@name='verdict']").get("value")
    if kind == "cyclonedx":
        told = {one["name"]: one["value"] for one in answer.json()["metadata"]["properties"]}
        return told["seatrial:verdict"]
    if kind == "model-index":
        return yaml.safe_load(answer.text)["model-index"][0]["results"][0]["metrics"][0]["value"]
    return answer.json()["runs"][0]["properties"]["verdict"]


@pytest.mark.parametrize("case", CASES)
def test_every_output_prints_the_same_verdict(one: OneAudit, case: str) -> None:
    one.store(CASES[case])
    told = {}
    for kind, media_type in MEDIA_TYPES.items():
        # Of two kinds of one media type the header gets the first.
        answer = one.get(format=kind) if kind.startswith("annex-iv") else one.get(media_type)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].partition(";")[0] == media_type
        told[kind] = verdict_in(kind, answer)
        assert CASES[case].judgement.headline in answer.text.replace("\\", "")
    assert told == dict.fromkeys(MEDIA_TYPES, CASES[case].judgement.verdict)


@pytest.mark.parametrize("case", CASES)
def test_what_a_pipeline_reads_is_red_exactly_when_the_verdict_is_not_passed(one: OneAudit, case: str) -> None:
    one.store(CASES[case])
    is_passed = CASES[case].judgement.verdict == "passed"
    suites = ET.fromstring(one.get(format="junit").text)
    assert (not suites.findall(".//failure") and not suites.findall(".//error")) == is_passed
    results = one.get(format="sarif").json()["runs"][0]["results"]
    assert all(result["level"] != "error" for result in results) == is_passed


@pytest.mark.parametrize("kind", ["junit", "sarif"])
def test_without_a_verdict_there_is_nothing_for_a_pipeline_to_read(one: OneAudit, kind: str) -> None:
    answer = one.get(format=kind)
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["code"] == "no-verdict"
    assert "?policy=standard" in problem["detail"]
    assert "/judge" in problem["detail"]


def test_an_audit_that_runs_is_said_to_be_judged_when_it_ends(one: OneAudit) -> None:
    one.change(state="running")
    answer = one.get(format="junit")
    assert answer.status_code == 409
    assert "it has ended" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["html", "json", "markdown"])
def test_what_people_read_is_there_without_a_verdict(one: OneAudit, kind: str) -> None:
    answer = one.get(format=kind)
    assert answer.status_code == 200
    assert "Verdict:" not in answer.text


def test_a_stored_judgement_is_printed_instead_of_the_audits_own(one: OneAudit) -> None:
    one.store(CASES["passed"])
    other = one.store(CASES["failed"], is_own=False)
    body = one.get(format="json", judgement=other).json()
    assert (body["judgement"]["id"], body["verdict"]) == (other, "failed")
    assert one.get(format="json").json()["verdict"] == "passed"


def test_the_judgement_of_another_audit_is_not_found(one: OneAudit) -> None:
    elsewhere = add_audit(one.reports.database)
    other = store(one.reports.database, elsewhere, CASES["passed"])
    assert one.get(format="json", judgement=other).status_code == 404


def test_a_verdict_that_a_retry_took_back_is_not_printed(one: OneAudit) -> None:
    one.store(CASES["failed"])
    one.change(audit={"verdict": None})
    assert one.get(format="json").json()["judgement"] is None
    assert one.get(format="sarif").status_code == 409


def test_a_policy_and_a_judgement_at_once_are_refused(one: OneAudit) -> None:
    answer = one.get(policy="standard", judgement="jdg_x")
    assert answer.status_code == 422
    assert answer.json()["errors"][0] == {
        "in": "query",
        "pointer": "/policy",
        "detail": "Ask for a policy or for a judgement, not both.",
    }


def test_the_page_tells_each_rule_with_its_interval_and_reason(one: OneAudit) -> None:
    one.store(made("failed", outcome("failed", label="The span", severity="block")))
    page = one.get(format="html").text
    assert "0.7100 [0.6800, 0.7400], n = 400" in page
    assert "It is failed for a reason." in page
    assert 'aria-label="0.6800 to 0.7400, around 0.7100; the bound is 0.5"' in page
    assert page.index("Verdict:") < page.index("Numbers")


def test_one_number_has_one_interval_wherever_it_is_read(one: OneAudit, capsys: pytest.CaptureFixture[str]) -> None:
    client = one.reports.client
    stored = client.get(f"/v1/audits/{one.id}").json()["checks"][0]["result"]["estimates"]["mus"]
    policy = {"name": "strictly", "rules": [{"metric": "uncertainty_span.mus", "max": 0.5}]}
    judged = client.post(f"/v1/audits/{one.id}/judge", json={"policy": policy}).json()
    (report,) = one.get(format="json").json()["checks"]
    (reported,) = [told for told in report["estimates"] if told["name"] == "uncertainty_span.mus"]
    assert judged["rules"][0]["judged"] == {name: reported[name] for name in stored} == stored
    in_words = [told for told in report["answer"]["findings"] if "1.38 nat" in told]
    assert in_words == ["The span of an example is 1.38 nat on average (95% interval 1.35 to 1.41), over 400 examples."]
    print_judgement(Judgement.model_validate(judged))
    pages = {kind: one.get(format=kind).text for kind in ("html", "markdown")}
    pages |= {"console": client.get(f"/audits/{one.id}").text, "gate": capsys.readouterr().out}
    told = {
        name: set(re.findall(r"1\.3800\D*(\[[\d., ]+\])", re.sub(r"<[^>]+>", "", page))) for name, page in pages.items()
    }
    assert told == {name: {"[1.3500, 1.4100]"} for name in pages}


def test_hostile_labels_stay_text_on_the_page(one: OneAudit) -> None:
    hostile = fabricated.HOSTILE
    one.store(made("failed", outcome("failed", label=hostile, reason=hostile), headline=hostile))
    page = one.get(format="html").text
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_policy_judges_for_one_answer_and_nothing_is_stored(one: OneAudit) -> None:
    rules = [{"metric": "uncertainty_span.mus", "max": 0.5}]
    policy = Policy.model_validate({"name": "strictly", "rules": rules}).model_dump(mode="json")
    with one.reports.database.write() as session:
        project_id = session.get_one(AuditRow, one.id).project_id
        row = {"id": new_id("pol"), "project_id": project_id, "name": "strictly", "version": 1, "digest": DIGEST}
        session.add(PolicyRow(**row, document=policy))
        before = session.scalar(select(func.count()).select_from(JudgementRow))
    told = {kind: verdict_in(kind, one.get(format=kind, policy="strictly")) for kind in MEDIA_TYPES}
    assert told == dict.fromkeys(MEDIA_TYPES, "failed")
    with one.reports.database.read() as session:
        assert session.scalar(select(func.count()).select_from(JudgementRow)) == before
        assert session.get_one(AuditRow, one.id).verdict is None


def test_a_policy_there_is_not_is_the_querys_fault(one: OneAudit) -> None:
    answer = one.get(format="junit", policy="nonsense")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["in"] == "query"
    assert answer.json()["errors"][0]["pointer"] == "/policy"
