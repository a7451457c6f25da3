"""What a report says about attacks at other temperatures."""

from typing import Any

import pytest

from app.reports.html import render_html
from seatrial.contracts.estimates import Result
from seatrial.families.temperature_attack import narrative as temperature_attack
from seatrial.families.temperature_attack.metrics import METRICS
from seatrial.reporting.adversarial_texts import comparisons
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.schemas import Answer
from tests.reports import fabricated, fabricated_texts
from tests.reports.conftest import Reports
from tests.reports.test_routes import elements_of
from tests.rows import add_audit

FLAG = {"code": "saturated_softmax", "severity": "warning", "message": "Scores are exactly 0 and 1."}
HONEST = {"as_served": 0.62, "calibrated": 0.62, "optimized": 0.61}


def told(*, params: dict[str, Any] | None = None, classes: int | None = 2, **measured: Any) -> Answer:
    result = Result.model_validate(fabricated_texts.result(**measured))
    recipes = list(measured.get("recipes", ("deepwordbug",)))
    asked = {"recipes": recipes, "arms": ["calibrated", "optimized"], "design_temperature": 1.0, **(params or {})}
    return temperature_attack.answer(result, asked, classes)


def test_robustness_that_goes_with_the_temperature_is_not_real() -> None:
    answer = told()
    assert answer.standing == "not_real"
    assert answer.headline == (
        "No: served as it is, the model keeps 70% accuracy under DeepWordBug, but 10% when attacked at its "
        "calibrated temperature: 60 points (95% interval 57 to 63) of its robustness come from its temperature, "
        "not from the model."
    )


def test_the_design_temperature_and_several_recipes_are_named() -> None:
    answer = told(params={"design_temperature": 0.01}, recipes=("deepwordbug", "pwws"))
    assert "served with its logits divided by 0.01" in answer.headline
    assert "the worst of DeepWordBug and PWWS for each text" in answer.headline
    assert "Recipe by recipe it is 60 points (95% interval 57 to 63) under DeepWordBug and" in " ".join(answer.findings)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("optimized", "when attacked at the most harmful temperature found"),
        ("platt_vector", "when attacked through Platt scaling (vector): 60 points"),
        ("transfer", "when attacked with texts found on another model"),
    ],
)
def test_the_hardest_way_of_attacking_is_named(arm: str, words: str) -> None:
    answer = told(kept={"as_served": 0.7, "calibrated_paper": 0.6, arm: 0.1})
    assert answer.standing == "not_real"
    assert words in answer.headline


def test_an_illusion_is_believed_despite_doubts_and_may_be_larger() -> None:
    answer = told(flags=[FLAG])
    assert answer.standing == "not_real"
    assert answer.headline.endswith("may be larger still.")


def test_robustness_that_stays_is_real() -> None:
    answer = told(kept=HONEST, spread=0.02)
    assert answer.standing == "real"
    assert answer.headline == (
        "Yes, against these attacks: served as it is, it falls from 84% accuracy to 62% under DeepWordBug, and "
        "attacked in other ways it keeps 61%."
    )


def test_a_weak_model_without_an_illusion_is_honest_about_it() -> None:
    answer = told(kept={"as_served": 0.10, "calibrated": 0.09, "optimized": 0.10}, spread=0.02)
    assert answer.standing == "partly"
    assert "the model is weak and honest about it" in answer.headline
    assert "it falls from 84% accuracy to 10%" in answer.headline


def test_few_texts_suffice_to_say_that_a_model_is_weak() -> None:
    answer = told(kept={"as_served": 0.10, "calibrated": 0.10}, spread=0.11, n=40)
    assert answer.standing == "partly"
    assert "weak and honest about it, as far as 40 texts tell" in answer.headline
    assert told(kept={"as_served": 0.30, "calibrated": 0.30}, spread=0.11, n=40).standing == "unproven"


@pytest.mark.parametrize("code", ["saturated_softmax", "degenerate_temperature", "few_validation_examples"])
def test_a_doubtful_attack_proves_no_robustness(code: str) -> None:
    answer = told(kept=HONEST, spread=0.02, flags=[{**FLAG, "code": code}])
    assert answer.standing == "unproven"
    assert code.replace("_", " ") in answer.headline


def test_flags_that_only_report_take_no_trust_away() -> None:
    flags = [{**FLAG, "severity": "info"}, {**FLAG, "code": "illusion"}]
    assert told(kept=HONEST, spread=0.02, flags=flags).standing == "real"


def test_a_wide_interval_excludes_no_illusion() -> None:
    answer = told(kept=HONEST, spread=0.2)
    assert answer.standing == "unproven"
    assert "one of up to 21 points is not excluded on 200 texts" in answer.headline


def test_few_texts_without_a_difference_exclude_no_illusion() -> None:
    answer = told(kept={"as_served": 0.6, "calibrated": 0.6}, n=20, spread=0.15)
    assert answer.standing == "unproven"
    assert "15 points is not excluded on 20 texts" in answer.headline


def test_a_gap_that_may_be_chance_is_no_illusion_and_no_proof() -> None:
    answer = told(kept={"as_served": 0.7, "calibrated": 0.55}, n=12, spread=0.2)
    assert answer.standing == "unproven"
    assert "no illusion was proven" in answer.headline


def test_a_recipe_that_leaves_the_class_decides_nothing() -> None:
    alone = told(recipes=("input_reduction",), kept={"as_served": 1.0, "calibrated": 1.0})
    assert alone.standing == "unproven"
    assert "input reduction leaves the class as it is" in alone.headline
    assert len(alone.findings) == 1
    beside = told(recipes=("pwws", "input_reduction"))
    assert "accuracy under PWWS, but" in beside.headline


def test_a_small_gap_that_is_no_chance_is_told() -> None:
    answer = told(kept={"as_served": 0.62, "calibrated": 0.60}, spread=0.005, n=5_000)
    assert answer.standing == "partly"
    assert "2.0 points" in answer.headline
    assert (
        told(kept={"as_served": 0.62, "calibrated": 0.60}, spread=0.005, n=5_000, flags=[FLAG]).standing == "unproven"
    )
    weak = told(kept={"as_served": 0.03, "calibrated": 0.01}, spread=0.005, n=5_000)
    assert weak.standing == "not_real"


def test_one_recipe_with_an_illusion_is_told_where_the_worst_has_none() -> None:
    measured = fabricated_texts.result(kept=HONEST, spread=0.02, recipes=("deepwordbug", "pwws"))
    measured["estimates"]["illusion_gap[recipe=pwws]"] = fabricated_texts.gap(0.2)
    params = {"recipes": ["deepwordbug", "pwws"], "arms": ["calibrated", "optimized"]}
    answer = temperature_attack.answer(Result.model_validate(measured), params, 2)
    assert answer.standing == "partly"
    assert "20 points under PWWS" in answer.headline


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"kept": {"as_served": 0.7}, "params": {"arms": []}}, "no other arm was run"),
        ({"kept": {"as_served": 0.7, "calibrated": None}}, "no other arm was run"),
        ({"kept": {"as_served": 0.7, "transfer": 0.69}, "spread": 0.02}, "(transfer) can miss an illusion"),
        ({"kept": {"as_served": 0.7, "calibrated_paper": 0.69}, "spread": 0.02}, "can miss an illusion"),
        ({"kept": {"as_served": None, "calibrated": None}}, "undefined on this sample"),
        ({"clean": None}, "undefined on this sample"),
        (
            {"kept": {"as_served": None, "calibrated": None}, "clean": None, "n": 0, "errored": 40},
            "all 40 examples errored",
        ),
        ({"kept": {"as_served": 0.48, "calibrated": 0.48}, "clean": 0.5}, "no better than guessing"),
        ({"kept": {"as_served": 0.0, "calibrated": 0.0}, "clean": 0.0, "classes": None}, "no better than guessing"),
    ],
)
def test_what_was_not_measured_is_not_shown(measured: dict[str, Any], words: str) -> None:
    if measured.get("clean", 0) is None and "kept" not in measured:
        measured = {**measured, "kept": {"as_served": None, "calibrated": None}}
    answer = told(**measured)
    assert answer.standing == "unproven"
    assert words in answer.headline


def test_an_arm_without_numbers_is_named_and_errors_are_counted() -> None:
    findings = " ".join(told(kept={"as_served": 0.7, "calibrated": 0.1, "optimized": None}, errored=7).findings)
    assert "Attacked at the most harmful temperature found (logits divided by 97.5) it has no numbers" in findings
    assert "7 of 207 examples errored" in findings


def test_a_search_that_ends_where_it_began_says_so() -> None:
    measured = fabricated_texts.result(kept=HONEST, spread=0.02)
    measured["estimates"]["temperature[arm=optimized]"] = fabricated_texts.certain(1.0)
    answer = temperature_attack.answer(Result.model_validate(measured), {"arms": ["optimized"]}, 2)
    assert "at the most harmful temperature found (the one it is served at) it keeps 61%" in " ".join(answer.findings)


def test_a_recipe_that_could_do_nothing_proves_nothing() -> None:
    weak = {"code": "weak_attack", "severity": "warning", "message": "It could write 1.4 candidates a word."}
    answer = told(kept={"as_served": 0.62, "calibrated": 0.62, "label_only": 0.62}, spread=0.01, n=5_000, flags=[weak])
    assert answer.standing == "unproven"
    assert "weak attack" in answer.headline
    kept = {"as_served": 0.62, "calibrated": 0.62}
    other = told(kept=kept, spread=0.01, n=5_000, flags=[{**weak, "severity": "info"}])
    assert other.standing == "real"


def test_an_illusion_that_labels_see_through_is_the_scores() -> None:
    answer = told(kept={"as_served": 0.60, "calibrated": 0.60, "label_only": 0.15})
    assert answer.standing == "not_real"
    assert "but 15% when attacked with labels alone" in answer.headline
    assert "come from scores that tell an attack less than the labels do" in answer.headline


def test_the_bar_runs_from_the_hardest_way_to_as_served() -> None:
    bar = temperature_attack.scale(Result.model_validate(fabricated_texts.result()), 2)
    assert bar is not None
    assert (bar.low, bar.high, bar.mark) == (pytest.approx(10), pytest.approx(70), pytest.approx(84))
    harder = fabricated_texts.result(kept={"as_served": 0.2, "calibrated": 0.5})
    turned = temperature_attack.scale(Result.model_validate(harder), 2)
    assert turned is not None
    assert (turned.low, turned.high) == (pytest.approx(20), pytest.approx(50))
    assert turned.band.endswith("the strongest other way of attacking")
    nothing = fabricated_texts.result(kept={"as_served": 0.2})
    assert temperature_attack.scale(Result.model_validate(nothing), 2) is None


def test_every_term_and_figure_has_words() -> None:
    params = {
        "recipes": ["deepwordbug", "pwws", "textfooler", "bae", "textbugger", "pruthi", "input_reduction", "iga"],
        "arms": ["calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix", "transfer"],
    }
    assert set(temperature_attack.terms(params)) <= set(GLOSSARY)
    assert "BAE" not in temperature_attack.terms({"recipes": ["pwws"]})
    for name in ("adversarial_accuracy", "temperature_curve", "reliability", "margins"):
        assert not temperature_attack.describe_figure(name).startswith("Figure")
    assert "With two classes" in temperature_attack.describe_figure("margins")
    assert temperature_attack.describe_figure("new_one") == "Figure: new one."


def test_examples_that_show_the_illusion_come_first_and_outcomes_are_the_models() -> None:
    result = Result.model_validate(fabricated_texts.result())
    found = comparisons(result, fabricated_texts.LABELS)
    assert [one.title for one in found] == ["Example 17, DeepWordBug", "Example 21, PWWS", "Example 3, DeepWordBug"]
    assert found[0].note == "Its label is positive; unattacked, the model says positive."
    assert [(row.name, row.outcome, row.prediction) for row in found[0].rows] == [
        ("as served", "held", "positive"),
        ("calibrated", "flipped", "negative"),
    ]
    assert found[1].parts == ["premise", "hypothesis"]
    assert {row.outcome for row in found[2].rows} == {"skipped"}
    assert comparisons(result, None)[0].rows[0].prediction == "class 1"


def test_what_an_attack_believed_is_not_what_counts() -> None:
    """A tie in the arm's own scores may end an attack that the unmodified model withstands, and the other way round."""
    arms = {
        "as_served": {"text": ["x"], "status": "succeeded", "prediction": 1, "confidence": 0.5},
        "calibrated": {"text": ["x"], "status": "failed", "prediction": 0, "confidence": 0.5},
        "optimized": {"text": [], "status": "errored", "prediction": None, "confidence": None},
    }
    result = Result.model_validate(fabricated_texts.result(examples=[fabricated_texts.example(arms=arms)]))
    assert [row.outcome for row in comparisons(result, None)[0].rows] == ["held", "flipped", "errored"]


def test_a_result_without_examples_has_none() -> None:
    assert comparisons(Result.model_validate(fabricated_texts.result(examples=[])), None) == []


def test_the_report_asks_about_robustness_and_holds_the_texts(reports: Reports) -> None:
    report = reports.compose(reports.finished_texts())
    assert report.question == "Is the robustness of minilm-reviews 1 real?"
    assert report.answer.standing == "not_real"
    assert report.checks[0].comparisons[0].rows[1].prediction == "negative"
    assert report.checks[0].series["examples"] == fabricated_texts.some()
    assert {"DeepWordBug", "calibrated", "illusion gap"} <= {entry.term for entry in report.glossary}
    assert "PWWS" not in {entry.term for entry in report.glossary}
    page = render_html(report)
    assert "<h1>Is the robustness of minilm-reviews 1 real?</h1>" in page
    assert "w<del>o</del>nderful" in page
    assert "flipped" in page
    assert "deepwordbug</code>" in page


def test_both_subjects_are_asked_about_together(reports: Reports) -> None:
    audit_id = add_audit(reports.database, checks=2)
    fabricated.change(reports.database, audit_id, check={"kind": "temperature_attack", "params": {}})
    assert reports.compose(audit_id).question.startswith("Are the robustness and confidence of m_")


def test_class_names_come_from_the_data_where_the_model_has_none(reports: Reports) -> None:
    audit_id = reports.finished_texts()
    fabricated.change(
        reports.database,
        audit_id,
        model={"manifest": {"architecture": {"kind": "huggingface"}}},
        dataset={"facts": {"examples": 2, "classes": 2, "labels": ["bad", "good"]}},
    )
    assert reports.compose(audit_id).checks[0].comparisons[0].rows[1].prediction == "bad"


def test_an_endpoint_is_named_by_its_address_not_by_weights(reports: Reports) -> None:
    audit_id = reports.finished_texts()
    architecture = {"kind": "endpoint", "url": "https://models.example.com/v1", "outputs": "probabilities"}
    facts = {"parameters": 0, "classes": 2, "device": "cpu"}
    fabricated.change(reports.database, audit_id, model={"manifest": {"architecture": architecture}, "facts": facts})
    source = reports.compose(audit_id).sources[0]
    assert source.facts["address"] == "https://models.example.com/v1"
    assert not {"parameters", "size"} & set(source.facts)


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_check_that_ended_early_is_not_shown(reports: Reports, state: str) -> None:
    audit_id = reports.finished_texts()
    fabricated.change(reports.database, audit_id, check={"result": None, "figures": None}, state=state)
    report = reports.compose(audit_id)
    assert report.answer.standing == "unproven"
    assert "Adversarial texts" not in render_html(report)


def test_hostile_texts_stay_texts(reports: Reports) -> None:
    hostile = f"{fabricated.HOSTILE}\u202egnp\u202c <b onclick=alert(1)> \u200b"
    arms = {"as_served": {"text": [hostile + "x"], "status": "failed", "prediction": 1, "confidence": 0.9}}
    examples = [fabricated_texts.example(original=[hostile], arms=arms, recipe=hostile)] * 6
    audit_id = reports.finished_texts(examples=examples)
    manifest = {"architecture": {"kind": "huggingface"}, "labels": [hostile, hostile + "\u202e"]}
    fabricated.change(reports.database, audit_id, model={"manifest": manifest})
    page = reports.get(audit_id, "text/html").text
    elements = elements_of(page)
    assert not {"script", "b", "iframe", "object", "link", "form"} & set(elements.tags)
    assert not [name for name in elements.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    body = page[page.index("Adversarial texts") : page.index("<h3>Counts")]
    assert not {"\u202e", "\u202c", "\u200b"} & set(body)
    assert "U+202E" in body


def test_the_page_of_texts_can_be_heard_as_well_as_seen(reports: Reports) -> None:
    page = reports.get(reports.finished_texts(recipes=("deepwordbug", "pwws")), "text/html").text
    elements = elements_of(page)
    assert elements.tags.count("caption") == elements.tags.count("table")
    assert page.count("<th ") == page.count('scope="col"') + page.count('scope="row"')
    assert page.count("<img") == 4 == page.count('" alt="') - page.count('" alt=""')


def test_an_exact_p_is_never_written_as_nothing(reports: Reports) -> None:
    audit_id = reports.finished_texts()
    measured = fabricated_texts.result()
    measured["estimates"]["mcnemar_p"] = {**fabricated_texts.certain(1e-25), "method": "exact"}
    measured["estimates"]["temperature[arm=as_served]"] = fabricated_texts.certain(0.01, n=0)
    fabricated.change(reports.database, audit_id, check={"result": measured})
    report = reports.compose(audit_id)
    assert "McNemar's exact p < 0.001" in " ".join(report.checks[0].answer.findings)
    assert "The interval allows for this arm having been chosen" in " ".join(report.checks[0].answer.findings)
    page = render_html(report)
    assert "10.0 to 70.0; the line is unattacked, 84.0." in page
    assert '<span class="number">&lt; 1e-12</span>' in page
    assert "as given" in page


def test_a_metric_is_described_without_the_one_before_it() -> None:
    # Tables are in another order than the contract, and some show one metric alone.
    assert [metric.name for metric in METRICS if metric.description.startswith("The same")] == []
