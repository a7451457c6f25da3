"""A verdict is shown beside what was attacked, and beside what its policy says it is for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.gate_files import read_gate_file
from app.cli.verdicts import print_judgement
from seatrial.contracts.estimates import Looks, Result
from seatrial.contracts.registry import families, params_contract
from seatrial.reporting import attacked
from seatrial.reporting.attacked import attacked_in_words
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, outcome
from tests.reports.fabricated_judgements import judged as made

POLICIES = Path(__file__).parents[2] / "examples" / "policies"
PURPOSE = "Not for <b>releases</b>."
VECTOR = "In l_2 all changes of an input, taken together as one vector, are no longer than that."


def said(kind: str, result: Result | None = None, **params: Any) -> str:
    asked = params_contract(kind).model_validate({"kind": kind, **params}).model_dump(mode="json")
    return attacked_in_words(kind, asked, result, samples=300, seed=7)


def test_every_family_says_what_it_attacks_with() -> None:
    tail = ", 300 examples, seed 7."
    pixels = f"{tail} In l_inf no value of an input, such as a pixel from 0 to 1, changes by more than that."
    ball = "Attacked within l_inf 0.0314 (8/255) of each input"
    assert said("uncertainty_span") == f"{ball}, effort standard{pixels}"
    assert said("uncertainty_span", robust_accuracy={}) == f"{ball}, effort standard and by AutoAttack{pixels}"
    assert said("uncertainty_span", norm="l2", epsilon=0.5).startswith("Attacked within l_2 0.5 of each input, ")
    game = said("transductive_attack", defences=[{"name": "dent"}], attacks=["fpa", "transfer_pgd"])
    assert game == f"{ball} by FPA and transferred PGD{pixels}"
    recipes = said("temperature_attack", recipes=["deepwordbug", "pruthi"], query_budget=1000)
    assert recipes == f"Attacked by DeepWordBug and Pruthi in at most 1,000 queries a text{tail}"
    noise = said("low_level_attack", attackers=["visual"], levels=[0.2])
    assert noise == f"Attacked by low-level noise (visual) on 20% of the words{tail}"


def test_what_attacks_nothing_says_nothing() -> None:
    assert said("calibration") == said("certified_calibration") == ""
    assert attacked_in_words("gone", {"norm": "linf", "epsilon": 0.1}, None, samples=3, seed=0) == ""
    ace = said("certified_calibration", ace_attacks=["ace_lower_true"])
    assert ace == f"Attacked within l_2 0.25 of each input by ACE attacks, 300 examples, seed 7. {VECTOR}"


def test_a_family_of_others_says_its_ball_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(families()["calibration"], kind="toy", attacked=None)
    monkeypatch.setattr(attacked, "find_family", lambda kind: spec)
    assert attacked_in_words("toy", {"norm": "l2", "epsilon": 0.1}, None, samples=1, seed=0) == (
        f"Attacked within l_2 0.1 of each input, 1 example, seed 0. {VECTOR}"
    )
    assert attacked_in_words("toy", {"norm": "l2", "epsilon": [0.1]}, None, samples=1, seed=0) == ""


def test_examples_are_those_there_were() -> None:
    found = Result.model_validate(fabricated.result())
    assert attacked_in_words("uncertainty_span", {}, found, samples=500, seed=0) == ""
    params = {"norm": "linf", "epsilon": 0.1}
    # The dataset had 400, and outliers as many; what was stored without an effort was measured with the least.
    told = "Attacked within l_inf 0.1 of each input, effort quick, {} examples, seed 0."
    assert attacked_in_words("uncertainty_span", params, found, samples=500, seed=0).startswith(told.format(400))
    looks = Looks(sizes=[30, 60, 400], alphas=[0.01, 0.01, 0.03], ended=2)
    stopped = found.model_copy(update={"looks": looks})
    assert attacked_in_words("uncertainty_span", params, stopped, samples=500, seed=0).startswith(told.format(60))


def test_both_norms_are_explained_where_both_are_named() -> None:
    both = said("uncertainty_span", norm="l2", epsilon=0.5, robust_accuracy={"norm": "linf", "epsilon": 0.1})
    assert both.count(" In l_2 ") == both.count(" In l_inf ") == 1
    assert both.endswith(VECTOR)


@pytest.mark.parametrize("accept", ["text/html", "text/markdown", "application/json"])
def test_a_report_says_it_beside_the_verdict(one_audit: OneAudit, accept: str) -> None:
    judged = CASES["failed"]
    source = judged.judgement.policy.model_copy(update={"description": PURPOSE})
    one_audit.store(replace(judged, judgement=judged.judgement.model_copy(update={"policy": source})))
    told = one_audit.get(accept).text
    line = "Attacked within l_inf 0.0314 (8/255) of each input, effort standard, "
    if accept == "text/html":
        told = told.partition('<section class="verdict')[2].partition("<table")[0]
    assert line.replace("_", r"\_") in told or line in told
    assert "Not for" in told
    assert ("<b>releases" in told) == (accept == "application/json")


def test_the_terminal_says_it_above_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    judgement = made("failed", outcome("failed")).judgement
    source = judgement.policy.model_copy(update={"description": "Not for releases.\x1b[2J"})
    print_judgement(judgement.model_copy(update={"policy": source}), notes=["Attacked somehow."])
    *_, purpose, attack, headline = capsys.readouterr().out.splitlines()
    assert purpose.startswith("Not for releases.")
    assert "\x1b" not in purpose
    assert (attack, headline) == ("Attacked somehow.", judgement.headline)


@pytest.mark.parametrize("name", ["first-look.yaml", "first-look-texts.yaml"])
def test_a_first_look_says_that_it_decides_no_release(name: str) -> None:
    assert "No release should be decided by it." in read_gate_file(POLICIES / name).policy().description
