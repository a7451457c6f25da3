"""What reports say of robust accuracy under AutoAttack, beside the question a check asks."""

from typing import Any

import pytest

from app.reports.html import render_html
from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration import narrative as certified_calibration
from seatrial.families.shared.robust_accuracy import DOUBTS
from seatrial.families.transductive_attack import narrative as transductive_attack
from seatrial.families.uncertainty_span import narrative as uncertainty_span
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.schemas import Answer
from seatrial.reporting.tables import arrange
from tests.reports import fabricated, fabricated_certificates, fabricated_defences
from tests.reports.conftest import Reports
from tests.reports.fabricated_defences import DENT, RMC


def block(*, errored: int = 0, broken: tuple[int, ...] = (120, 30, 0, 1)) -> dict[str, Any]:
    """Return the estimates and counts of 400 examples, 350 of them right."""
    attacks, left, estimates, counts = ("apgd-ce", "apgd-t", "fab-t", "square"), 350, {}, {}
    for attack, number in zip(attacks, broken, strict=True):
        left -= number
        estimates[f"robust_accuracy[attack={attack}]"] = fabricated.estimate(left / 400, method="clopper-pearson")
        counts[f"broken[attack={attack}]"] = number
    overall = {"robust_accuracy": fabricated.estimate(left / 400, method="clopper-pearson")}
    of_all = {"n": 400, "errored": errored, "correct": 350, "held": left}
    return {
        "estimates": overall | estimates,
        "counts": {f"robust_accuracy_{name}": value for name, value in of_all.items()} | counts,
    }


def beside(result: dict[str, Any], **measured: Any) -> dict[str, Any]:
    """Return a result with the block's numbers beside its own."""
    more = block(**measured)
    return {**result, **{part: {**result[part], **more[part]} for part in ("estimates", "counts")}}


def span(asked: dict[str, Any] | None, **measured: Any) -> Answer:
    given = {"kind": "uncertainty_span", "robust_accuracy": asked}
    params = UncertaintySpanParams.model_validate(given).model_dump(mode="json")
    result = Result.model_validate(beside(fabricated.result(over=0.30, under=0.32), **measured))
    return uncertainty_span.answer(result, params, 10)


def test_the_number_is_told_with_its_ball_and_what_it_comes_from() -> None:
    findings = " ".join(span({}).findings)
    assert (
        "Under AutoAttack (standard) within l_inf 8/255, the model keeps 49.8% (95% interval 46.8% to 52.8%) of 400 "
        "examples right, of 87.5% unattacked: its robust accuracy, at most, as another attack may break more."
    ) in findings
    assert (
        "Of the 350 it had right, APGD on the cross-entropy broke 120, targeted APGD 30, targeted FAB 0 and Square 1, "
        "each of what those before it had left."
    ) in findings
    assert "of the 400 gave an output that is not finite" not in findings


def test_nothing_is_said_that_was_not_asked_or_did_not_happen() -> None:
    assert not any("AutoAttack" in finding for finding in span(None).findings)
    held = " ".join(span({}, broken=(0, 0, 0, 0)).findings)
    assert "keeps 87.5%" in held
    assert "broke" not in held


def test_examples_that_errored_are_told() -> None:
    assert "3 of the 400 gave an output that is not finite, and never count as robust." in span({}, errored=3).findings


def test_certificates_say_that_it_is_of_the_network_alone() -> None:
    params = fabricated_certificates.params(robust_accuracy={"version": "rand", "epsilon": 0.5})
    result = Result.model_validate(beside(fabricated_certificates.result()))
    findings = " ".join(certified_calibration.answer(result, params, 10).findings)
    assert "Under AutoAttack (rand) within l_2 0.5, the network alone, asked without noise, keeps 49.8%" in findings


@pytest.mark.parametrize("code", sorted(DOUBTS))
def test_what_speaks_against_attacks_takes_nothing_from_a_certificate(code: str) -> None:
    flag = {"code": code, "severity": "error", "message": "AutoAttack: something is odd."}
    params = fabricated_certificates.params(robust_accuracy={})
    plain, flagged = (
        certified_calibration.answer(
            Result.model_validate(beside(fabricated_certificates.result(flags=flags))), params, 10
        )
        for flags in ((), (flag,))
    )
    assert flagged == plain
    assert plain.standing == "real"


@pytest.mark.parametrize("code", ["square_improves", "zero_gradients"])
def test_a_static_model_whose_gradients_mislead_is_no_reason_to_say_no_to_a_defence(code: str) -> None:
    weak = {"code": code, "severity": "warning", "message": "AutoAttack on the static model: something is odd."}

    def told(games: Any, name: str) -> Answer:
        result = Result.model_validate(fabricated_defences.result({name: games}, flags=[weak]))
        return transductive_attack.answer(result, fabricated_defences.params(name, attacks=[*games]), 10)

    assert told({**dict.fromkeys(DENT, 0.57), "gmsa_min": 0.56}, "dent").standing == "unproven"
    assert told({**RMC, "fpa": 0.1, "gmsa_min": 0.08}, "rmc").standing == "not_real"


def test_every_term_has_words() -> None:
    for narrative in (uncertainty_span, certified_calibration):
        asked = set(narrative.terms({"robust_accuracy": {"norm": "l2"}}))
        assert {"AutoAttack", "robust accuracy"} <= asked <= GLOSSARY.keys()
        assert not {"AutoAttack", "robust accuracy"} & set(narrative.terms({"robust_accuracy": None}))


def test_the_page_has_the_sequence_in_a_table_of_its_own(reports: Reports) -> None:
    audit_id = reports.finished()
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "robust_accuracy": {}})
    changed = {"result": beside(fabricated.result()), "params": params.model_dump(mode="json")}
    fabricated.change(reports.database, audit_id, check=changed)
    report = reports.compose(audit_id)
    tables = {table.title: table for table in arrange(report.checks[0].estimates)}
    sequence = tables["After each attack of AutoAttack"]
    assert sequence.columns == ["robust_accuracy"]
    attacks = ["APGD on the cross-entropy", "targeted APGD", "targeted FAB", "Square"]
    assert [row.heading for row in sequence.rows] == attacks
    assert "cumulative" in sequence.descriptions[0]
    assert "robust_accuracy" not in tables["Other attacks"].columns
    page = render_html(report)
    assert "its robust accuracy, at most" in page
    assert GLOSSARY["robust accuracy"].split(".")[0] in page
