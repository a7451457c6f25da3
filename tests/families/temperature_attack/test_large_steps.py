"""Who knows a search by the few words that its questions differ by is asked about many at once."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from rapidfuzz.distance import OSA

from seatrial.families.temperature_attack.params import LARGE_STEPS, TemperatureAttackParams
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.test_anew import TEXTS
from tests.families.temperature_attack.test_displaced import right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import TextExample
from workers.families.temperature_attack.large_steps import step_far
from workers.families.temperature_attack.probe import edit_path

SAMPLE = TEXTS[:24]

APART = SAMPLE[::2]
"""Texts that share no sentence."""


def stepped(
    function: Callable[[Any], Any],
    examples: Sequence[TextExample] = SAMPLE,
    status: str = "failed",
    recipe: str = "deepwordbug",
    **more: Any,
) -> tuple[list[Outcome], list[Text]]:
    """Return how searches that ended so end with these questions, and what was asked."""
    asked: list[Text] = []

    def answer(text: Text) -> Any:
        asked.append(text)
        return function(text)

    params = TemperatureAttackParams.model_validate({"kind": "temperature_attack", "arms": []} | more)
    context = Context(examples, {None: ScoringService(TextModel(answer, ["no", "yes"]), max_bytes=10**6)}, {})
    clean = [likely(0.9 if example.label else 0.1) for example in examples]
    ended = [Outcome(example.example_id, status, "last try", 90, 0.5) for example in examples]  # type: ignore[arg-type]
    return step_far(params, context, examples, clean, ended, recipe), asked


class HoldingOff:
    """Gives a text its class where at most three words were never asked about, and decides all else itself."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def __call__(self, text: str) -> torch.Tensor:
        words = text.split()
        near = max(APART, key=lambda example: sum(map(str.__eq__, words, str(example.text).split())))
        label = near.label if len(set(words) - self._words) <= 3 else right(text)
        self._words |= set(words)
        return likely(0.9 if label else 0.1)


def test_who_holds_off_searches_by_small_steps_does_not_withstand() -> None:
    holding, texts = HoldingOff(), APART
    for example in texts:
        holding(str(example.text))
        path = edit_path(example.text, example.example_id, 12)
        assert all(int(holding(str(text)).argmax()) == example.label for text in path)
    outcomes, _ = stepped(holding, texts)
    assert sum(outcome.status == "succeeded" for outcome in outcomes) > len(texts) // 2


def test_texts_keep_to_what_the_recipe_may_edit_and_the_first_that_turns_counts() -> None:
    outcomes, asked = stepped(lambda text: likely(0.9 if right(text) else 0.1))
    assert {outcome.status for outcome in outcomes} == {"failed", "succeeded"}
    for outcome, example in zip(outcomes, SAMPLE, strict=True):
        assert outcome.queries == 90 + LARGE_STEPS
        if outcome.status == "succeeded":
            assert right(str(outcome.text)) != example.label
            assert OSA.distance(str(example.text), str(outcome.text)) <= CHARACTERS
            assert 0 < outcome.perturbed_share <= 1
            assert outcome.text in asked
        else:
            assert outcome.text == "last try"


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"recipe": "pwws"}, 0),
        ({"status": "succeeded"}, 0),
        ({"status": "errored"}, 0),
        ({"pair_parts": "hypothesis"}, 0),
        ({"query_budget": 95}, 5),
        ({"query_budget": 80}, 0),
        ({"pair_parts": "both"}, LARGE_STEPS),
    ],
)
def test_nobody_else_is_asked_and_no_budget_is_exceeded(more, most) -> None:
    outcomes, asked = stepped(lambda text: likely(0.9), SAMPLE[:1], **more)
    assert len(asked) <= most
    assert outcomes[0].queries == 90 + most


def test_who_gives_no_answer_has_withstood_nothing() -> None:
    def silent(text: str) -> torch.Tensor:
        return torch.tensor([0.0, float("nan")])

    outcomes, _ = stepped(silent, SAMPLE[:3])
    assert {(outcome.status, outcome.error) for outcome in outcomes} == {
        ("errored", "no scores of the text with misspelt words")
    }
