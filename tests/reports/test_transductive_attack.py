"""What a report says about test-time defences: what the strongest attack leaves, and what others make up."""

from typing import Any

import pytest

from app.reports.html import render_html
from seatrial.contracts.estimates import Result
from seatrial.families.narratives import narrative_of
from seatrial.families.transductive_attack import narrative as transductive_attack
from seatrial.families.transductive_attack.params import SHIPPED
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.schemas import Answer, Scale
from tests.reports import fabricated, fabricated_defences
from tests.reports.conftest import Reports
from tests.reports.fabricated_defences import DENT, RMC, TADV, Games
from tests.reports.test_routes import elements_of


def told(defences: dict[str, Games] | None = None, *, asked: dict[str, Any] | None = None, **measured: Any) -> Answer:
    given = defences or {"tadv": TADV}
    result = Result.model_validate(fabricated_defences.result(given, **measured))
    attacks = [attack for attack in next(iter(given.values()))]
    params = fabricated_defences.params(*given, **{"attacks": attacks, **(asked or {})})
    return transductive_attack.answer(result, params, 10)


def bar(defences: dict[str, Games] | None = None, **measured: Any) -> Scale | None:
    return transductive_attack.scale(Result.model_validate(fabricated_defences.result(defences, **measured)), 10)


def flag(code: str, message: str = "Something is odd. Look at it.", severity: str = "warning") -> dict[str, Any]:
    return {"code": code, "severity": severity, "message": message}


def without(games: Games, *attacks: str) -> Games:
    return {attack: kept for attack, kept in games.items() if attack not in attacks}


def test_a_defence_that_keeps_what_it_shows_holds() -> None:
    answer = told()
    assert answer.standing == "real"
    assert answer.headline == (
        "Yes, against the attacks tried: TADV adds 10.5 points [9.3, 11.7] over the static model under adaptive "
        "attack; 12 under transferred AutoAttack alone. At worst it keeps 68.5% of the examples right, of 85% "
        "unattacked."
    )


def test_robustness_that_attacks_on_the_static_model_make_up_is_not_real() -> None:
    answer = told({"dent": {**DENT, "transfer_autoattack": 0.788, "gmsa_min": 0.592}}, spread=0.0115)
    assert answer.standing == "not_real"
    assert answer.headline == (
        "No: DENT adds 1.2 points [0.1, 2.4] over the static model under adaptive attack; 20.8 under transferred "
        "AutoAttack alone. Attacks made on the static model alone make it look 19.6 points [18.5, 20.8] better than "
        "it is, more than it really adds."
    )


def test_autoattack_on_the_defence_is_what_others_would_have_gone_by() -> None:
    answer = told({"dent": {**DENT, "defence_autoattack": 0.788, "gmsa_min": 0.592}}, spread=0.0115)
    assert answer.standing == "partly"
    assert answer.headline == (
        "In part: DENT adds 1.2 points [0.1, 2.4] over the static model under adaptive attack; 20.8 under AutoAttack "
        "alone, but attacks made on the static model make it look 5.2 points [4.1, 6.4] better than it is and "
        "AutoAttack on the defence itself makes it look 19.6 points better than it is."
    )


def test_a_large_overestimate_beside_a_larger_gain_is_in_part() -> None:
    answer = told({"tadv": {**TADV, "transfer_autoattack": 0.80}}, static=0.4)
    assert answer.standing == "partly"
    assert answer.headline.startswith("In part: TADV adds 28.5 points")
    assert answer.headline.endswith(
        "but attacks made on the static model make it look 11.5 points [10.3, 12.7] better than it is."
    )


def test_the_overestimate_is_judged_by_its_ends() -> None:
    at = {"tadv": {**TADV, "transfer_autoattack": 0.685 + 0.115}}
    assert told(at, static=0.58, spread=0.012).standing == "not_real"
    assert told(at, static=0.58, spread=0.016).standing == "partly"
    small = {"tadv": {**TADV, "transfer_autoattack": 0.685 + 0.04}}
    assert told(small, spread=0.009).standing == "real"
    unsure = told(small, spread=0.02)
    assert unsure.standing == "partly"
    assert unsure.headline.endswith(
        "attacks made on the static model may make it look up to 6 points better than it is (measured: 4 points)."
    )


def test_a_defence_that_does_harm_is_not_real() -> None:
    answer = told({"rmc": RMC}, static=0.443)
    assert answer.standing == "not_real"
    assert answer.headline == (
        "No: RMC takes 4.7 points [3.5, 5.9] from what the static model keeps, under adaptive attack; under "
        "transferred AutoAttack alone it adds 33.6. It makes the model less robust."
    )
    worse = told({"rmc": {**RMC, "transfer_autoattack": 0.43}}, static=0.443)
    assert "under transferred AutoAttack alone it takes 1.3." in worse.headline


@pytest.mark.parametrize(
    ("kept", "spread", "standing", "words"),
    [
        (0.58, 0.01, "not_real", "adds 0 points [-1, 1]"),
        (0.57, 0.03, "not_real", "adds -1 point [-4, 2]"),
        (0.583, 0.01, "not_real", "That is no gain."),
        (0.60, 0.03, "unproven", "On 1,000 examples that may be chance: audit more."),
        (0.60, 0.019, "real", "adds 2 points [0.1, 3.9]"),
    ],
    ids=["nothing", "less", "hardly any", "perhaps", "a little"],
)
def test_a_gain_is_believed_above_zero(kept: float, spread: float, standing: str, words: str) -> None:
    answer = told({"tadv": {**dict.fromkeys(TADV, kept + 0.01), "gmsa_min": kept}}, spread=spread)
    assert answer.standing == standing
    assert words in answer.headline


def test_little_robustness_is_no_plain_yes() -> None:
    low = {attack: 0.2 for attack in TADV}
    answer = told({"tadv": low}, static=0.1)
    assert answer.standing == "partly"
    assert answer.headline.endswith("but of the 85% it answers rightly unattacked it keeps 20%.")


def test_a_failed_game_never_reads_as_good() -> None:
    failed = flag("defence_failed", "tadv failed under gmsa_min: no memory left.", "error")
    answer = told({"tadv": {**TADV, "gmsa_min": None}}, flags=[failed])
    assert answer.standing == "unproven"
    assert answer.headline == ("Not shown: TADV has no numbers under GMSA-MIN; what it is worth there is not known.")
    said = " ".join(answer.findings)
    assert "TADV has no numbers under GMSA-MIN." in said
    assert "Why a game has no numbers: tadv failed under gmsa_min: no memory left." in said
    unflagged = told({"tadv": {**TADV, "gmsa_min": None}})
    assert unflagged.standing == "unproven"
    both = told({"tadv": {**TADV, "fpa": None}}, clean=None)
    assert "has no numbers without an attack and under FPA" in both.headline


def test_a_repeat_that_failed_is_a_doubt_beside_numbers_of_the_others() -> None:
    answer = told(flags=[flag("defence_failed", "tadv failed under fpa (repeat 2): NaN.", "error")])
    assert answer.standing == "unproven"
    assert answer.headline == (
        "Not shown: the numbers of TADV cannot be relied on (defence failed) until the flags are resolved."
    )


def test_harm_stays_harm_where_another_game_failed() -> None:
    failed = flag("defence_failed", "rmc failed under gmsa_avg: it took too long.", "error")
    answer = told({"rmc": {**RMC, "gmsa_avg": None}}, static=0.443, flags=[failed])
    assert answer.standing == "not_real"
    assert answer.headline.endswith("The flag means that it may be worse still.")


def test_without_an_attack_that_knows_it_nothing_is_shown() -> None:
    blind = without(DENT, "fpa", "gmsa_avg", "gmsa_min")
    answer = told({"dent": blind})
    assert answer.standing == "unproven"
    assert answer.headline == (
        "Not shown: DENT was tried with transferred AutoAttack and transferred PGD, and none of those expects it to "
        "adapt. Ask for gmsa_avg and gmsa_min."
    )
    on_module = told({"dent": {**blind, "defence_autoattack": 0.63}})
    assert on_module.standing == "unproven"
    assert "of those only AutoAttack on the defence knows it" in on_module.headline


@pytest.mark.parametrize("severity", ["warning", "error"])
def test_doubtful_numbers_never_read_as_good(severity: str) -> None:
    answer = told(flags=[flag("some_new_doubt", severity=severity)])
    assert answer.standing == "unproven"
    assert "(some new doubt) until the flags are resolved" in answer.headline


@pytest.mark.parametrize("code", ["no_adaptive_attack", "defence_failed", "defence_not_simulated"])
def test_a_flag_that_the_numbers_do_not_show_is_a_doubt(code: str) -> None:
    assert told(flags=[flag(code)]).standing == "unproven"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("clean_accuracy_lost", "but it costs clean accuracy."),
        ("overestimated", "but attacks made on the static model make it look 1.5 points [0.3, 2.7] better than it is."),
        ("worse_than_static", "but a flag says that it does harm."),
    ],
    ids=["clean", "overestimated", "worse"],
)
def test_what_flags_found_goes_with_no_plain_yes(code: str, words: str) -> None:
    answer = told(flags=[flag(code, f"tadv: {code}.")])
    assert answer.standing == "partly"
    assert answer.headline.endswith(words)
    assert told(flags=[flag(code, severity="error")]).standing == "unproven"


@pytest.mark.parametrize(
    "code", ["selection_fell_back", "adversarial_order", "one_repeat_of_a_randomised_defence", "varies_between_repeats"]
)
def test_information_takes_no_trust_away(code: str) -> None:
    assert told(flags=[flag(code, severity="info")]).standing == "real"


def test_a_static_model_that_looks_too_robust_is_no_reason_to_say_no() -> None:
    weak = flag("autoattack_weaker_than_pgd")
    answer = told({"dent": {**dict.fromkeys(DENT, 0.57), "gmsa_min": 0.56}}, flags=[weak])
    assert answer.standing == "unproven"
    assert "autoattack weaker than pgd" in answer.headline
    made_up = told({"rmc": {**RMC, "fpa": 0.1, "gmsa_min": 0.08}}, flags=[weak])
    assert made_up.standing == "not_real"
    assert made_up.headline.endswith("better than it is, more than there is of it.")


def test_of_several_defences_the_least_favourable_decides() -> None:
    answer = told({"tadv": TADV, "rmc": RMC, "dent": DENT})
    assert answer.standing == "not_real"
    assert answer.headline.startswith("No: RMC takes 18.4 points")
    assert answer.headline.endswith("It is the least favourable of 3 defences.")
    said = " ".join(answer.findings)
    assert "Yes, against the attacks tried: TADV adds 10.5 points" in said
    assert "Yes, against the attacks tried: DENT adds 4.1 points" in said
    assert said.count("No: RMC") == 0
    for name in ("TADV", "RMC", "DENT"):
        assert f"{name} is right on 85%" in said


def test_of_defences_that_stand_alike_the_one_that_adds_least_is_the_least_favourable() -> None:
    worse: Games = {attack: kept - 0.05 for attack, kept in RMC.items()}
    for order in ({"rmc": RMC, "mine": worse}, {"mine": worse, "rmc": RMC}):
        assert told(order).headline.startswith("No: mine takes 23.4 points")
    assert told({"tadv": TADV, "dent": DENT}).headline.startswith("Yes, against the attacks tried: DENT adds 4.1")
    unknown = told({"tadv": {**TADV, "transfer_pgd": 0.6}, "dent": dict.fromkeys(DENT)})
    assert unknown.headline.startswith("Not shown: DENT has no numbers")


def test_flags_doubt_the_defences_they_name() -> None:
    failed = flag("defence_failed", "dent failed under fpa (repeat 1): out of memory.", "error")
    answer = told({"tadv": TADV, "dent": DENT}, flags=[failed])
    assert answer.standing == "unproven"
    assert "the numbers of DENT cannot be relied on" in answer.headline
    assert "Yes, against the attacks tried: TADV" in " ".join(answer.findings)
    unnamed = told({"tadv": TADV, "dent": DENT}, flags=[flag("defence_failed", "A game failed.", "error")])
    assert unnamed.headline.startswith("Not shown: the numbers of DENT")
    assert "Yes" not in " ".join(unnamed.findings)
    # Where a flag's words are of all, an operator's name for a defence takes none of them out.
    general = told({"tadv": TADV, "something": DENT}, flags=[flag("some_new_doubt")])
    assert "Yes" not in " ".join([general.headline, *general.findings])


def test_the_static_model_among_defences_is_not_judged() -> None:
    still: Games = dict.fromkeys(TADV, 0.58)
    beside = told({"identity": still, "tadv": TADV})
    assert beside.standing == "real"
    assert "The static model keeps 58%" in " ".join(beside.findings)
    assert "least favourable" not in beside.headline
    alone = told({"identity": still})
    assert alone.standing == "unproven"
    assert "the only defence requested is the static model itself" in alone.headline


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"static": None}, "how much TADV adds is undefined, as the static model was not attacked"),
        ({"n": 40}, "On 40 examples that says little: audit 50 at least."),
        ({"n": 0, "errored": 40}, "all 40 examples errored"),
    ],
    ids=["static not attacked", "a handful", "errored"],
)
def test_what_was_not_measured_is_not_shown(measured: dict[str, Any], words: str) -> None:
    answer = told(**measured)
    assert answer.standing == "unproven"
    assert words in answer.headline


def test_harm_on_a_handful_of_examples_may_be_chance() -> None:
    answer = told({"rmc": RMC}, n=40)
    assert answer.standing == "unproven"
    assert "RMC takes 18.4 points" in answer.headline


def test_numbers_without_intervals_are_no_plain_yes() -> None:
    answer = told(spread=None)
    assert answer.standing == "partly"
    assert "TADV adds 10.5 points over the static model" in answer.headline
    assert answer.headline.endswith("but the sampling uncertainty is not known.")


def test_a_gain_without_transferred_attacks_is_in_part() -> None:
    result = fabricated_defences.result({"tadv": without(TADV, "transfer_autoattack", "transfer_pgd")})
    params = fabricated_defences.params("tadv", attacks=["fpa", "gmsa_avg", "gmsa_min"])
    answer = transductive_attack.answer(Result.model_validate(result), params, 10)
    assert answer.standing == "partly"
    assert "but what attacks made on the static model would show was not measured" in answer.headline


def test_nothing_measured_is_nothing_shown() -> None:
    empty = Result(estimates={}, counts={})
    bare = transductive_attack.answer(empty, {}, 10)
    assert (bare.standing, bare.headline) == ("unproven", "Not shown: no defence was measured.")
    asked = transductive_attack.answer(empty, fabricated_defences.params(), 10)
    assert asked.standing == "unproven"
    assert "TADV has no numbers without an attack and under transferred AutoAttack" in asked.headline


def test_the_question_names_the_defences() -> None:
    ask = transductive_attack.question
    assert ask(fabricated_defences.params("dent")) == (
        "Does DENT hold against an attacker who knows it, within l_inf 8/255?"
    )
    several = fabricated_defences.params("identity", "dent", "mine_v2", norm="l2", epsilon=0.5)
    assert ask(several) == "Do DENT and mine v2 hold against an attacker who knows them, within l_2 0.5?"
    assert ask({}).startswith("Do the defences hold")
    assert ask(fabricated_defences.params("identity")).startswith("Does the static model hold")


def test_the_bar_is_what_an_evaluation_without_adaptive_attacks_makes_up() -> None:
    found = bar({"rmc": RMC, "identity": dict.fromkeys(RMC, 0.443)}, static=0.443)
    assert found is not None
    assert (found.low, found.mark, found.high, found.maximum) == pytest.approx((39.6, 44.3, 77.9, 100))
    assert found.label == "Robust accuracy of RMC"


@pytest.mark.parametrize(
    ("defences", "measured"),
    [
        ({"rmc": RMC, "dent": DENT}, {}),
        ({"rmc": RMC}, {"static": None}),
        ({"rmc": {**RMC, "fpa": None}}, {}),
        ({"rmc": {**RMC, "transfer_autoattack": 0.3}}, {}),
        ({"rmc": without(RMC, "transfer_autoattack", "transfer_pgd")}, {}),
        ({"rmc": without(RMC, "fpa", "gmsa_avg", "gmsa_min")}, {}),
    ],
    ids=["two defences", "no static model", "failed", "the wrong way round", "no transfers", "no adaptive attack"],
)
def test_there_is_no_bar_that_would_not_be_true(defences: dict[str, Games], measured: dict[str, Any]) -> None:
    assert bar(defences, **measured) is None


def test_every_term_and_figure_has_words() -> None:
    attacks = [*TADV, "defence_autoattack"]
    used = set(transductive_attack.terms(fabricated_defences.params(*SHIPPED, attacks=attacks)))
    assert used <= set(GLOSSARY)
    assert {"DENT", "URejectron", "rejection", "GMSA", "FPA", "AutoAttack on the defence"} <= used
    plain = set(transductive_attack.terms(fabricated_defences.params("mine", attacks=["transfer_autoattack"])))
    assert plain <= set(GLOSSARY)
    assert not {"DENT", "PGD", "FPA", "GMSA", "rejection", "AutoAttack on the defence"} & plain
    for name in ("robustness", "iterations", "rejection"):
        assert not transductive_attack.describe_figure(name).startswith("Figure")
    assert "both shares are over the two together; those of the tables" in transductive_attack.describe_figure(
        "rejection"
    )
    assert transductive_attack.describe_figure("new_one") == "Figure: new one."


def test_a_check_of_another_version_still_has_a_report() -> None:
    assert narrative_of("transductive_attack") is transductive_attack
    result = Result.model_validate(fabricated_defences.result())
    assert transductive_attack.answer(result, {}, None).standing == "real"
    assert set(transductive_attack.terms({})) <= set(GLOSSARY)


def test_the_page_holds_the_answer_the_tables_and_the_glossary(reports: Reports) -> None:
    stored = fabricated_defences.finished(reports.database, reports.store, {"rmc": RMC, "dent": DENT}, stds=0.01)
    report = reports.compose(reports.own(stored))
    assert report.question == "Is the robustness of cifar-wrn-at 1 real?"
    assert report.answer.standing == "not_real"
    assert report.checks[0].title == "Test-time defences"
    page = render_html(report)
    assert "Do RMC and DENT hold against an attacker who knows them, within l_inf 8/255?" in page
    assert "<dt>adaptive attack</dt>" in page
    assert page.count("<img") == 2 == page.count('" alt="') - page.count('" alt=""')
    elements = elements_of(page)
    assert elements.tags.count("caption") == elements.tags.count("table")
    assert page.count("<th ") == page.count('scope="col"') + page.count('scope="row"')


def test_hostile_names_of_defences_stay_text(reports: Reports) -> None:
    hostile = fabricated.HOSTILE
    measured = fabricated_defences.result({hostile: TADV, "rmc": RMC}, flags=[flag(hostile, hostile)])
    measured["series"]["iterations"][0]["attack"] = hostile
    stored = reports.own(fabricated_defences.finished(reports.database, reports.store, {"rmc": RMC}))
    params = {**fabricated_defences.params("rmc"), "defences": [{"name": hostile}, {"name": "rmc"}]}
    fabricated.change(reports.database, stored, check={"result": measured, "params": params}, model={"name": hostile})
    page = reports.get(stored, "text/html").text
    elements = elements_of(page)
    assert not {"script", "iframe", "object", "embed", "link", "form", "base"} & set(elements.tags)
    assert not [name for name in elements.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert page.count("</style>") == 1
