"""JUnit XML as its readers find it."""

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from app.reports.junit import render_junit
from seatrial.reporting.outcomes import Judged
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, DIGEST, outcome
from tests.reports.fabricated_judgements import judged as made

# What Jenkins' junit-10.xsd lets stand where; attributes it demands are in capitals here.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"NAME", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "property": {"NAME", "VALUE"},
    "testcase": {"NAME", "classname", "TIME"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}
INSIDE = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def rendered(one: OneAudit, judged: Judged) -> bytes:
    return render_junit(one.reports.compose(one.id), judged)


def read(one: OneAudit, judged: Judged) -> JUnitXml:
    return JUnitXml.fromstring(rendered(one, judged))


@pytest.mark.parametrize("case", CASES)
def test_the_layout_is_the_one_readers_agree_on(one_audit: OneAudit, case: str) -> None:
    for element in read(one_audit, CASES[case])._elem.iter():
        allowed = ATTRIBUTES.get(element.tag, set())
        assert set(element.attrib) <= {name.lower() for name in allowed}, element.tag
        assert {name.lower() for name in allowed if name.isupper()} <= set(element.attrib), element.tag
        assert {child.tag for child in element} <= INSIDE.get(element.tag, set()), element.tag


@pytest.mark.parametrize("case", CASES)
def test_its_counts_are_those_of_its_testcases(one_audit: OneAudit, case: str) -> None:
    xml = read(one_audit, CASES[case])
    told = (xml.tests, xml.failures, xml.errors, xml.skipped)
    xml.update_statistics()
    assert told == (xml.tests, xml.failures, xml.errors, xml.skipped)


@pytest.mark.parametrize(
    ("one", "kind", "type"),
    [
        (outcome("passed"), None, None),
        (outcome("failed"), Failure, "failed"),
        (outcome("inconclusive"), Failure, "inconclusive"),
        (outcome("inconclusive", counts_as="failed"), Failure, "inconclusive"),
        (outcome("inconclusive", counts_as="passed"), None, None),
        (outcome("errored"), Error, "errored"),
        (outcome("skipped", counts_as="errored"), Error, "skipped"),
        (outcome("skipped"), Skipped, None),
        (outcome("failed", severity="warn"), None, None),
        (outcome("errored", severity="warn"), None, None),
        (outcome("inconclusive", severity="warn"), None, None),
    ],
    ids=lambda value: f"{value.outcome}-as-{value.counts_as}-{value.severity}" if hasattr(value, "outcome") else "",
)
def test_an_outcome_is_told_as_what_it_is_to_a_build(one_audit: OneAudit, one, kind, type) -> None:
    (suite,) = read(one_audit, made("passed", one))
    (case,) = suite
    assert [found.__class__ for found in case.result] == ([kind] if kind else [])
    assert [found.type for found in case.result] == ([type] if kind else [])


def test_a_rule_that_does_not_hold_tells_interval_demand_and_reason(one_audit: OneAudit) -> None:
    (suite,) = read(one_audit, made("failed", outcome("failed")))
    (failure,) = next(iter(suite)).result
    for told in ("0.7100 [0.6800, 0.7400], n = 400", "at most 0.5", "It is failed for a reason."):
        assert told in failure.message
        assert told in failure.text


def test_a_wider_interval_that_decided_is_told_beside_the_measured_one(one_audit: OneAudit) -> None:
    measured = outcome("inconclusive").estimate
    wider = outcome("inconclusive", judged=measured.model_copy(update={"low": 0.4, "high": 0.6}))
    (suite,) = read(one_audit, made("inconclusive", wider))
    (failure,) = next(iter(suite)).result
    assert "0.5100 [0.4800, 0.5400], n = 400; judged by [0.4000, 0.6000]" in failure.message


def test_a_warning_says_so_without_failing_anything(one_audit: OneAudit) -> None:
    xml = read(one_audit, CASES["warned"])
    assert (xml.failures, xml.errors) == (0, 0)
    last = list(next(iter(xml)))[-1]
    assert "reported only: this rule does not block" in last.system_out
    assert "outcome: failed" in last.system_out


def test_what_is_open_and_let_pass_says_that_the_policy_counts_it(one_audit: OneAudit) -> None:
    (case,) = next(iter(read(one_audit, CASES["open-and-let-pass"])))
    assert case.system_out.startswith("counts as passed by the policy (undecided: pass)\n")
    assert "reported only" not in case.system_out
    (warning,) = next(
        iter(read(one_audit, made("passed", outcome("inconclusive", severity="warn", counts_as="passed"))))
    )
    assert warning.system_out.startswith("reported only: this rule does not block\n")


def test_a_gate_that_tested_nothing_is_an_error(one_audit: OneAudit) -> None:
    xml = read(one_audit, CASES["nothing-tested"])
    assert xml.errors == 1
    assert [case.name for case in next(iter(xml)) if isinstance(case.result[0], Error)] == ["verdict"]


def test_the_suite_names_audit_policy_and_digests(one_audit: OneAudit) -> None:
    suite = next(iter(read(one_audit, CASES["failed"])))
    told = {one.name: one.value for one in suite.properties()}
    assert told["audit"] == one_audit.id
    assert told["policy"] == "release"
    assert told["policy.digest"] == DIGEST
    assert told["model"] == "cifar-resnet20 3"
    assert told["model.digest"].startswith("sha256:")
    assert told["dataset.digest"].startswith("sha256:")


def test_no_two_testcases_have_one_name(one_audit: OneAudit) -> None:
    names = ["uncertainty_span.mus", "uncertainty_span.msus", "uncertainty_span.mus"]
    (suite,) = read(one_audit, made("passed", *(outcome("passed", name, label="The span") for name in names)))
    assert len({case.name for case in suite}) == len(names)


@pytest.mark.parametrize("text", [fabricated.HOSTILE, "\x00\x1b\ud800 ]]> &amp;"], ids=["markup", "unwritable"])
def test_hostile_text_stays_text(one_audit: OneAudit, text: str) -> None:
    hostile = made("failed", outcome("failed").model_copy(update={"label": text, "reason": text}))
    (suite,) = read(one_audit, hostile)
    (failure,) = next(iter(suite)).result
    assert text.encode("ascii", "ignore").decode().strip("\x00\x1b ") in failure.text
