"""What withstands because attacks ask about near copies is told by edited texts that are sent once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne

from seatrial.families.temperature_attack.params import SENT_ONCE, UNASKED, TemperatureAttackParams
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_anew import TEXTS
from tests.families.temperature_attack.test_displaced import PARAMS, audited, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import HELD_OUT, Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.sent_once import LATER, ONCE, read_once, with_sent_later
from workers.models import UnansweredError

HALF = len(TEXTS) // 2


@dataclass
class Leaning:
    """Decides about a text as about the first that was near to it, from the third near copy on."""

    edits: int = 40
    asked: dict[str, list[int]] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        if len(text) < 60:
            return honest(text)
        near = extractOne(text, self.asked.keys(), scorer=Levenshtein.distance, score_cutoff=self.edits)
        said = self.asked.setdefault(near[0] if near else text, [right(text), 0])
        said[1] += 1
        label = said[0] if said[1] > 2 else right(text)
        return likely(0.9 if label else 0.1)


def sent(
    function: Callable[[str], Any],
    texts: list[TextExample] = TEXTS[:HALF],
    cut: int = 100,
    params: TemperatureAttackParams = PARAMS,
) -> Records:
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    parts = [
        FAMILY.run(params, Shard(ONCE, at, at + cut), Context(texts[at : at + cut], {None: service}, {}))
        for at in range(0, len(texts), cut)
    ]
    return pa.concat_tables(parts).combine_chunks()


def later(
    function: Callable[[str], Any], texts: list[TextExample] = TEXTS[HALF:], params: TemperatureAttackParams = PARAMS
) -> Records:
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    table = pa.table({"example_id": [row.example_id for row in texts]})
    return with_sent_later(params, Context(texts, {None: service}, {}), table, texts)


def told(once: Records, strength: float) -> dict[str, str]:
    """Return the flags of an audit whose search by labels is so strong."""
    params = parameters(arms=[])
    return {
        flag.code: flag.message
        for flag in estimates.reduce(params, records(params, label_only=strength) | {ONCE: once}, 0).flags
    }


def test_who_leans_on_the_first_near_copy_is_told() -> None:
    function = Leaning()
    once = sent(function)
    closing = later(function)
    found = read_once({ONCE: once, "closing": closing})
    assert found is not None
    assert found.robust.mean() < 0.35
    assert found.later.mean() > 0.8


@pytest.mark.parametrize(("function", "is_told"), [(Leaning, True), (lambda: honest, False)])
def test_the_same_edits_are_sent_after_near_copies(function, is_told) -> None:
    answering = function()
    once = sent(answering)
    done = audited(answering, examples=TEXTS[HALF:]) | {ONCE: once}
    (*_, message) = [
        "",
        *(flag.message for flag in estimates.reduce(PARAMS, done, 0).flags if "near copies" in flag.message),
    ]
    found = read_once(done)
    assert found is not None
    says = f"{int(found.later.sum())} of {HALF}, edited in the same way, after near copies (p = "
    assert (says in message) is is_told


def test_a_function_of_the_text_decides_alike_whenever_it_is_sent() -> None:
    assert sent(honest, TEXTS[HALF:])["robust"].to_pylist() == later(honest)[LATER].to_pylist()


def test_what_is_sent_is_chosen_by_fragments_and_keeps_to_the_letters_an_attack_may_edit() -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return honest(text)

    sent(function, TEXTS[:1])
    text = str(TEXTS[0].text)
    *fragments, edited = asked
    assert 1 <= Levenshtein.distance(text, edited) <= CHARACTERS
    # No question before is near to it.
    assert min(Levenshtein.distance(text, fragment) for fragment in fragments) > len(text) / 3
    words = [(plain, wrong) for plain, wrong in zip(text.split(), edited.split(), strict=True) if plain != wrong]
    assert all(len(plain) == len(wrong) + 1 for plain, wrong in words)
    table = sent(honest, TEXTS[:1], params=PARAMS.model_copy(update={"edit_share": 0.02}))
    assert table["edits"].to_pylist()[0] <= 0.02 * len(text)


def test_fragments_that_say_nothing_keep_no_text_from_being_edited() -> None:
    for nothing in (likely(0.9), UnansweredError("too short")):

        def function(text: str, said: Any = nothing) -> Any:
            return honest(text) if len(text) > 90 else said

        table = sent(function, texts := TEXTS[:8])
        longest = [len(str(row.text)) for row in texts]
        assert all(edits > 5 for edits, length in zip(table["edits"].to_pylist(), longest, strict=True) if length > 90)


def test_no_cut_changes_a_row_and_later_texts_are_left_alone() -> None:
    many = [TextExample(number, TEXTS[number % HALF].text, TEXTS[number % HALF].label) for number in range(110)]
    table = sent(honest, many)
    assert table.equals(sent(honest, many, cut=8))
    assert table["is_asked"].to_pylist() == [True] * SENT_ONCE + [False] * 10


def test_a_pair_and_a_text_without_words_are_sent_too() -> None:
    texts = [TextExample(0, ("a fine day for all", "the day was fine"), 1), TextExample(1, "!", 0)]
    table = sent(lambda text: likely(0.9), texts)
    assert table["edits"].to_pylist()[1] == 0
    assert table["robust"].to_pylist() == [True, False]


def test_texts_without_an_answer_are_told_and_spoil_no_number() -> None:
    def function(text: str) -> Any:
        return honest(text) if len(text) < 45 else UnansweredError("no")

    found = read_once({ONCE: sent(function), "closing": later(function)})
    assert found is not None
    assert (found.answered, found.unanswered, len(found.later)) == (0, HALF, 0)
    message = told(sent(function), 0.5)["controls_unanswered"]
    assert f"{HALF} of {HALF} edited texts that were sent once" in message
    assert read_once({}) is None


@pytest.mark.parametrize(
    ("changes", "source", "limit"),
    [
        ({}, HELD_OUT, UNASKED),
        ({"arms": ["calibrated"], "validation_samples": 50}, HELD_OUT, 50),
        ({"arms": ["calibrated"], "validation_dataset": "dat_1"}, "validation_dataset", 200),
    ],
)
def test_it_comes_before_anything_is_asked_about_its_texts(changes, source, limit) -> None:
    probe = pa.table({"example_id": np.arange(10)})
    params = PARAMS.model_copy(update=changes)
    stage = FAMILY.next_stage(params, {"probe": probe})
    assert stage is not None
    assert (stage.name, stage.source, stage.limit) == (ONCE, source, limit)
    # An audit that went on before there was this stage does without.
    for begun in ("validation", "attack_deepwordbug"):
        stage = FAMILY.next_stage(params, {"probe": probe, begun: probe})
        assert stage is None or stage.name != ONCE


def test_a_recipe_that_keeps_the_class_asks_for_none() -> None:
    probe = pa.table({"example_id": np.arange(10)})
    params = TemperatureAttackParams(kind="temperature_attack", arms=[], recipes=["input_reduction"])
    stage = FAMILY.next_stage(params, {"probe": probe})
    assert stage is not None
    assert stage.name != ONCE
    assert "sent_once" not in params._stage_costs(10, 0, 25.0)
