"""What a report says about audits in every state."""

import pytest

from app.reports.html import render_html
from app.reports.service import find_metric
from seatrial.contracts.estimates import Result
from seatrial.families.uncertainty_span import narrative
from seatrial.store.tables import CheckRow, ShardRow
from tests.reports import fabricated
from tests.reports.conftest import Reports
from tests.rows import add_audit

FLAG = {"code": "zero_gradients", "severity": "warning", "message": "The attack could not move. Attack the logits."}


def test_a_large_span_answers_no(reports: Reports) -> None:
    report = reports.compose(reports.finished(over=0.02, under=1.4))
    assert report.answer.standing == "not_real"
    findings = " ".join(report.checks[0].answer.findings)
    assert "The method's two attacks move the mean entropy between 0.02 and 1.40 nat (unattacked 0.31)" in findings
    assert "2 of 400 examples gave no finite output" in findings


def test_a_small_span_with_a_flag_is_not_trusted(reports: Reports) -> None:
    report = reports.compose(reports.finished(over=0.30, under=0.32, flags=[FLAG]))
    assert report.answer.standing == "unproven"
    assert "the span is no evidence of real confidence (zero gradients)" in report.answer.headline
    page = render_html(report)
    assert page.index(FLAG["message"]) < page.index(">mus<")


def test_an_information_takes_no_trust_away(reports: Reports) -> None:
    flags = [{**FLAG, "severity": "info"}]
    report = reports.compose(reports.finished(over=0.2, under=0.8, flags=flags))
    assert report.answer.standing == "partly"


def test_a_helped_attack_that_reaches_further_is_believed(reports: Reports) -> None:
    audit_id = reports.finished(over=0.0, clean=0.0, under=0.0, flags=[FLAG])
    measured = fabricated.result(over=0.0, clean=0.0, under=0.0, flags=[FLAG])
    measured["estimates"]["mus_worst"] = fabricated.estimate(2.0)
    fabricated.change(reports.database, audit_id, check={"result": measured})
    report = reports.compose(audit_id)
    assert report.answer.standing == "not_real"
    assert "The larger number is the one to trust." in " ".join(report.checks[0].answer.findings)


def test_poor_calibration_without_an_attack_answers_no(reports: Reports) -> None:
    audit_id = reports.finished()
    measured = fabricated.result(over=0.30, under=0.32)
    measured["estimates"]["ece[arm=clean]"] = fabricated.estimate(0.4)
    fabricated.change(reports.database, audit_id, check={"result": measured})
    assert "even unattacked" in reports.compose(audit_id).answer.headline


def test_a_small_span_without_a_doubt_answers_yes_against_this_attack(reports: Reports) -> None:
    audit_id = reports.finished()
    measured = fabricated.result(over=0.30, under=0.35)
    kept = {name: value for name, value in measured["estimates"].items() if not name.startswith("auroc")}
    fabricated.change(reports.database, audit_id, check={"result": {**measured, "estimates": kept}})
    report = reports.compose(audit_id)
    assert report.answer.standing == "real"
    assert report.answer.headline.startswith("Yes, against this attack")
    findings = report.checks[0].answer.findings
    (span,) = (told for told in findings if told.startswith("The span of an example is "))
    assert "mus_worst" not in span
    worst = {**kept, "mus_worst": fabricated.estimate(0.06)}
    fabricated.change(reports.database, audit_id, check={"result": {**measured, "estimates": worst}})
    told = reports.compose(audit_id).checks[0].answer.findings
    assert any("By the widest of all attacks for each (mus_worst) it is 0.06 nat" in one for one in told)


def test_undefined_numbers_are_said_to_be_undefined(reports: Reports) -> None:
    audit_id = reports.finished()
    measured = fabricated.result()
    measured["estimates"]["mus"] = fabricated.estimate(None)
    fabricated.change(reports.database, audit_id, check={"result": measured})
    report = reports.compose(audit_id)
    assert report.answer.standing == "unproven"
    assert ">undefined<" in render_html(report)


@pytest.mark.parametrize("state", ["queued", "running", "cancelling"])
def test_an_unfinished_audit_says_so(reports: Reports, state: str) -> None:
    audit_id = add_audit(reports.database, checks=2)
    fabricated.change(reports.database, audit_id, state=state)
    report = reports.compose(audit_id)
    page = render_html(report)
    assert not report.is_final
    assert report.answer.standing == "pending"
    assert "This report is partial" in page
    assert "2 of 2 checks have no numbers" in page


def test_a_running_check_tells_its_progress(reports: Reports) -> None:
    audit_id = add_audit(reports.database)
    fabricated.change(reports.database, audit_id, check={"stage": "attack"}, state="running")
    with reports.database.write() as session:
        check_id = session.query(CheckRow).filter_by(audit_id=audit_id).one().id
        for n in range(2):
            start = 50 * n
            values = {"start": start, "stop": start + 50, "ordinal": n, "done": 10}
            session.add(ShardRow(id=f"shd_{n}_{check_id}", check_id=check_id, stage="attack", **values))
    assert reports.compose(audit_id).checks[0].progress == "running: stage attack, 20 of 100 examples"


def test_a_failed_check_gives_its_reason_and_the_other_keeps_its_numbers(reports: Reports) -> None:
    audit_id = reports.finished()
    problem = {"code": "shard-failed", "title": "A shard failed", "detail": "The worker was killed 3 times."}
    with reports.database.write() as session:
        session.add(
            CheckRow(
                id="chk_second",
                audit_id=audit_id,
                ordinal=1,
                kind="uncertainty_span",
                params={"kind": "uncertainty_span"},
                state="failed",
                error=problem,
            )
        )
    fabricated.change(reports.database, audit_id, audit={"state": "failed"})
    report = reports.compose(audit_id)
    page = render_html(report)
    assert report.checks[0].estimates
    assert "The worker was killed 3 times." in page
    assert "1 of 2 checks have no numbers" in page
    assert report.checks[1].answer.standing == "unproven"


def test_a_cancelled_audit_says_so(reports: Reports) -> None:
    audit_id = add_audit(reports.database)
    fabricated.change(reports.database, audit_id, state="cancelled")
    assert "was cancelled" in render_html(reports.compose(audit_id))


def test_a_figure_whose_bytes_are_gone_is_said_to_be_gone(reports: Reports) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, check={"figures": {"entropy": "sha256:" + "a" * 64}})
    assert "This figure is no longer in the artifact store" in render_html(reports.compose(audit_id))


@pytest.mark.slow
def test_a_family_without_words_of_its_own_still_has_a_report(reports: Reports) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, check={"kind": "later_family", "params": {"steps": 3}})
    report = reports.compose(audit_id)
    assert report.checks[0].title == "Later family"
    assert report.checks[0].estimates[0].name == "later_family.mus"
    assert "later_family" in render_html(report)


def test_the_outliers_are_named_among_the_sources(reports: Reports) -> None:
    audit_id = reports.finished()
    data = next(source for source in reports.compose(audit_id).sources if source.role == "dataset")
    params = {"kind": "uncertainty_span", "outliers": {"dataset": data.id}}
    fabricated.change(reports.database, audit_id, check={"params": params})
    sources = reports.compose(audit_id).sources
    assert [(source.role, source.id) for source in sources[1:]] == [
        ("dataset", data.id),
        ("outliers/dataset", data.id),
    ]


def test_the_headline_says_what_the_span_is(reports: Reports) -> None:
    large = reports.compose(reports.finished(over=0.04, under=1.0)).answer
    assert large.standing == "not_real"
    assert large.headline == (
        "No: an attacker within l_inf 8/255 moves this model's uncertainty over 42% of its whole range."
    )
    # A verdict may name the number at the calibrated temperature: a page tells both, where they differ.
    found = Result.model_validate(fabricated.result(over=0.04, under=1.0))
    (span,) = (one for name, one in found.estimates.items() if name == "mus")
    for shift, told in ((0.2, ", and over 50% at a calibrated temperature."), (0.01, " over 42% of its whole range.")):
        found.estimates["mus_calibrated"] = span.model_copy(update={"value": (span.value or 0.0) + shift})
        headline = narrative.answer(found, {"norm": "linf", "epsilon": 0.1}, 10).headline
        assert headline.endswith(told), headline
    whole = reports.compose(reports.finished(over=0.0, under=2.2)).answer
    assert "as certain or uncertain as they like" in whole.headline


def test_the_step_size_used_is_printed(reports: Reports) -> None:
    audit_id = reports.finished()
    params = {"kind": "uncertainty_span", "epsilon": 8 / 255, "steps": 40, "step_size": None}
    fabricated.change(reports.database, audit_id, check={"params": params})
    step_size = {param.name: param for param in reports.compose(audit_id).checks[0].params}["step_size"]
    assert step_size.value == pytest.approx(0.5 / 255)
    assert step_size.is_default
    fabricated.change(reports.database, audit_id, check={"params": {**params, "step_size": 0.01}})
    step_size = {param.name: param for param in reports.compose(audit_id).checks[0].params}["step_size"]
    assert (step_size.value, step_size.is_default) == (0.01, False)


def test_defaults_are_told_from_what_was_asked(reports: Reports) -> None:
    params = {param.name: param for param in reports.compose(reports.finished()).checks[0].params}
    assert not params["steps"].is_default
    assert params["bins"].is_default
    assert params["epsilon"].description == "Radius of the perturbation in that norm."


def test_an_unlisted_metric_has_no_meaning_made_up() -> None:
    assert find_metric("uncertainty_span", "nonsense[arm=over]") is None
    assert find_metric("unknown_family", "mus") is None
