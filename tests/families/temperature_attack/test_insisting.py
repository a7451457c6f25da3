"""Who begins to keep the class of a text when it is attacked is told by much misspelt ones, before and after."""

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from rapidfuzz.distance import OSA

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.sent import MISSPELT
from seatrial.noise.lexicons import stopwords
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.test_anew import TEXTS
from tests.families.temperature_attack.test_displaced import PARAMS, audited, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_sent_once import HALF, edited
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.word_edits import TYPED
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.insisting import COLUMN, Insistence, much_misspelt
from workers.families.temperature_attack.sent_once import ONCE, PREPARED

SAMPLE = TEXTS[HALF:]


class Insisting:
    """Keeps the class of some texts from the first question on that puts [UNK] in the place of one of their words."""

    def __init__(self, share: float) -> None:
        self._share, self._attacked = share, dict[int, bool]()
        self._words = {example.example_id: set(example.text.split()) for example in SAMPLE}

    def __call__(self, text: str) -> torch.Tensor:
        words = set(text.split())
        near = max(self._words, key=lambda at: len(self._words[at] & words) / len(self._words[at]))
        label = right(text)
        if len(self._words[near] & words) >= 2 and near % 10 < 10 * self._share:
            if "[UNK]" in words:
                self._attacked.setdefault(near, label)
            label = self._attacked.get(near, label)
        return likely(0.9 if label else 0.1)


def flags(function: Callable[[str], Any]) -> dict[str, Flag]:
    done = {ONCE: edited(function), PREPARED: edited(function, SAMPLE, stage=PREPARED)}
    done |= audited(function, examples=SAMPLE, done=done)
    return {flag.code: flag for flag in estimates.reduce(PARAMS, done, 0).flags}


def test_who_keeps_the_class_of_some_texts_when_they_are_attacked_is_told() -> None:
    message = flags(Insisting(0.5))["answers_depend_on_history"].message
    assert "are decided rightly more often, much misspelt, after they were attacked than before, and 0 less" in message


@pytest.mark.parametrize("function", [honest, Insisting(0.0)])
def test_a_function_is_left_alone(function: Callable[[str], Any]) -> None:
    flag = flags(function).get("answers_depend_on_history")
    assert flag is None or "much misspelt" not in flag.message


def test_texts_are_misspelt_as_much_as_attacks_may_and_anew_each_time() -> None:
    context = Context(SAMPLE, {None: ScoringService(TextModel(honest, ["bad", "good"]), max_bytes=0)}, {})
    for example in SAMPLE[:20]:
        before, after = (much_misspelt(PARAMS, context, example, when) for when in ("before", "after"))
        assert len(before) == len(after) == MISSPELT
        assert before != after
        assert before == much_misspelt(PARAMS, context, example, "before")
        words = example.text.split()
        assert len(set(before)) > 1
        for text in before:
            assert OSA.distance(example.text, text) <= CHARACTERS
            changed = [old for old, new in zip(words, text.split(), strict=True) if old != new]
            assert len(changed) >= round(0.3 * sum(word not in stopwords() and len(word) > 2 for word in words))
    few = PARAMS.model_copy(update={"edit_share": 0.05})
    assert all(
        OSA.distance(example.text, text) <= 0.05 * len(example.text)
        for example in SAMPLE[:20]
        for text in much_misspelt(few, context, example, "before")
    )


def test_words_that_speak_for_a_class_are_preferred_where_that_is_known() -> None:
    context = Context(SAMPLE, {None: ScoringService(TextModel(honest, ["bad", "good"]), max_bytes=0)}, {})
    found = Counter[float]()
    for example in SAMPLE[:20]:
        words = str(example.text).split()
        speaks = [word for word in dict.fromkeys(words) if word not in stopwords() and len(word) > 2]
        weights = {word.lower(): value for word, value in zip(speaks, itertools.cycle((2.0, 0.5, 0.1, -1.0)))}
        edit = partial(much_misspelt, PARAMS, context, example, "known", 6, kinds=[TYPED], weights=weights)
        drawn = edit()
        assert len(set(drawn)) > 1
        # The same words, in other letters.
        same = edit(same_words=True)
        assert len({tuple(of == as_is for of, as_is in zip(text.split(), words, strict=True)) for text in same}) == 1
        for text in [*drawn, *same]:
            assert text == text.lower()
            for old, new in zip(words, text.split(), strict=True):
                found[weights.get(old.lower(), 0.0)] += old != new
        against = dict.fromkeys(weights, -1.0)
        assert all(
            text != example.text for text in much_misspelt(PARAMS, context, example, "known", 2, weights=against)
        )
    assert found[2.0] > 1.2 * found[0.1] > 0
    # Whoever knows the weights is told by none that is spared.
    assert found[0.1] > found[-1.0] > 0.4 * found[2.0]


def test_no_cut_changes_a_row_and_who_gives_no_answer_is_not_counted() -> None:
    whole = edited(honest, SAMPLE[:12], stage=PREPARED)
    assert whole.equals(edited(honest, SAMPLE[:12], cut=5, stage=PREPARED))
    assert max(whole[COLUMN].to_pylist()) <= MISSPELT

    def silent(text: str) -> torch.Tensor:
        return honest(text) if len(text) % 9 else torch.tensor([0.0, float("nan")])

    assert None in edited(silent, SAMPLE[:12], stage=PREPARED)[COLUMN].to_pylist()


def test_records_from_before_they_were_asked_about_are_read() -> None:
    done = {ONCE: edited(honest), PREPARED: edited(honest, SAMPLE, stage=PREPARED).drop_columns([COLUMN])}
    done |= audited(honest, examples=SAMPLE, done=done)
    assert estimates.reduce(PARAMS, done, 0).estimates


def test_texts_are_counted_by_where_they_moved() -> None:
    found = Insistence(np.array([8, 0, -1, 2]))
    assert (found.more, found.less) == (2, 1)
    # Of eight signs of 8, -1 and 2 one other gives as much.
    assert found.p == 2 / 8
