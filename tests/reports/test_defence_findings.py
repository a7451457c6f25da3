"""What a report tells of test-time defences beside its answer: sentences, and how the tables read."""

from typing import Any

import pytest

from seatrial.families.transductive_attack.params import SHIPPED
from seatrial.reporting.schemas import ReportEstimate
from seatrial.reporting.tables import EstimateTable, arrange, value_words
from tests.reports import fabricated_defences
from tests.reports.fabricated_defences import DENT, RMC, TADV, Games
from tests.reports.test_transductive_attack import told, without
from workers.families.transductive_attack.names import called


def findings(defences: dict[str, Games] | None = None, **measured: Any) -> str:
    return " ".join(told(defences, **measured).findings)


def test_the_static_model_is_told_first() -> None:
    said = told({"tadv": TADV}).findings
    assert said[0].startswith("Without a defence the model is right on 86% (95% interval 83% to 89%) of 1,000 examples")
    assert said[1].startswith("Under AutoAttack within l_inf 8/255 it keeps 58% (95% interval 55% to 61%)")
    pgd = findings({"tadv": without(TADV, "transfer_autoattack")})
    assert "Under PGD within l_inf 8/255 it keeps 58%" in pgd


def test_robustness_is_told_under_each_attack_and_the_strongest_named() -> None:
    said = findings()
    assert "TADV is right on 85% (95% interval 82% to 88%) of 1,000 examples, unattacked." in said
    assert "TADV keeps 70% [67%, 73%] under transferred AutoAttack, 69% [66%, 72%] under transferred PGD" in said
    assert "under GMSA-MIN. The strongest was GMSA-AVG." in said


def test_the_overestimate_is_told_on_the_same_examples() -> None:
    said = findings()
    assert "On the same 1,000 examples, attacks made on the static model leave TADV 1.5 points [0.3, 2.7] more" in said
    turned = findings({"tadv": {**TADV, "transfer_autoattack": 0.66}})
    assert "are no weaker on TADV than those that know it (-2.5 points [-3.7, -1.3])" in turned


def test_what_the_attackers_selection_chose_is_told() -> None:
    said = findings(iterations=3, clean_sent=0.2)
    assert (
        "Of the 3 iterations of GMSA-AVG on TADV, the attacker sent the one whose induced model was right least "
        "often (it falls from 88.5% after the first to 68.5%), most often iteration 0, counted from 0 (40% of the "
        "examples). For 20% none did better than the clean batch, and that was sent."
    ) in said
    # That of the strongest attack says enough.
    assert said.count("iterations of") == 1
    assert "clean batch" not in findings(iterations=3)
    assert "iterations of" not in findings(iterations=1)


def test_repeats_are_told_with_their_spread() -> None:
    assert (
        "Over 5 repeats, in each of which attacks and defence drew anew, what TADV keeps varies by a standard "
        "deviation of 1.6 points at most, under transferred AutoAttack."
    ) in findings(stds=0.016, asked={"repeats": 5})
    still = findings({"dent": DENT}, stds=0.016, asked={"repeats": 5})
    assert "in each of which the attacks drew anew, what DENT keeps varies" in still
    assert "Each game was played once" in findings()
    assert "Each game was played once" not in findings(stds=0.016, asked={"repeats": 5})


def test_rejections_are_told() -> None:
    said = findings({"urejectron": TADV}, rejects=0.12)
    assert (
        "URejectron rejects 12% [9%, 15%] of the examples unattacked, and answers 25% [22%, 28%] of the other 880 "
        "wrongly."
    ) in said
    assert (
        "of the examples under FPA, and answers 25% [22%, 28%] of the other 880 wrongly; of the unperturbed copies "
        "beside them it rejects 3% [0%, 6%]."
    ) in said
    assert "Rejecting everything keeps nothing." in said
    assert "rejects" not in findings({"tadv": TADV})


def test_a_defence_that_rejects_all_that_is_attacked_has_no_error_on_what_it_answers() -> None:
    said = findings({"urejectron": TADV}, rejects=1.0)
    assert "rejects 100% [97%, 100%] of the examples under FPA, so there is no error on what it answers" in said
    assert "wrongly" not in said


def test_the_headline_of_a_defence_that_may_reject_has_the_pair() -> None:
    headline = told({"urejectron": TADV}, rejects=0.12).headline
    assert "adaptive attack (there it rejects 12% of the examples and answers 25% of the others wrongly)" in headline
    assert "of the examples rightly answered or rejected" in headline


def test_rows_that_are_no_attack_within_the_radius_are_told_beside_and_decide_nothing() -> None:
    rows = {**TADV, "transfer_cw": 0.0, "brightness": 0.1}
    asked = {"attacks": [*TADV, "transfer_cw"], "corruptions": ["brightness"]}
    answer, plain = told({"tadv": rows}, asked=asked), told({"tadv": TADV})
    said = " ".join(answer.findings)
    assert "TADV keeps 0% [0%, 3%] under transferred Carlini-Wagner, l_2. That attack has no radius" in said
    assert "TADV keeps 10% [7%, 13%] under brightness (no attack): nobody attacked." in said
    assert answer.headline == plain.headline


def test_what_is_followed_where_code_and_paper_differ_is_said() -> None:
    row = {
        "of": "tadv",
        "variant": "official",
        "says": "TADV is the code behind the paper's tables (variant official).",
    }
    assert row["says"] in findings(followed=[row])
    assert "variant" not in findings()


def test_an_attack_that_cannot_be_run_on_a_defence_is_no_failure_of_it() -> None:
    named = "[defence=tadv,attack=defence_autoattack]"
    games = {"tadv": {**TADV, "defence_autoattack": None}}
    unplayed = told(games, counts={f"failed{named}": 0, f"repeats{named}": 0})
    assert unplayed.standing == told({"tadv": TADV}).standing != "unproven"
    assert "AutoAttack cannot be run on TADV itself" in " ".join(unplayed.findings)
    assert "has no numbers" not in " ".join(unplayed.findings)
    failed = told(games, counts={f"failed{named}": 1, f"repeats{named}": 0})
    assert failed.standing == "unproven"
    assert "TADV has no numbers under AutoAttack on the defence." in " ".join(failed.findings)


def test_what_holds_of_several_defences_is_said_once() -> None:
    games = {name: {**TADV, "defence_autoattack": None} for name in ("tadv", "rmc", "dann")}
    named = [f"[defence={name},attack=defence_autoattack]" for name in games]
    said = findings(games, counts={f"{of}{one}": 0 for one in named for of in ("failed", "repeats")})
    assert "AutoAttack cannot be run on TADV, RMC and DANN themselves: a defence that remembers" in said
    assert said.count("AutoAttack cannot be run on") == 1


def test_of_a_failed_game_the_reason_is_told_and_not_the_flag_again() -> None:
    message = "TADV failed under fpa: NaN. These games have no numbers: what rests on them alone is null."
    said = findings(flags=[{"code": "defence_failed", "severity": "error", "message": message}])
    assert "Why a game has no numbers: TADV failed under fpa: NaN." in said
    assert "rests on them" not in said


def test_what_is_not_claimed_is_said() -> None:
    said = findings(errored=7)
    assert "Numbers under attack are upper bounds" in said
    assert "is not told what it draws at random after the attacker has moved, nor the state it is in later" in said
    assert "Examples came in natural order" in said
    assert "7 of 1,007 examples gave no finite output" in said
    other = findings(asked={"state": "leaking", "order": "adversarial"})
    assert "sees its state before each round" in other
    assert "Examples came sorted by label within windows of two batches" in other


def tables(defences: dict[str, Games], **measured: Any) -> dict[str, EstimateTable]:
    stored = fabricated_defences.result(defences, **measured)["estimates"]
    estimates = [
        ReportEstimate.model_validate(
            {"name": f"transductive_attack.{name}", "unit": "1", "better": "higher", "description": "", **one}
        )
        for name, one in stored.items()
    ]
    return {table.title: table for table in arrange(estimates)}


def test_robustness_reads_as_defences_by_attacks() -> None:
    few = {name: without(games, "transfer_pgd") for name, games in (("dent", DENT), ("rmc", RMC))}
    table = tables(few)["robustness"]
    assert table.columns == ["transferred AutoAttack", "FPA", "GMSA-AVG", "GMSA-MIN"]
    assert [row.heading for row in table.rows] == ["DENT", "RMC"]
    assert [cell.value for cell in table.rows[1].cells if cell] == [0.779, 0.408, 0.425, 0.396]


def test_more_attacks_than_fit_a_page_are_rows() -> None:
    table = tables({"dent": DENT, "rmc": RMC})["robustness"]
    assert table.columns == ["DENT", "RMC"]
    assert [row.heading for row in table.rows][-1] == "GMSA-MIN"


def test_one_attack_is_said_once() -> None:
    found = tables({"dent": {"transfer_pgd": 0.6}, "rmc": {"transfer_pgd": 0.5}}, stds=0.01)
    assert found["Under attack: transferred PGD"].columns == ["DENT", "RMC"]


def test_one_defence_is_said_once() -> None:
    found = tables({"dent": DENT})
    assert found["Under attack: defence DENT"].columns == ["robustness", "robustness_std"]
    assert found["By defence"].columns == ["DENT"]


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - {"identity"}))
def test_flags_and_figures_call_a_defence_what_the_report_calls_it(name: str) -> None:
    assert called(name) == value_words("defence", name)
    doubted = {"code": "defence_failed", "severity": "error", "message": f"{called(name)} failed under fpa: NaN."}
    among = told({"mine": TADV, name: TADV}, flags=[doubted])
    assert among.headline.startswith(f"Not shown: the numbers of {called(name)}")
    assert "Yes, against the attacks tried: mine" in " ".join(among.findings)
