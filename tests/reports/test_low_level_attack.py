"""What a report says about noise that is made without access to the model."""

from typing import Any

import pytest

from app.reports.html import render_html
from app.reports.markdown import render_markdown
from app.reports.service import find_metric
from seatrial.contracts.estimates import Result
from seatrial.contracts.noise import ATTACKERS, COMBINED
from seatrial.families.low_level_attack import narrative as low_level_attack
from seatrial.families.low_level_attack.metrics import METRICS
from seatrial.families.narratives import comparisons_of
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.schemas import Answer
from seatrial.reporting.tables import arrange, value_words
from seatrial.reporting.words import words
from tests.reports import fabricated, fabricated_noise
from tests.reports.conftest import Reports
from tests.reports.fabricated_noise import attack, example
from tests.reports.test_routes import elements_of

FLAG = {"code": "answers_unmoved", "severity": "warning", "message": "Under phonetic texts are answered as before."}
LOOKALIKE, MARKS = "Visual (look-alike letters)", "intrude (marks between letters)"
GENTLE: dict[str, Any] = {"worst": (0.89, 0.88, 0.87), "least": 0.88, "spread": 0.01}
MIDDLE: dict[str, Any] = {"worst": (0.8, 0.6, 0.5), "least": 0.7}


def told(*, params: dict[str, Any] | None = None, **measured: Any) -> Answer:
    result = Result.model_validate(fabricated_noise.result(**measured))
    asked = {"attackers": "all", "levels": [0.2, 0.5, 0.8], "draws": 1, "variant": "code", "typos": "codespell"}
    return low_level_attack.answer(result, {**asked, "glyphs": "dejavu", **(params or {})}, 2)


def findings(**how: Any) -> str:
    return " ".join(told(**how).findings)


def test_a_score_that_falls_to_guessing_is_not_real() -> None:
    answer = told(reach=0)
    assert answer.standing == "not_real"
    assert answer.headline == (
        "No: with 80% of the words attacked, each text by whichever attacker does it most harm, its accuracy is 6% "
        "(95% interval 3% to 9%) instead of 90%. Visual (look-alike letters) does most harm: alone it "
        "leaves 46%. Under visual (look-alike letters) alone it is not shown to do better than guessing (50%)."
    )


def test_a_score_that_a_little_noise_halves_is_not_real() -> None:
    answer = told(worst=(0.3, 0.2, 0.1), least=0.6)
    assert answer.standing == "not_real"
    assert answer.headline.endswith("At level 0.2 already it is 30%.")


def test_a_low_score_of_few_texts_is_not_called_guessing() -> None:
    assert told(**(MIDDLE | {"spread": 0.25, "n": 12})).standing == "partly"


def test_what_falls_and_stands_is_told_at_both_ends() -> None:
    answer = told(**MIDDLE)
    assert answer.standing == "partly"
    assert "its accuracy is 50% (95% interval 47% to 53%) instead of 90%" in answer.headline
    assert answer.headline.endswith("At level 0.2 it is 80%.")


def test_what_stands_is_real_against_this_noise() -> None:
    answer = told(**GENTLE)
    assert answer.standing == "real"
    assert answer.headline.startswith("Yes, against this noise: with 80% of the words attacked")


def test_what_stands_by_a_hair_is_not_called_real() -> None:
    assert told(**(GENTLE | {"spread": 0.08})).standing == "partly"


def test_good_news_is_not_believed_in_doubt_and_bad_news_is() -> None:
    answer = told(**GENTLE, flags=[FLAG])
    assert answer.standing == "unproven"
    assert "(answers unmoved)" in answer.headline
    worse = told(flags=[FLAG])
    assert worse.standing == "not_real"
    assert worse.headline.endswith("may be less still.")
    partly = told(**MIDDLE, flags=[FLAG])
    assert partly.standing == "partly"
    assert partly.headline.endswith("may be less still.")
    assert told(**MIDDLE, flags=[{**FLAG, "severity": "error"}]).standing == "unproven"
    for measured in (MIDDLE, {}):
        assert told(**measured, flags=[{**FLAG, "code": "score_at_chance"}]).standing == "unproven"
    assert told(**GENTLE, flags=[{**FLAG, "severity": "info"}]).standing == "real"


def test_confidence_that_stays_is_a_finding_and_no_doubt() -> None:
    assert told(**MIDDLE, flags=[{**FLAG, "code": "confident_under_noise"}]).standing == "partly"


@pytest.mark.parametrize(
    ("measured", "told_so"),
    [
        ({"clean": 0.5}, "no better than guessing (50%)"),
        ({"clean": None}, "undefined on this sample"),
        ({"worst": (None, None, None)}, "undefined on this sample"),
        ({"clean": None, "n": 0, "errored": 9}, "all 9 examples errored"),
    ],
    ids=["guessing", "no-score", "no-worst", "errored"],
)
def test_without_a_score_nothing_is_shown(measured: dict[str, Any], told_so: str) -> None:
    answer = told(**measured)
    assert answer.standing == "unproven"
    assert told_so in answer.headline


def test_one_attacker_at_one_level_is_named_and_has_no_others() -> None:
    answer = told(attackers=["truncate"], levels=[0.5], worst=(0.8,), least=0.8)
    assert answer.headline == (
        "In part: with 50% of the words attacked, each text by truncate (last letter left out), its accuracy is 80% "
        "(95% interval 77% to 83%) instead of 90%."
    )
    said = " ".join(answer.findings)
    assert "Most harm" not in said
    assert "noise harms" not in said


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        (0, "Visual (look-alike letters) does most harm: alone it leaves 46%."),
        (0.5, f"{LOOKALIKE} and {MARKS} do most harm (their order is not certain): alone they leave 46% to 54.8%."),
        (1, f"{LOOKALIKE}, {MARKS} and full shuffle (all letters of a word) do most harm (their order "),
        (2.5, f"{LOOKALIKE}, {MARKS} and 4 others do most harm (their order is not certain): alone they leave"),
        (9, "Which attacker does most harm is not certain: alone they leave 46% to 84.1%."),
    ],
    ids=["alone", "two", "three", "many", "all"],
)
def test_whoever_may_do_most_harm_is_named(reach: float, said: str) -> None:
    assert said in told(reach=reach).headline
    two = told(attackers=["visual", "intrude"], reach=1).headline
    assert f"{LOOKALIKE} and {MARKS} do most harm (their order is not certain)" in two


def test_attackers_that_tie_are_named_together() -> None:
    measured = fabricated_noise.result(**MIDDLE)
    for name in ("visual", "intrude"):
        measured["estimates"][f"rank[attacker={name}]"] |= {"value": 1.5, "low": None, "high": None}
        measured["estimates"][f"score[attacker={name},level=0.8]"]["value"] = 0.7
    params = {"attackers": "all", "levels": [0.2, 0.5, 0.8]}
    answer = low_level_attack.answer(Result.model_validate(measured), params, 2)
    harm = "Intrude (marks between letters) and visual (look-alike letters) do most harm (their order is not certain)"
    assert f"{harm}: alone each leaves 70%." in answer.headline


@pytest.mark.parametrize(
    ("task", "score", "named"),
    [
        ("token-classification", "token accuracy", "each sentence by whichever"),
        ("text-pair-classification", "accuracy", "each pair by whichever"),
    ],
)
def test_other_tasks_have_their_own_words(task: str, score: str, named: str) -> None:
    answer = told(task=task, score=score, **MIDDLE)
    assert named in answer.headline
    assert f"its {score} is 50%" in answer.headline


def test_macro_auroc_is_no_share_and_is_measured_from_guessing() -> None:
    auroc: dict[str, Any] = {"task": "multi-label-classification", "score": "macro AUROC", "clean": 0.97}
    answer = told(**auroc, worst=(0.95, 0.8, 0.74), least=0.8)
    assert answer.standing == "partly"
    assert "its macro AUROC is 0.740 (95% interval 0.710 to 0.770) instead of 0.970" in answer.headline
    assert told(**auroc, worst=(0.65, 0.6, 0.55), least=0.8).standing == "not_real"


def test_the_ranking_is_told_with_its_intervals() -> None:
    said = findings()
    first = "visual (look-alike letters), which leaves 51.1% of the score (rank 1, 95% interval 1 to 2)"
    assert f"Most harm at level 0.8 is done by {first}; then by intrude (marks between letters), which leaves" in said
    assert "Least harm is done by phonetic (spelt by sound), which leaves 93.4%." in said
    assert (
        "Of the texts that noise harms there, most harm is done by visual to 45.5%, intrude to 31.8% and full" in said
    )


def test_how_often_was_tried_is_told() -> None:
    assert "tried each of the texts once at each level" in findings()
    said = findings(draws=5, params={"draws": 5})
    assert "tried 5 times. Under visual at level 0.8 one try leaves 46% and the worst of 5 32.2%" in said


def test_confidence_that_stays_while_the_score_falls_is_told() -> None:
    said = findings()
    assert "It hardly notices the noise. Under visual at level 0.8 its mean confidence goes from 94% to 88%" in said
    assert "ECE goes from 0.040 to 0.420" in said
    assert "Its confidence falls with its score, by 44 points where that falls by 44 points." in findings(
        confidence=0.5
    )
    assert "Its confidence falls less than half as far as its score." in findings(confidence=0.8)
    assert "notice" not in findings(**GENTLE)


def test_what_stands_in_for_what_is_told_of_the_attackers_that_ran() -> None:
    assert (
        "Noise follows the program released with the paper (variant code); natural typos come from codespell"
        in findings()
    )
    paper = findings(params={"variant": "paper", "selection": "code", "phi": 0.3, "glyphs": "confusables"})
    assert (
        "the text of the paper, not the released program (variant paper), with words selected as in variant code"
        in paper
    )
    assert "hit with phi = 0.3 at every level" in paper
    assert "Unicode's list of confusables, in place of" in paper
    alone = findings(attackers=["truncate"], levels=[0.5], worst=(0.8,))
    assert "codespell" not in alone
    assert "look-alikes" not in alone
    assert "CMUdict" not in alone


def test_what_a_level_is_is_told_where_it_is_no_share_of_words() -> None:
    assert "attacked; under segment, of the spaces between words; under visual, of the characters." in findings()
    assert "attacked; under segment, of the spaces between words." in findings(params={"phi": 0.5})
    assert "words that are attacked." in findings(attackers=["truncate"], levels=[0.5], worst=(0.8,))


def test_noise_is_called_a_lower_bound() -> None:
    assert told().findings[-1].startswith("None of these attackers queries the model.")
    assert "The harm they do is a lower bound" in told().findings[-1]


def test_of_many_levels_the_ends_are_told() -> None:
    levels = [0.1, 0.2, 0.3, 0.4, 0.5]
    said = findings(levels=levels, worst=(0.8, 0.7, 0.6, 0.5, 0.4), least=0.7)
    assert "At level 0.1 it is 80%" in said
    assert "At level 0.5 it is 40%" in said
    assert "At level 0.3" not in said


def test_errors_are_told() -> None:
    assert "7 of 407 examples had no answer under some attacker" in findings(errored=7)
    assert told(**MIDDLE, errored=400).standing == "partly"


def test_the_bar_reaches_from_the_worst_case_to_the_gentlest_attacker() -> None:
    bar = low_level_attack.scale(Result.model_validate(fabricated_noise.result()), 2)
    assert bar is not None
    assert (bar.low, bar.mark, bar.maximum, bar.unit) == (6, 90, 100, "%")
    assert bar.high == pytest.approx(84.1, abs=0.1)
    auroc = fabricated_noise.result(score="macro AUROC", clean=0.97, worst=(0.9, 0.8, 0.7), least=0.8)
    found = low_level_attack.scale(Result.model_validate(auroc), 2)
    assert found is not None
    assert (found.label, found.maximum, found.low) == ("Macro AUROC", 1, 0.7)
    assert low_level_attack.scale(Result.model_validate(fabricated_noise.result(clean=None)), 2) is None


@pytest.mark.parametrize("attackers", ["all", ["visual"]], ids=["all", "one"])
def test_every_term_is_in_the_glossary(attackers: Any) -> None:
    params = {"attackers": attackers, "combined": attackers == "all", "draws": 3, "levels": [0.2]}
    found = low_level_attack.terms(params)
    assert set(found) <= set(GLOSSARY)
    assert ("phonetic" in found) == (attackers == "all") == ("combined" in found)
    assert "best-of-k black-box attacker" in found


def test_every_attacker_has_a_place_in_the_glossary() -> None:
    assert {words(attacker) for attacker in (*ATTACKERS, COMBINED)} <= set(GLOSSARY)


def test_every_figure_is_described() -> None:
    for name in ("curves", "ranking", "edit_distance", "confidence"):
        assert not low_level_attack.describe_figure(name).startswith("Figure")


def test_few_attackers_are_named_in_the_question_and_many_are_counted() -> None:
    assert low_level_attack.question({"attackers": "all", "levels": [0.2, 0.8], "combined": True}) == (
        "How much of its score is left when an attacker who knows nothing of the model applies 11 kinds of noise to "
        "20% and 80% of the words?"
    )
    told = "applies truncate (last letter left out) and visual (look-alike letters) to"
    assert told in low_level_attack.question({"attackers": ["truncate", "visual"]})


def compared(*examples: dict[str, Any], task: str = "text-classification", labels: Any = None) -> Any:
    result = fabricated_noise.result(task=task, examples=list(examples))
    return comparisons_of("low_level_attack", Result.model_validate(result), labels)


def test_a_text_is_shown_with_what_each_attacker_made_of_it() -> None:
    (one,) = compared(example(), labels=["bad", "good"])
    assert one.note == "Its label is good; without noise the model says good."
    assert [(row.name, row.outcome, row.prediction) for row in one.rows] == [
        ("visual, level 0.8", "flipped", "bad"),
        ("intrude, level 0.8", "flipped", "bad"),
        ("segment, level 0.8", "held", "good"),
    ]
    assert compared(example(21, original=["a", "b"]))[0].parts == ["premise", "hypothesis"]


def test_a_text_that_was_wrong_before_is_not_called_flipped() -> None:
    (one,) = compared(example(label=0, prediction=1))
    assert {row.outcome for row in one.rows} == {"skipped"}


def test_a_text_without_an_answer_under_noise_is_not_called_held() -> None:
    (one,) = compared(example(attacks=[attack("visual", None, correct=None)]))
    assert one.rows[0].outcome == "errored"


def test_tags_and_labels_are_counted() -> None:
    attacks = [
        attack("visual", None, ["the d0g"], correct=1, decisions=2),
        attack("truncate", None, ["the do"], correct=2, decisions=2),
        attack("intrude", None, ["the d.og"], correct=None, decisions=2),
    ]
    shared: dict[str, Any] = {"label": None, "prediction": None, "attacks": attacks, "correct": 2}
    (tagged,) = compared(example(original=["the dog"], truths=[3, 5], **shared), task="token-classification")
    assert tagged.note == "2 tokens; without noise the model tags 2 rightly."
    assert [(row.outcome, row.prediction) for row in tagged.rows] == [
        ("flipped", "1 of 2 right"),
        ("held", "2 of 2 right"),
        ("errored", None),
    ]
    labels = ["toxic", "threat", "insult"]
    (many,) = compared(example(truths=[1, 0, 1], **shared), task="multi-label-classification", labels=labels)
    assert many.note == "Its labels: toxic and insult; without noise the model is right about 2 of 3."
    (none,) = compared(example(truths=[0, 0, 0], **shared), task="multi-label-classification", labels=labels)
    assert none.note.startswith("Its labels: none")


def test_numbers_stand_in_the_order_of_harm(reports: Reports) -> None:
    (check,) = reports.compose(stored(reports)).checks
    tables = {table.title: table for table in arrange(check.estimates)}
    order = [value_words("attacker", one) for one in fabricated_noise.ORDER]
    ranking = tables["Attackers by harm, at level 0.8"]
    assert [row.heading for row in ranking.rows] == order
    assert ranking.columns == ["rank", "score", "relative_score", "flip_rate", "ece", "characters_changed"]
    assert list(tables).index(ranking.title) < list(tables).index("score")
    for metric in ("score", "relative_score", "flip_rate", "ece", "characters_changed"):
        assert [row.heading for row in tables[metric].rows] == order
        assert tables[metric].columns == ["level 0.2", "level 0.5", "level 0.8"]
    levels = tables["Over all attackers, by level"]
    assert levels.columns == ["level 0.2", "level 0.5", "level 0.8"]
    assert [row.heading for row in tables["Without noise"].rows] == ["score", "ece", "mean_confidence"]
    assert None not in [cell for table in tables.values() for row in table.rows for cell in row.cells]
    assert {estimate.name for estimate in check.estimates} == {
        cell.name for table in tables.values() for row in table.rows for cell in row.cells if cell is not None
    }


def test_what_stands_first_is_the_ranking_and_the_rest_is_folded_away(reports: Reports) -> None:
    (check,) = reports.compose(stored(reports)).checks
    shown = [table.title for table in arrange(check.estimates) if not table.is_secondary]
    assert shown == ["Without noise", "Attackers by harm, at level 0.8", "Over all attackers, by level", "Overall"]
    (one,) = reports.compose(stored(reports, params={"levels": [0.5]})).checks
    assert "By attacker: level 0.5" in [table.title for table in arrange(one.estimates) if table.is_secondary]
    (alone,) = reports.compose(stored(reports, params={"attackers": ["visual"]})).checks
    assert not any(table.is_secondary for table in arrange(alone.estimates))


def test_every_number_of_the_page_is_one_the_family_describes(reports: Reports) -> None:
    (check,) = reports.compose(stored(reports, draws=3)).checks
    seen = {find_metric("low_level_attack", one.name.partition(".")[2]).description for one in check.estimates}  # type: ignore[union-attr]
    assert seen == {metric.description for metric in METRICS}


def stored(reports: Reports, **measured: Any) -> str:
    return reports.own(fabricated_noise.finished(reports.database, reports.store, **measured))


def test_the_page_holds_the_ranking_and_the_texts(reports: Reports) -> None:
    page = render_html(reports.compose(stored(reports)))
    assert "<h1>Is the robustness of minilm-reviews 1 real?</h1>" in page
    assert '<span class="number">1</span>\n <span class="interval">[1, 2]</span>' in page
    assert "<summary>More numbers: score, relative_score, score_drop, flip_rate, " in page
    assert "w<ins>%</ins>o<ins>%</ins>nderf<ins>%</ins>ul" in page
    elements = elements_of(page)
    assert elements.tags.count("caption") == elements.tags.count("table")
    assert page.count("<th ") == page.count('scope="col"') + page.count('scope="row"')


def test_hostile_texts_stay_texts(reports: Reports) -> None:
    hostile = f"{fabricated.HOSTILE}\u202egnp <b onclick=alert(1)> \u200b"
    attacks = [attack(hostile, 0, [hostile + "x"])]
    examples = [example(original=[hostile], attacks=attacks)]
    audit_id = stored(reports, examples=examples)
    fabricated.change(reports.database, audit_id, model={"manifest": {"labels": [hostile, hostile]}})
    page = reports.get(audit_id, "text/html").text
    assert not {"script", "b", "iframe", "form"} & set(elements_of(page).tags)
    body = page[page.index("Adversarial texts") : page.index("<h3>Counts")]
    assert not {"\u202e", "\u200b"} & set(body)


def test_a_comment_on_a_pull_request_holds_the_answer_and_fits(reports: Reports) -> None:
    told = render_markdown(reports.compose(stored(reports, draws=3)))
    assert "its accuracy is 6% (95% interval 3% to 9%) instead of 90%" in told
    assert "| `low_level_attack.rank[attacker=visual]` | 1 | [1, 2] | 400 |" in told
    assert len(told) < 65_536
