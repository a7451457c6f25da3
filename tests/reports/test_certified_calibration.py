"""What a report says about certificates on confidence: proof from above, proof from below, and neither."""

from typing import Any

import pytest

from app.reports.html import render_html
from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration import narrative as certified_calibration
from seatrial.families.certified_calibration.certificates_narrative import headline_radius
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.narratives import narrative_of
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.schemas import Answer, Scale
from tests.reports import fabricated, fabricated_certificates
from tests.reports.conftest import Reports
from tests.reports.test_routes import elements_of

FLAG = {"code": "some_new_doubt", "severity": "warning", "message": "Something is odd. Look at it."}
LOWER = {"ace_attacks": ["ace_lower_true"]}


def told(*, asked: dict[str, Any] | None = None, **measured: Any) -> Answer:
    result = Result.model_validate(fabricated_certificates.result(**measured))
    return certified_calibration.answer(result, fabricated_certificates.params(**(asked or {})), 10)


def findings(**measured: Any) -> str:
    return " ".join(told(**measured).findings)


def bar(**measured: Any) -> Scale | None:
    return certified_calibration.scale(Result.model_validate(fabricated_certificates.result(**measured)), 10)


def test_a_small_bound_over_most_examples_is_proof() -> None:
    answer = told()
    assert answer.standing == "real"
    assert answer.headline == (
        "Yes, against any attacker within l_2 0.25: on the 90% of the examples that are certified, none can make the "
        "smoothed model's confidence differ from its accuracy by more than 6 points (95% interval 4 to 8) on average; "
        "for the other 10% nothing is proven."
    )


def test_nothing_is_said_of_others_where_all_are_certified() -> None:
    answer = told(certified=1.0)
    assert answer.standing == "real"
    assert "for the other" not in answer.headline
    assert answer.headline.endswith("on average.")


def test_a_small_bound_over_few_examples_covers_those() -> None:
    answer = told(certified=0.63)
    assert answer.standing == "partly"
    assert answer.headline.endswith("on average, but for the other 37% nothing is proven.")
    assert told(certified=0.83).standing == "real"
    assert told(certified=0.81).standing == "partly"  # the lower end of its interval is 0.79


def test_a_middling_bound_is_more_than_can_be_acted_on() -> None:
    answer = told(cce=0.21)
    assert answer.standing == "partly"
    assert "but that is more than the 10 points up to which confidence can be acted on" in answer.headline
    unsure = told(cce=0.09)
    assert unsure.standing == "partly"
    assert "but that may, by its interval, be more than the 10 points" in unsure.headline


def test_a_bound_without_an_interval_is_no_plain_yes() -> None:
    answer = told(cce=0.06, spread=None)
    assert answer.standing == "partly"
    assert "but the sampling uncertainty is not known and for the other 10%" in answer.headline


def test_a_large_bound_proves_neither_good_nor_harm() -> None:
    answer = told(cce=0.47)
    assert answer.standing == "unproven"
    assert "by more than 47 points (95% interval 45 to 49) on average. That is too loose to act on" in answer.headline
    assert answer.headline.endswith("no attack was run to see how much of it one reaches.")
    tried = told(cce=0.47, attacked={"ace_lower_true": 0.05}, asked=LOWER)
    assert tried.standing == "unproven"
    assert tried.headline.endswith("no proof of harm either: the attacks tried reached 5 points.")


def test_what_an_attack_did_is_proof_of_harm() -> None:
    answer = told(cce=0.42, attacked={"ace_raise_true": 0.03, "ace_lower_true": 0.31}, asked=LOWER)
    assert answer.standing == "not_real"
    assert answer.headline == (
        "No: an attacker within l_2 0.25 made the smoothed model's confidence differ from its accuracy by 31 points "
        "(95% interval 29 to 33) on average, against 2 points unattacked. This is what an attack did, not a bound."
    )


def test_harm_is_judged_by_the_lower_end() -> None:
    assert told(cce=0.25, attacked={"ace_lower_true": 0.11}, asked=LOWER).standing == "partly"
    assert told(cce=0.25, attacked={"ace_lower_true": 0.13}, asked=LOWER).standing == "not_real"


def test_harm_on_a_handful_of_examples_may_be_chance() -> None:
    answer = told(n=90, cce=0.42, attacked={"ace_lower_true": 0.31}, asked=LOWER)
    assert answer.standing == "unproven"
    assert (
        "81 examples are certified at l_2 0.25. What is proven of their calibration error holds for them"
        in answer.headline
    )


def test_poor_calibration_without_an_attack_answers_no() -> None:
    answer = told(clean=0.14, cce=0.2)
    assert answer.standing == "not_real"
    assert answer.headline.startswith("No: even unattacked, the smoothed model's confidence differs from its accuracy")
    measured = fabricated_certificates.result(cce=0.2)
    measured["estimates"]["ece[radius=0.25]"] = fabricated_certificates.number(0.14, n=900)
    of_certified = certified_calibration.answer(Result.model_validate(measured), fabricated_certificates.params(), 10)
    assert of_certified.standing == "not_real"
    assert of_certified.headline.endswith("on average on the examples certified at l_2 0.25.")


@pytest.mark.parametrize("severity", ["warning", "error"])
def test_doubtful_numbers_never_read_as_good(severity: str) -> None:
    answer = told(flags=[{**FLAG, "severity": severity}])
    assert answer.standing == "unproven"
    assert "(some new doubt) until the flags are resolved" in answer.headline


def test_bad_news_stays_bad_despite_doubts() -> None:
    answer = told(cce=0.42, attacked={"ace_lower_true": 0.31}, asked=LOWER, flags=[FLAG])
    assert answer.standing == "not_real"
    assert answer.headline.endswith("The flag means that it may be worse still.")


def test_an_attack_that_did_what_was_impossible_breaks_the_guarantee() -> None:
    flag = {**FLAG, "code": "attack_beyond_certificate", "severity": "error"}
    mild = told(attacked={"ace_lower_true": 0.07}, asked=LOWER, flags=[flag])
    assert mild.standing == "unproven"
    assert "attack beyond certificate" in mild.headline
    said = " ".join(mild.findings)
    # Which need not show in the calibration error, where confidences moved up and down cancel.
    assert "0.070 (95% interval 0.050 to 0.090) on the same examples. Some confidences left their certified" in said
    assert "of the most that is possible" not in said
    harmful = told(attacked={"ace_lower_true": 0.31}, asked=LOWER, flags=[flag])
    assert harmful.standing == "not_real"
    assert harmful.headline.endswith("so no guarantee in this report can be relied on.")


@pytest.mark.parametrize(
    "code", ["shared_noise", "per_example_alpha", "admm_below_exact", "adaptive_intervals", "reduced_precision"]
)
def test_information_takes_no_trust_away(code: str) -> None:
    assert told(flags=[{**FLAG, "code": code, "severity": "info"}]).standing == "real"


@pytest.mark.parametrize("code", ["radius_out_of_reach", "no_certified_examples", "few_certified_examples"])
def test_flags_on_larger_radii_leave_the_answer_at_its_own(code: str) -> None:
    assert told(flags=[{**FLAG, "code": code}]).standing == "real"
    assert told(flags=[{**FLAG, "code": code}], certified=0.0).standing == "unproven"
    assert told(flags=[{**FLAG, "code": code, "severity": "error"}]).standing == "unproven"


@pytest.mark.parametrize("code", ["abstains_often", "not_trained_for_noise"])
def test_flags_on_coverage_go_with_no_plain_yes(code: str) -> None:
    answer = told(flags=[{**FLAG, "code": code}], certified=0.6)
    assert answer.standing == "partly"
    assert f"the flags say why it is no more ({code.replace('_', ' ')})" in answer.headline
    assert told(flags=[{**FLAG, "code": code}]).standing == "partly"


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"certified": 0.0}, "no example is certified at l_2 0.25"),
        ({"cce": None}, "what an attacker within l_2 0.25 can do is undefined on this sample"),
        ({"certified": 0.1}, "10% of the examples are certified at l_2 0.25; what is proven about them says nothing"),
        ({"n": 60}, "54 examples are certified at l_2 0.25. What is proven of their calibration error"),
        ({"n": 0, "errored": 40, "certified": 0.0, "clean": None}, "all 40 examples errored"),
        ({"radii": (0.0,), "asked": {"radii": [0.0]}}, "no radius above 0 was requested"),
    ],
    ids=["nobody", "undefined", "a sliver", "a handful", "errored", "no attacker"],
)
def test_what_was_not_measured_is_not_shown(measured: dict[str, Any], words: str) -> None:
    answer = told(**measured)
    assert answer.standing == "unproven"
    assert words in answer.headline


def test_the_certified_accuracy_is_told_beside_the_one_without_an_attack() -> None:
    said = findings()
    assert "On 81% (95% interval 79% to 83%) of 1,000 examples the class is right and proven to stay so" in said
    assert "Without an attack the smoothed model is right on 88%" in said


def test_the_bound_is_told_with_what_it_starts_from_and_over_whom() -> None:
    said = findings()
    assert "On the 900 examples certified at l_2 0.25 the ECE is 0.020 (95% interval 0.000 to 0.040) without" in said
    assert "at most 0.060 (95% interval 0.040 to 0.080) under any attack" in said
    assert "Over all examples it is at most 0.154" in said
    assert "those not certified (10%)" in said


def test_an_attack_is_told_as_part_of_what_is_possible() -> None:
    said = findings(attacked={"ace_lower_true": 0.045, "ace_raise_predicted": 0.03}, asked=LOWER)
    assert "The strongest of the 2 attacks tried (confidence in the true class lowered) reached an ECE of 0.045" in said
    assert "75% of the most that is possible" in said
    assert "No attack was run" in findings()
    assert "The attacks have no numbers there" in findings(attacked={"ace_lower_true": None}, asked=LOWER)


def test_approximations_are_told_as_part_of_the_exact_value() -> None:
    said = findings()
    assert "Of the exact 0.060, approximations find less or as much: the paper's ADMM 0.055 (92% of it)" in said
    assert "None of them guarantees anything" in said
    assert "approximations" not in findings(compared=())
    assert "approximations" not in findings(cce=0.0, clean=0.0, spread=None)


def test_alpha_is_told_for_each_certificate_or_for_all() -> None:
    each = findings(n=2000)
    assert "is wrong with probability 0.001 at most. They need not all hold at once: of the 4,000, 4 may be" in each
    assert "a wrong one moves the ECE over 1,800 by 0.0011 at most" in each
    assert "errors come together" in each
    assert "errors come together" not in findings(asked={"noise": "independent"})
    assert "moves the ECE over 1 by 1 at most" in findings(n=1, certified=1.0)
    assert "is wrong with probability" not in findings(n=0, errored=40, certified=0.0, clean=None)
    joint = findings(asked={"joint": True})
    assert "All 2,000 certificates, of classes and of confidences, hold at once, except with probability 0.001" in joint


def test_what_the_certificate_does_not_say_is_said() -> None:
    said = findings(errored=7)
    assert "the class that most copies of an image with noise of sigma 0.25 are given" in said
    assert "the network alone, asked once and without noise, has no guarantee" in said
    assert "Each says nothing about changes longer than its radius" in said
    assert "7 of 1,007 examples gave no finite output" in said


def test_what_was_certified_in_floating_point_is_not_called_sound() -> None:
    assert "They hold for every 8-bit image within the radius" in findings()
    earlier = findings(noise=None)
    assert "8-bit" not in earlier
    assert "added in floating point, by an earlier version" in earlier


def test_undefined_numbers_are_said_to_be_undefined() -> None:
    said = findings(certified=0.0)
    assert "The certified calibration error at l_2 0.25 is undefined: no example is certified there." in said
    assert "Over all examples it is at most 1.000" in said
    missing = certified_calibration.answer(Result(estimates={}, counts={}), fabricated_certificates.params(), 10)
    assert missing.standing == "unproven"
    assert "The certified accuracy at l_2 0.25 is undefined on this sample." in missing.findings


@pytest.mark.parametrize(
    ("asked", "radius"),
    [
        ({}, 0.25),
        ({"sigma": 0.12}, 0.1),
        ({"attack_radius": 0.5}, 0.5),
        ({"radii": [0.0, 1.0], "sigma": 0.25}, 1.0),
        ({"radii": [0.5, 1.0], "sigma": 0.25}, 0.5),
        ({"radii": [0.0]}, 0.0),
    ],
    ids=["not above sigma", "smaller sigma", "attacked", "no zero", "smallest", "only zero"],
)
def test_the_answer_is_about_a_radius_that_can_be_certified(asked: dict[str, Any], radius: float) -> None:
    assert headline_radius(fabricated_certificates.params(**asked)) == radius


def test_the_answer_is_about_the_radius_attacks_take_by_default() -> None:
    for sigma in (0.01, 0.12, 0.25, 0.6, 2.0):
        attacked = fabricated_certificates.params(sigma=sigma, **LOWER)["attack_radius"]
        assert headline_radius(fabricated_certificates.params(sigma=sigma)) == attacked


def test_the_question_names_the_radius() -> None:
    expected = "What can an attacker within l_2 0.25 provably do to the model's confidence?"
    assert certified_calibration.question(fabricated_certificates.params()) == expected
    assert certified_calibration.question({}) == expected
    assert "without an attacker" in certified_calibration.question(fabricated_certificates.params(radii=[0.0]))


def test_the_bar_runs_from_what_was_seen_to_what_is_possible() -> None:
    found = bar(cce=0.21, attacked={"ace_lower_true": 0.09, "ace_raise_true": 0.01})
    assert found is not None
    assert (found.low, found.mark, found.high, found.maximum) == pytest.approx((9, 2, 21, 100))
    assert found.label == "ECE of the 900 examples certified at l_2 0.25"
    idle = bar(cce=0.21, attacked={"ace_lower_true": 0.01})
    assert idle is not None
    assert idle.low == pytest.approx(2)  # an attacker may leave everything as it is


def test_there_is_no_bar_that_would_not_be_true() -> None:
    assert bar() is None
    assert bar(attacked={"ace_lower_true": None}) is None
    assert bar(cce=0.06, attacked={"ace_lower_true": 0.07}) is None
    assert bar(cce=None, attacked={"ace_lower_true": 0.07}) is None


def test_an_attack_on_part_of_the_examples_is_no_end_of_the_bar() -> None:
    measured = fabricated_certificates.result(cce=0.21, attacked={"ace_lower_true": 0.09})
    measured["estimates"]["ece[attack=ace_lower_true,radius=0.25]"]["n"] = 880
    result = Result.model_validate(measured)
    found = certified_calibration.scale(result, 10)
    assert found is not None
    assert found.low == pytest.approx(2)
    said = certified_calibration.answer(result, fabricated_certificates.params(**LOWER), 10).findings
    # Of other examples than the ceiling is over it is no share.
    assert "on 880 of these examples." in " ".join(said)
    assert "of the most that is possible" not in " ".join(said)


def test_every_term_and_figure_has_words() -> None:
    every = {"solvers": ["exact", "admm", "dece", "brier"], "sampling": "adaptive", **LOWER}
    used = set(certified_calibration.terms(fabricated_certificates.params(**every)))
    assert used <= set(GLOSSARY)
    assert {"ADMM (ACCE)", "dECE", "Brier confidences", "adaptive sampling", "shared noise", "ACE attack"} <= used
    plain = set(certified_calibration.terms(fabricated_certificates.params(noise="independent")))
    assert not {"ADMM (ACCE)", "dECE", "adaptive sampling", "shared noise", "ACE attack"} & plain
    for name in ("certified", "reliability", "interval_width"):
        assert not certified_calibration.describe_figure(name).startswith("Figure")
    assert certified_calibration.describe_figure("new_one") == "Figure: new one."


def test_a_check_of_another_version_still_has_a_report() -> None:
    assert narrative_of("certified_calibration") is certified_calibration
    result = Result.model_validate(fabricated_certificates.result())
    assert certified_calibration.answer(result, {}, None).standing == "real"
    assert set(certified_calibration.terms({})) <= set(GLOSSARY)
    assert headline_radius({}) == CertifiedCalibrationParams(kind="certified_calibration").sigma


def test_the_page_holds_the_answer_the_tables_and_the_glossary(reports: Reports) -> None:
    measured: dict[str, Any] = {"attacked": {"ace_lower_true": 0.05}, "asked": LOWER}
    audit_id = reports.own(fabricated_certificates.finished(reports.database, reports.store, **measured))
    report = reports.compose(audit_id)
    assert report.question == "Is the confidence of cifar-resnet110-noise025 1 real?"
    assert report.answer.standing == "real"
    page = render_html(report)
    assert "ECE of the 900 examples certified at l_2 0.25 (points), 0 to 100" in page
    assert ">undefined<" in page  # at radius 1 nobody is certified
    assert "<dt>randomized smoothing</dt>" in page
    assert "no guarantees" in page
    places = [page.index(f'<th scope="row">{radius}<') for radius in ("0 (no attacker)", "0.05", "0.1", "0.25", "1")]
    assert places == sorted(places)
    elements = elements_of(page)
    assert elements.tags.count("caption") == elements.tags.count("table")
    assert page.count("<th ") == page.count('scope="col"') + page.count('scope="row"')
    assert page.count("<img") == 3 == page.count('" alt="') - page.count('" alt=""')


def test_hostile_strings_stay_text(reports: Reports) -> None:
    hostile = fabricated.HOSTILE
    measured = fabricated_certificates.result(
        attacked={"ace_lower_true": 0.05}, flags=[{"code": hostile, "severity": "warning", "message": hostile}]
    )
    measured["estimates"][f"ece[attack={hostile},radius=0.25]"] = fabricated_certificates.number(0.055, n=900)
    measured["estimates"][f"cce[radius={hostile}]"] = fabricated_certificates.number(0.05, n=900)
    audit_id = reports.own(fabricated_certificates.finished(reports.database, reports.store, asked=LOWER))
    fabricated.change(reports.database, audit_id, check={"result": measured}, model={"name": hostile})
    page = reports.get(audit_id, "text/html").text
    elements = elements_of(page)
    assert not {"script", "iframe", "object", "embed", "link", "form", "base"} & set(elements.tags)
    assert not [name for name in elements.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert page.count("</style>") == 1
