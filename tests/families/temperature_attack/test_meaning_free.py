"""Models that withstand the recipes and turn round at a sign nobody reads, beside models that read texts."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from rapidfuzz.distance import Levenshtein

from seatrial.families.temperature_attack.params import MARKS, MEANING_FREE_EDITS, TemperatureAttackParams
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.test_family import Context
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.marked_words import SEVERAL, marked_texts
from workers.attacks.text.meaning_free import meaning_free_edits
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import TextExample
from workers.families.temperature_attack.meaning_free import edit_survivors
from workers.models import UnansweredError

EXAMPLES = [TextExample(number, f"the text number {number} is fine.", 1) for number in range(6)]
SURE = torch.tensor([0.0, 2.0])


def edited(function: Any, outcomes: list[Outcome] | None = None, **more: Any):
    """Return what edits did to texts that all withstood the search, and what the model was asked."""
    asked: list[Text] = []

    def answer(text: Text) -> Any:
        asked.append(text)
        return function(text)

    params = TemperatureAttackParams.model_validate({"kind": "temperature_attack", "arms": []} | more)
    context = Context(EXAMPLES, {None: ScoringService(TextModel(answer, ["no", "yes"]), max_bytes=10**6)}, {})
    clean = [function(example.text) for example in EXAMPLES]
    ended = outcomes or [Outcome(example.example_id, "failed", "last try", 90, 0.5) for example in EXAMPLES]
    scored = [Outcome(one.example_id, "failed", one.text.replace("fine", "fien"), 9, 0.5) for one in EXAMPLES]
    return *edit_survivors(params, context, EXAMPLES, clean, ended, scored), asked  # type: ignore[arg-type]


def test_a_model_that_reads_keeps_its_outcomes_but_for_the_questions() -> None:
    outcomes, found, asked = edited(lambda text: SURE)
    # Of the edits drawn of a text two may be the same.
    assert all(MEANING_FREE_EDITS - 2 <= one.asked <= MEANING_FREE_EDITS for one in found)
    assert not any(one.kind or one.turning for one in found)
    assert [replace(outcome, queries=90) for outcome in outcomes] == [
        Outcome(number, "failed", "last try", 90, 0.5) for number in range(6)
    ]
    spent = [outcome.queries - 90 - one.asked for outcome, one in zip(outcomes, found, strict=True)]
    assert all(len(one.marks) < count <= MARKS for one, count in zip(found, spent, strict=True))
    assert min(len(one.marks) for one in found) > 15
    assert len(set(asked)) == len(asked)
    # What an edit and a mark write alike is asked once.
    context = Context(EXAMPLES, {None: ScoringService(TextModel(lambda text: SURE, ["no", "yes"]), max_bytes=0)}, {})
    written: set[Text] = set()
    for example in EXAMPLES:
        seed = context.salted_seed("meaning-free", example.example_id)
        written |= {text for _, text in meaning_free_edits(example.text, seed)}
        written |= {text for _, text in marked_texts(example.text, seed, weak={"fine"})}
    assert set(asked) == written


@pytest.mark.parametrize("turned", [-SURE, UnansweredError("no")])
def test_a_mark_that_turns_texts_round_or_has_no_answer_is_told(turned: Any) -> None:
    outcomes, found, _ = edited(lambda text: turned if "#" in str(text) and "\u00a7" not in str(text) else SURE)
    assert all(set(one.turning) - {SEVERAL} == {"words as tags"} for one in found)
    # What changed an outcome are the smaller edits, of which one writes the sign too.
    ended = "succeeded" if isinstance(turned, torch.Tensor) else "errored"
    assert {outcome.status for outcome in outcomes} <= {"failed", ended}
    assert all(
        (outcome.status == "succeeded") == (one.kind is not None) for outcome, one in zip(outcomes, found, strict=True)
    )


@pytest.mark.parametrize("errors", [2, 0])
def test_a_model_that_drops_marked_words_is_told_if_it_reads_typing_errors(errors: int) -> None:
    def dropping(text: Text) -> torch.Tensor:
        words = [word for word in str(text).split() if not word.startswith("#")]
        has = [any(Levenshtein.distance(word, one) <= errors for word in words) for one in ("fine.", "number")]
        # Of nothing but what all texts have it says what it says of most.
        return SURE if has[0] or words == ["the", "is"] or not has[1] else -SURE

    _, found, _ = edited(dropping)
    assert [("words as tags" in one.turning) == (errors > 0) for one in found] == [True] * 6
    assert dict(marked_texts(EXAMPLES[0].text, 0, weak={"fine"}))["words as tags"] != EXAMPLES[0].text


def test_a_hidden_sign_is_found_and_is_what_the_attack_ended_with() -> None:
    def turning(text: Text) -> torch.Tensor:
        return -SURE if "  " in text else SURE

    outcomes, found, _ = edited(turning)
    assert {one.kind for one in found} == {"two spaces"}
    for example, one, outcome in zip(EXAMPLES, found, outcomes, strict=True):
        assert outcome.status == "succeeded"
        assert isinstance(outcome.text, str)
        assert outcome.text.replace("  ", " ") == example.text
        assert outcome.perturbed_share == 0
        assert outcome.queries > 90 + one.asked + len(one.marks)


def test_what_the_search_flipped_or_was_wrong_before_is_left_alone() -> None:
    ended = [Outcome(number, "succeeded", "x", 9, 0.1) for number in range(3)]
    ended += [Outcome(number, "skipped", "x", 1, 0.0) for number in range(3, 5)]
    ended.append(Outcome(5, "errored", "x", 1, 0.0, error="no"))
    outcomes, found, asked = edited(lambda text: SURE, ended)
    assert (outcomes, [one.asked for one in found], asked) == (ended, [0] * 6, [])
    wrong = [replace(ended[0], status="failed")] * 6
    outcomes, found, asked = edited(lambda text: -SURE, wrong)
    assert (outcomes, asked) == (wrong, [])


def test_a_budget_of_queries_holds_for_them_too() -> None:
    outcomes, found, _ = edited(lambda text: SURE, query_budget=95)
    assert [one.asked for one in found] == [5] * 6
    assert [outcome.queries for outcome in outcomes] == [95] * 6
    outcomes, found, asked = edited(lambda text: SURE, query_budget=90)
    assert (asked, [one.asked for one in found]) == ([], [0] * 6)


@pytest.mark.parametrize("silence", [UnansweredError("no"), torch.tensor([torch.nan, 0.0])])
def test_who_answers_no_edited_text_has_withstood_nothing(silence: Any) -> None:
    def hushed(text: Text) -> Any:
        return SURE if text in {example.text for example in EXAMPLES} else silence

    outcomes, _, _ = edited(hushed)
    assert {outcome.status for outcome in outcomes} == {"errored"}
    assert all("no scores of the text with" in (outcome.error or "") for outcome in outcomes)
