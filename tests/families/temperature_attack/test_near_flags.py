"""Doubts at their edge: an audit that deserves one, beside one that nearly does."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from seatrial.families.temperature_attack.flags import FLAGS
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from tests.families.temperature_attack.fabricated import Ending, model, parameters, records
from tests.families.temperature_attack.test_estimates import rights, table, transfer
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack import arms, estimates
from workers.families.temperature_attack.drawn_ways import SCHEMA as WAYS_ASKED
from workers.families.temperature_attack.meaning_free import Edited, with_edits
from workers.families.temperature_attack.records import attack_records, validation_records
from workers.families.temperature_attack.search import conclude
from workers.models import UnansweredError

PWWS = transfer(["pwws"])
ARMS = ("as_served", "transfer")


def severity(code: str, params: TemperatureAttackParams, done: Mapping[str, Records]) -> str | None:
    """Return a flag's severity; None where it is not raised."""
    found = {flag.code: flag.severity for flag in estimates.reduce(params, done, 0).flags}
    assert found.keys() <= {flag.code for flag in FLAGS}
    return found.get(code)


def answered(*logits: list[float]) -> dict[str, Records]:
    """Return the records of an audit in which no attack changed a thing: one text a row of logits."""
    return answered_by([torch.tensor(row) for row in logits])


def answered_by(given: list[torch.Tensor]) -> dict[str, Records]:
    """Return the same of tensors."""
    examples = [TextExample(row, "x", 1) for row in range(len(given))]
    outcomes = dict.fromkeys(ARMS, [Ending("failed", "x", 3, 0.1)] * len(given))
    return {"attack_pwws": attack_records(examples, given, outcomes, dict.fromkeys(ARMS, given))}


@pytest.mark.parametrize(("lost", "expected"), [(9, "warning"), (3, None)])
def test_a_gap_that_may_be_chance_is_no_illusion(lost: int, expected: str | None) -> None:
    done = {"attack_pwws": table("+" * 40, as_served="+" * 40, transfer="-" * lost + "+" * (40 - lost))}
    assert severity("illusion", PWWS, done) == expected


@pytest.mark.parametrize(("sure", "margin", "expected"), [(4, 200.0, "warning"), (3, 200.0, None), (40, 12.0, None)])
def test_scores_close_to_one_are_not_saturated(sure: int, margin: float, expected: str | None) -> None:
    done = answered(*[[-margin, 0.0]] * sure, *[[0.0, 1.0]] * (40 - sure))
    assert severity("saturated_softmax", PWWS, done) == expected


@pytest.mark.parametrize(("margin", "expected"), [(1e-9, "warning"), (1e-6, None)])
def test_scores_close_to_a_tie_do_not_tie(margin: float, expected: str | None) -> None:
    assert severity("underconfident_ties", PWWS, answered(*[[0.0, margin]] * 40)) == expected


@pytest.mark.parametrize(("further", "expected"), [(18, "info"), (1, None)])
def test_an_arm_other_than_the_search_may_show_what_calibration_leaves(further: int, expected: str | None) -> None:
    params = parameters(arms=["calibrated", "platt_vector"], recipes=["pwws"])
    calibrated = "-" * 12 + "+" * 28
    lower = "-" * (12 + further) + "+" * (28 - further)
    done = records(params) | {
        "attack_pwws": table("+" * 40, as_served="+" * 40, calibrated=calibrated, platt_vector=lower)
    }
    assert severity("calibration_falls_short", params, done) == expected


@pytest.mark.parametrize(("errored", "expected"), [(3, "warning"), (2, "info"), (0, None)])
def test_a_few_errors_are_a_note(errored: int, expected: str | None) -> None:
    examples = [TextExample(row, "x", 1) for row in range(40)]
    logits = [UnansweredError("no") if row < errored else right for row, right in enumerate(rights(*[True] * 40))]
    outcomes = dict.fromkeys(ARMS, [Ending("failed", "x", 3, 0.1)] * 40)
    done = {"attack_pwws": attack_records(examples, logits, outcomes, dict.fromkeys(ARMS, logits))}
    assert severity("errored_examples", PWWS, done) == expected


@pytest.mark.parametrize(("beside", "expected"), [(2, "warning"), (1, None)])
def test_one_text_in_a_hundred_may_be_counted_otherwise(beside: int, expected: str | None) -> None:
    done = {"attack_pwws": table("+" * 100, as_served="+" * 100, transfer="+" * 100)}
    succeeded = pa.array(["succeeded"] * beside + ["failed"] * (100 - beside))
    at = done["attack_pwws"].schema.get_field_index("as_served.status")
    done["attack_pwws"] = done["attack_pwws"].set_column(at, "as_served.status", succeeded)
    assert severity("search_disagreement", PWWS, done) == expected


@pytest.mark.parametrize(
    ("asked", "turned", "expected"), [(40, 20, "error"), (40, 18, None), (10, 7, "error"), (9, 9, None), (40, 0, None)]
)
def test_a_few_texts_may_turn_round_at_a_full_stop(asked: int, turned: int, expected: str | None) -> None:
    params = parameters(arms=[])
    done = records(params, label_only=0.5)
    kinds = ["two spaces" if row < turned else None for row in range(asked)]
    edited = [Edited(21, kind) for kind in kinds] + [Edited()] * (60 - asked)
    done["attack_deepwordbug"] = with_edits(done["attack_deepwordbug"], edited)
    assert severity("meaning_free_edits", params, done) == expected


@pytest.mark.parametrize(
    ("asked", "turned", "expected"), [(40, 20, "error"), (40, 15, None), (10, 8, "error"), (9, 9, None), (40, 0, None)]
)
def test_a_few_texts_may_turn_round_where_many_words_are_marked(asked: int, turned: int, expected: str | None) -> None:
    params = parameters(arms=[])
    done = records(params, label_only=0.5)
    ways = ("words as tags", *(f"way {number}" for number in range(22)))
    edited = [Edited(40, None, ways, ways[:1] if row < turned else ()) for row in range(asked)]
    edited += [Edited()] * (60 - asked)
    done["attack_deepwordbug"] = with_edits(done["attack_deepwordbug"], edited)
    assert severity("marked_words", params, done) == expected


@pytest.mark.parametrize(
    ("asked", "turned", "expected"),
    # Of few of all texts a model withstands anything, and those turn easily.
    [(40, 20, "error"), (40, 17, None), (24, 16, "error"), (15, 11, None), (40, 0, None)],
)
def test_a_few_texts_may_turn_round_in_any_way(asked: int, turned: int, expected: str | None) -> None:
    params = parameters(arms=[])
    done = records(params, label_only=0.5)
    ways = ("words as tags", *(f"way {number}" for number in range(22)))
    # Each in another way, of which none turns many.
    edited = [Edited(40, None, ways, (ways[row % 23],) if row < turned else ()) for row in range(asked)]
    edited += [Edited()] * (60 - asked)
    done["attack_deepwordbug"] = with_edits(done["attack_deepwordbug"], edited)
    assert severity("marked_words", params, done) == expected
    assert severity("meaning_free_edits", params, done) is None


def drawn(asked: int, turned: int, ways: int = 1) -> Records:
    """Return the records of texts that were asked in so many ways, of which the first turned so many."""
    rows = [
        {"example_id": row, "label": 1, "errored": False, "words": [], "pairs": [], "ways": [*range(ways)]}
        | {"names": [f"way {way}" for way in range(ways)], "turning": [0] if row < turned else []}
        for row in range(asked)
    ]
    # Of texts that did not withstand nothing is known.
    rows += [{"example_id": row, "label": 1, "errored": False} for row in range(asked, 60)]
    return pa.Table.from_pylist(rows, schema=WAYS_ASKED)


@pytest.mark.parametrize(
    ("asked", "turned", "ways", "expected"),
    [
        (40, 12, 1, "error"),
        (40, 11, 1, None),
        # One of twelve may turn more by chance.
        (40, 14, 12, "error"),
        (40, 13, 12, None),
        (10, 5, 1, "error"),
        (10, 4, 1, None),
        (9, 9, 1, None),
        (40, 0, 12, None),
    ],
)
def test_a_few_texts_may_turn_round_in_a_way_that_was_drawn(
    asked: int, turned: int, ways: int, expected: str | None
) -> None:
    params = parameters(arms=[])
    done = records(params, label_only=0.5) | {"ways": drawn(0, 0), "ways_confirmed": drawn(asked, turned, ways)}
    assert severity("worse_than_unreadable", params, done) == expected
    # What the ways were chosen by is no evidence.
    done = records(params, label_only=0.5) | {"ways": drawn(40, 40)}
    assert severity("worse_than_unreadable", params, done) is None


def test_other_ways_that_turn_texts_are_named_after_the_surest() -> None:
    table = drawn(40, 30, 5)
    rows = table.to_pylist()
    for row in rows[:36]:
        row["turning"] = [*row["turning"], 3]
    done = records(parameters(arms=[]), label_only=0.5)
    done["ways_confirmed"] = pa.Table.from_pylist(rows, schema=table.schema)
    (flag,) = [
        flag for flag in estimates.reduce(parameters(arms=[]), done, 0).flags if flag.code == "worse_than_unreadable"
    ]
    assert "Of 40 texts that withstand all attacks, 36 change class" in flag.message
    assert "drawn: way 3 (" in flag.message
    assert "So do others that were drawn: way 0." in flag.message


def test_records_from_before_such_edits_were_asked_are_read_and_not_doubted() -> None:
    params = parameters(arms=[])
    done = records(params, label_only=0.5)
    assert severity("meaning_free_edits", params, done) is None
    done["attack_deepwordbug"] = with_edits(done["attack_deepwordbug"], [Edited()] * 60).drop_columns(
        ["marks_asked", "marks_turning"]
    )
    assert severity("marked_words", params, done) is None


@pytest.mark.parametrize(
    ("changes", "expected"), [({"arms": []}, "warning"), ({"recipes": ["input_reduction"]}, "warning"), ({}, None)]
)
def test_one_arm_is_something_to_compare_with(changes: dict[str, list[str]], expected: str | None) -> None:
    params = parameters(**({"arms": ["calibrated"]} | changes))
    assert severity("nothing_compared", params, records(params, n=30)) == expected


@pytest.mark.parametrize(("asked", "expected"), [(49, "warning"), (50, None), (None, None)])
def test_few_questions_to_labels_contradict_no_scores(asked: int | None, expected: str | None) -> None:
    params = parameters() if asked is None else parameters(label_queries=asked)
    assert severity("few_label_queries", params, records(params, n=30)) == expected


@pytest.mark.parametrize(("wrong", "expected"), [(0, "warning"), (1, None)])
def test_one_wrong_answer_in_the_validation_makes_a_temperature(wrong: int, expected: str | None) -> None:
    params = parameters(arms=["calibrated"])
    done = records(params)
    examples, logits = model(5, 60)
    labels = [int(one.argmax()) for one in logits]
    labels[:wrong] = [1 - label for label in labels[:wrong]]
    known = [TextExample(one.example_id, one.text, label) for one, label in zip(examples, labels, strict=True)]
    done["validation"] = validation_records(known, logits)
    assert severity("degenerate_temperature", params, done) == expected


@pytest.mark.parametrize(("failure", "expected"), [("bracket_refused", "warning"), (None, None)])
def test_a_bracket_that_scipy_takes_is_no_failure_of_the_papers_code(
    failure: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = parameters(arms=["optimized"], temperature_search="paper_bracket")
    done = records(params)
    found = conclude([(1.0, 0.5), (10.0, 0.4), (5e5, 0.2)], "paper_bracket")
    monkeypatch.setattr(arms, "conclude", lambda *args: replace(found, failure=failure))
    assert severity("paper_bracket_failed", params, done) == expected


@pytest.mark.parametrize(("scale", "expected"), [(1e6, "warning"), (2.0, None)])
def test_logits_of_usual_size_do_not_stick_the_papers_optimiser(scale: float, expected: str | None) -> None:
    params = parameters(arms=["calibrated_paper"], design_temperature=scale)
    assert severity("paper_optimizer_stuck", params, records(params)) == expected


@pytest.mark.parametrize(("masked", "expected"), [(1, "info"), (0, None)])
def test_words_that_all_matter_alike_in_one_text_are_told_and_nearly_alike_are_not(
    masked: int, expected: str | None
) -> None:
    params = parameters(recipes=["pwws"], arms=["calibrated"])
    # The others have correlations from .3 on, or none.
    assert severity("masked_importance", params, records(params, n=20, masked=masked)) == expected


@pytest.mark.parametrize(("cut_off", "expected"), [(5, "warning"), (4, "info"), (0, None)])
def test_one_attack_in_ten_may_be_ended_by_the_budget(cut_off: int, expected: str | None) -> None:
    outcomes = [Ending("unfinished" if row < cut_off else "failed", "x", 9, 0.1) for row in range(40)]
    examples, logits = [TextExample(row, "x", 1) for row in range(40)], [torch.tensor([-3.0, 3.0])] * 40
    done = {"attack_pwws": attack_records(examples, logits, dict.fromkeys(ARMS, outcomes), dict.fromkeys(ARMS, logits))}
    assert severity("unfinished_attacks", PWWS.model_copy(update={"query_budget": 9}), done) == expected


@pytest.mark.parametrize(
    ("least", "digits", "expected"),
    [(0.0, None, "warning"), (1e-300, None, None), (0.0, 3, "info"), (0.001, 3, None)],
    ids=["lost", "nearly", "rounded", "nearly rounded"],
)
def test_a_probability_of_nearly_nothing_is_not_lost(least: float, digits: int | None, expected: str | None) -> None:
    def row(at: int) -> torch.Tensor:
        share = least if at == 0 else (0.013 + 0.011 * (at % 9) if digits else 0.0131 + 0.01 * math.sqrt(at % 9))
        given = torch.tensor([share, 1 - share], dtype=torch.float64)
        return given.clamp_min(math.ulp(0.0)).log()

    assert severity("unrecoverable_scores", PWWS, answered_by([row(at) for at in range(40)])) == expected


def test_every_doubt_of_texts_is_spoken_of_by_a_test() -> None:
    folder = Path(__file__).parent
    written = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("test_*.py")))
    untested = [flag.code for flag in FLAGS if f'"{flag.code}"' not in written]
    assert not untested
