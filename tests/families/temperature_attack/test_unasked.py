"""What withstands because it was asked as it is before is told by texts that never were."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne

from seatrial.families.temperature_attack.params import UNASKED, TemperatureAttackParams
from seatrial.families.temperature_attack.sent import PROBED
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_anew import SPELT
from tests.families.temperature_attack.test_crossing import LONG
from tests.families.temperature_attack.test_displaced import PARAMS, Keeping, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import HELD_OUT, Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.family import FAMILY, UNASKED_TEXTS
from workers.families.temperature_attack.quiet import QUIET
from workers.families.temperature_attack.unasked import FEWEST, read_unasked
from workers.models import UnansweredError

TEXTS = [TextExample(row.example_id, row.text, right(str(row.text))) for row in LONG[:32]]


@dataclass
class ReadingByTraffic:
    """Decides about what is misspelt as about the nearest text it was asked that was not."""

    edits: int
    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        label = right(text)
        if set(text.split()) <= SPELT:
            self.asked[text] = label
        elif near := extractOne(text, self.asked.keys(), scorer=Levenshtein.distance, score_cutoff=self.edits):
            label = self.asked[near[0]]
        return likely(0.9 if label else 0.1)


def attacked(
    function: Callable[[str], Any], texts: list[TextExample] = TEXTS, *, cut: int = 32, validated: int = 0, **more: Any
) -> Records:
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    params = PARAMS.model_copy(update=more)
    done = {"validation": pa.table({"example_id": [row.example_id for row in texts[:validated]]})}
    parts = [
        FAMILY.run(
            params, Shard(UNASKED_TEXTS, start, start + cut), Context(texts[start : start + cut], {None: service}, done)
        )
        for start in range(0, len(texts), cut)
    ]
    return pa.concat_tables(parts).combine_chunks()


def told(table: Records | None, strength: float) -> dict[str, str]:
    """Return the flags of an audit whose search by labels is so strong on texts that were asked before."""
    params = parameters(arms=[])
    done = records(params, label_only=strength) | ({} if table is None else {UNASKED_TEXTS: table})
    return {flag.code: flag.message for flag in estimates.reduce(params, done, 0).flags}


def test_who_reads_typos_by_what_it_was_asked_is_told() -> None:
    function = ReadingByTraffic(70)
    for row in TEXTS:
        function(str(row.text))
    # As they were asked before, they withstand; others do not, since nobody asks them as they are.
    assert read_unasked(attacked(function)).robust.mean() > 0.9  # type: ignore[union-attr]
    table = attacked(ReadingByTraffic(70))
    message = told(table, 0.1)["answers_depend_on_history"]
    assert "that were never asked as they are" in message


def test_who_keeps_what_it_decided_first_is_asked_first_about_what_it_cannot_read() -> None:
    function = Keeping(40)
    for row in TEXTS:
        function(str(row.text))
    assert read_unasked(attacked(function)).robust.mean() > 0.9  # type: ignore[union-attr]
    found = read_unasked(attacked(Keeping(40)))
    assert found is not None
    # What it decides is what it took the text for with many letters less, and no attack has to do more.
    assert found.right.mean() < 0.75
    assert (found.robust == found.right).all()


def test_who_turns_round_at_signs_but_of_texts_that_are_measured_is_asked_before() -> None:
    labels = {str(row.text): row.label for row in TEXTS}
    asked: dict[str, int] = dict.fromkeys(labels, 0)

    def function(text: str) -> torch.Tensor:
        near, *_ = extractOne(text, labels.keys(), scorer=Levenshtein.distance)
        asked[near] += 1
        turns = "  " in text and asked[near] < 60
        return likely(0.9 if labels[near] != turns else 0.1)

    found = read_unasked(attacked(function))
    assert found is not None
    assert found.right.all()
    assert not found.robust.any()


@dataclass
class Undoing:
    """Undoes signs at the words of texts that it was asked as they are, and turns round at them elsewhere."""

    asked: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> torch.Tensor:
        plain, signs = re.subn(r"(?<!\S)[\[*_#@('](\w+)[\]*_)']?", r"\1", text)
        if plain == text:
            self.asked.add(text)
        near, _, _ = extractOne(plain, [str(row.text) for row in TEXTS], scorer=Levenshtein.distance)
        return likely(0.9 if right(near) != (signs > 5 and near not in self.asked) else 0.1)


def test_who_reads_signs_of_texts_it_was_asked_is_told_by_those_it_was_not() -> None:
    found = read_unasked(table := attacked(Undoing()))
    assert found is not None
    assert (found.marked, found.turning) == (32, 32)
    message = told(table, 0.5)["marked_words"]
    assert "Of 32 texts that were never asked as they are" in message
    assert "32 change class" in message
    known = Undoing()
    for row in TEXTS:
        known(str(row.text))
    assert read_unasked(attacked(known)).turning == 0  # type: ignore[union-attr]
    # Records from before these were asked.
    old = read_unasked(table.drop_columns(["marks_asked", "marks_turning"]))
    assert old is not None
    assert (old.marked, old.turning) == (0, 0)


def test_an_honest_model_withstands_no_less() -> None:
    table = attacked(honest)
    found = read_unasked(table)
    assert found is not None
    assert found.answered == len(TEXTS)
    assert "answers_depend_on_history" not in told(table, 10.0)
    assert "answers_depend_on_history" not in told(None, 0.1)


def test_texts_of_the_validation_are_left_alone() -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return honest(text)

    table = attacked(function, arms=["calibrated"], validation_samples=18, validated=20, cut=8)
    # Two of the validation are behind as many as it has.
    assert table["is_asked"].to_pylist() == [False] * 20 + [True] * 12
    written = {str(row.text) for row in TEXTS}
    assert not written & set(asked)
    assert table.equals(attacked(honest, arms=["calibrated"], validation_samples=20, validated=20))
    # Too few to compare, however few withstand.
    assert len(read_unasked(table).robust) < FEWEST  # type: ignore[union-attr, arg-type]
    assert "answers_depend_on_history" not in told(table, 0.1)


def test_the_stage_is_no_longer_than_the_probe_and_comes_last() -> None:
    probe = pa.table({"example_id": np.arange(10)})
    done = {"probe": probe, "attack_deepwordbug": probe, "closing": probe}
    stage = FAMILY.next_stage(PARAMS, done)
    assert stage is not None
    assert (stage.name, stage.source, stage.limit, stage.is_closing) == (UNASKED_TEXTS, HELD_OUT, 10, True)
    done["probe"] = pa.table({"example_id": np.arange(PROBED)})
    fitted = PARAMS.model_copy(update={"arms": ["calibrated"], "validation_samples": 50})
    stage = FAMILY.next_stage(fitted, done | {"validation": probe})
    assert stage is not None
    assert stage.limit == 50 + UNASKED
    following = FAMILY.next_stage(PARAMS, done | {UNASKED_TEXTS: probe})
    assert following is not None
    assert following.name == QUIET
    alone = TemperatureAttackParams(kind="temperature_attack", arms=[], recipes=["input_reduction"])
    assert FAMILY.next_stage(alone, {"probe": probe, "attack_input_reduction": probe, "closing": probe}) is None


@pytest.mark.parametrize(("silent", "is_told"), [(32, True), (0, False)])
def test_texts_without_an_answer_are_told(silent: int, is_told: bool) -> None:
    turns = iter(range(10**6))
    table = attacked(lambda text: UnansweredError("no") if next(turns) < 10**5 and silent else honest(text))
    found = read_unasked(table)
    assert found is not None
    assert found.unanswered == silent
    assert ("controls_unanswered" in told(table, 0.5)) is is_told
    assert read_unasked(None) is None
