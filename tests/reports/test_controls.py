"""Controls: what counts as evidence, and what does not."""

from typing import Any

import pytest

from app.reports.controls import controls_for, state_controls
from app.reports.sarif import render_sarif
from seatrial.contracts.controls import controls
from seatrial.contracts.estimates import Flag
from seatrial.contracts.policies import RuleOutcome
from seatrial.contracts.registry import families
from seatrial.reporting.schemas import ReportCheck, ReportControl, ReportEstimate
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import judged, outcome

ADAPTIVE = "transductive_attack.robustness[defence=dent,attack=gmsa_min]"
TRANSFERRED = "transductive_attack.robustness[defence=dent,attack=transfer_pgd]"
CERTIFIED = "certified_calibration.certified_accuracy[radius=0.25]"
ECE = "calibration.ece"


def check(*names: str, flags: tuple[Flag, ...] = (), value: float | None = 0.5) -> ReportCheck:
    """Return a check with such numbers."""
    given: dict[str, Any] = {"value": value, "low": 0.4, "high": 0.6, "n": 100, "method": "gaffke"}
    estimates = [ReportEstimate(**given, name=name, unit="1", better="higher", description="") for name in names]
    return ReportCheck.model_construct(kind=names[0].partition(".")[0], estimates=estimates, flags=list(flags))


def flag(code: str, severity: Any) -> Flag:
    """Return a flag."""
    return Flag(code=code, severity=severity, message="")


def standing(control: str, one: ReportCheck, *outcomes: RuleOutcome) -> str:
    """Return what a check and a verdict are worth for a control."""
    found = state_controls([one], judged("passed", *outcomes).judgement if outcomes else None)
    return {told.id: told for told in found}[control].standing


def compared(kind: str, metric: str) -> RuleOutcome:
    """Return the outcome of a rule that compares with a baseline."""
    one = outcome("passed", metric)
    return one.model_copy(update={"outcome": kind, "counts_as": kind, "baseline": one.estimate})


def test_every_control_says_where_it_is_published_and_is_spoken_for_by_some_family() -> None:
    named = {one.control for spec in families().values() for one in spec.evidence}
    assert named == {control.id for control in controls()}
    assert len({control.id for control in controls()}) == len(controls())
    assert all(control.source.startswith("https://") and control.version for control in controls())


@pytest.mark.parametrize("kind", families())
def test_what_a_family_names_as_evidence_is_published_by_it(kind: str) -> None:
    spec = families()[kind]
    for one in spec.evidence:
        assert set(one.metrics) <= {metric.name for metric in spec.metrics}, one
        assert set(one.unless) <= {flag.code for flag in spec.flags}, one
        keys = {key for metric in spec.metrics if metric.name in one.metrics for key in metric.qualifiers}
        assert set(one.qualifiers) <= keys, one


def test_attacks_that_do_not_know_the_defence_are_not_adaptive() -> None:
    assert standing("AISVS 11.2.4", check(TRANSFERRED)) == "none"
    assert standing("AISVS 11.2.4", check(ADAPTIVE)) == "partial"
    assert standing("AISVS 11.2.4", check(ADAPTIVE, flags=(flag("no_adaptive_attack", "warning"),))) == "none"
    assert standing("AISVS 11.2.1", check(TRANSFERRED)) == "evidence"


@pytest.mark.parametrize("control", [control.id for control in controls()])
def test_numbers_in_doubt_or_undefined_are_evidence_for_nothing(control: str) -> None:
    for one in (
        check(ADAPTIVE, flags=(flag("adaptive_weaker_than_transfer", "error"),)),
        check(CERTIFIED, value=None),
        check("other_family.robustness"),
    ):
        assert standing(control, one, outcome("passed", one.estimates[0].name)) == "none"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (outcome("passed", CERTIFIED), "evidence"),
        (outcome("failed", CERTIFIED), "evidence"),
        (outcome("inconclusive", CERTIFIED), "partial"),
        (outcome("inconclusive", CERTIFIED, counts_as="passed"), "partial"),
        (outcome("errored", CERTIFIED), "partial"),
        (outcome("passed", CERTIFIED, severity="warn"), "partial"),
        (outcome("passed", "calibration.ece"), "partial"),
    ],
)
def test_a_threshold_is_one_that_blocks_and_was_decided(made: RuleOutcome, wanted: str) -> None:
    assert standing("AISVS 11.2.6", check(CERTIFIED), made) == wanted
    assert standing("AISVS 11.2.5", check(CERTIFIED), made) == "evidence"


@pytest.mark.parametrize("kind", ["failed", "inconclusive", "errored", "skipped"])
def test_what_must_hold_is_shown_by_rules_that_all_passed(kind: str) -> None:
    assert standing("AISVS 11.3.1", check(ECE), outcome("passed", ECE)) == "evidence"
    assert standing("AISVS 11.3.1", check(ECE), outcome("passed", ECE), outcome(kind, ECE)) == "partial"
    assert standing("AISVS 11.3.1", check(ECE), outcome(kind, ECE, counts_as="passed")) == "partial"
    assert standing("AISVS 11.3.1", check("calibration.ece[arm=attacked]"), outcome("passed")) == "none"


def test_a_loss_between_releases_is_ruled_out_by_a_comparison_only() -> None:
    one = check(ADAPTIVE)
    assert standing("AISVS 11.2.4", one, outcome("passed", ADAPTIVE)) == "partial"
    assert standing("AISVS 11.2.4", one, compared("passed", ADAPTIVE)) == "evidence"
    assert standing("AISVS 11.2.4", one, compared("failed", ADAPTIVE)) == "partial"
    # That it was repeated is shown by a comparison that failed as well.
    assert standing("AISVS 11.2.7", one, compared("failed", ADAPTIVE)) == "evidence"
    assert standing("AISVS 11.2.7", one, outcome("passed", ADAPTIVE)) == "partial"


def test_reports_name_the_controls_and_what_is_missing(one_audit: OneAudit) -> None:
    told = [ReportControl.model_validate(one) for one in one_audit.get(format="json").json()["controls"]]
    assert [one.id for one in told] == [control.id for control in controls()]
    page, comment = one_audit.get(format="html").text, one_audit.get(format="markdown").text
    for one in told:
        assert one.id in page
        assert (one.missing == "") == (one.standing == "evidence")
        assert (one.id in comment) == (one.standing != "none")


def test_alerts_point_at_the_controls_of_their_rule(one_audit: OneAudit) -> None:
    run = render_sarif(one_audit.reports.compose(one_audit.id), judged("failed", outcome("failed")))["runs"][0]
    taxa = {one["name"]: {taxon["id"] for taxon in one["taxa"]} for one in run["taxonomies"]}
    [rule] = run["tool"]["driver"]["rules"]
    pointed = {(one["target"]["toolComponent"]["name"], one["target"]["id"]) for one in rule["relationships"]}
    assert pointed == {(one.framework, one.id) for one in controls_for("uncertainty_span.mus")}
    assert ("MITRE ATLAS", "AML.T0015") in pointed
    assert all(control in taxa[framework] for framework, control in pointed)
    assert set(run["properties"]["controls"].values()) <= {"evidence", "partial", "none"}
