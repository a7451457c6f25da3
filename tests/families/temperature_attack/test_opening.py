"""Who holds off searches once they have begun is asked with an edited text before."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import OSA

from seatrial.families.temperature_attack.sent import WORDS_ALONE
from seatrial.noise.lexicons import stopwords
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.test_displaced import ATTACK, PARAMS, audited, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_insisting import SAMPLE as ALL
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_sent_once import edited
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import TextExample
from workers.families.temperature_attack.fragments import ANSWER, OPENING, QUESTIONS, edit_by_words
from workers.families.temperature_attack.records import AttackSample
from workers.families.temperature_attack.sent_once import PREPARED
from workers.models import UnansweredError

RECIPE, SAMPLE = f"{ATTACK}deepwordbug", ALL[:14]


def held(text: str) -> torch.Tensor:
    """Answer with the class of the audited text that a text is nearest to."""
    near = min(SAMPLE, key=lambda example: OSA.distance(text, str(example.text)))
    return likely(0.9 if near.label else 0.1)


def test_what_was_wrong_before_any_search_counts_though_it_is_held_since() -> None:
    prepared = edited(honest, SAMPLE, stage=PREPARED)
    turned = {row["example_id"] for row in prepared.to_pylist() if np.argmax(row[ANSWER]) != row["label"]}
    assert len(turned) > len(SAMPLE) / 2
    done = audited(held, examples=SAMPLE, done={PREPARED: prepared})
    sample = AttackSample(done[RECIPE])
    assert set(sample.clean.example_ids[~sample.robust("label_only")].tolist()) == turned
    assert sample.robust("as_served").all()
    by_id = {row["example_id"]: row for row in prepared.to_pylist()}
    for row in done[RECIPE].to_pylist():
        if row["example_id"] in turned:
            before = by_id[row["example_id"]]
            assert [row["label_only.text"]] == before[OPENING]
            assert row["label_only.logits"] == pytest.approx(before[ANSWER])
            assert row["label_only.status"] == "succeeded"
    few = done[PREPARED].set_column(
        done[PREPARED].column_names.index(QUESTIONS), QUESTIONS, pa.array([PARAMS.query_budget + 1] * len(SAMPLE))
    )
    sample = AttackSample(audited(held, examples=SAMPLE, done={PREPARED: few})[RECIPE])
    assert sample.robust("label_only").all()


def test_what_was_right_before_or_had_no_answer_changes_nothing() -> None:
    alone = AttackSample(audited(held, examples=SAMPLE)[RECIPE])
    silent = edited(lambda text: UnansweredError("no") if "fine" not in text else honest(text), SAMPLE, stage=PREPARED)
    for prepared in (edited(held, SAMPLE, stage=PREPARED), silent):
        kept = [row for row in prepared.to_pylist() if row[ANSWER] is None or np.argmax(row[ANSWER]) == row["label"]]
        table = pa.Table.from_pylist(kept, schema=prepared.schema)
        sample = AttackSample(audited(held, examples=SAMPLE, done={PREPARED: table})[RECIPE])
        assert (sample.robust("label_only") == alone.robust("label_only")).all()


def test_words_that_speak_for_the_class_are_misspelt_as_searches_may() -> None:
    seen = list[str]()

    def heard(text: str) -> Any:
        seen.append(text)
        return honest(text)

    context = Context(ALL, {None: ScoringService(TextModel(heard, ["bad", "good"]), max_bytes=0)}, {})
    wrong = 0
    for example in ALL[:30]:
        seen.clear()
        text, asked = edit_by_words(PARAMS, context, example)
        assert 0 < OSA.distance(str(example.text), str(text)) <= CHARACTERS
        words = str(example.text).split()
        # Each word alone, and one of no meaning.
        assert len(seen) == asked <= min(WORDS_ALONE, len(words)) + 1
        assert all(len(one.split()) == 1 for one in seen)
        changed = [old for old, new in zip(words, str(text).split(), strict=True) if old != new]
        assert not set(changed) & set(stopwords())
        wrong += right(str(text)) != example.label
    assert wrong > 15
    long = TextExample(0, " ".join(f"wo{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}d" for n in range(100)), 1)
    seen.clear()
    edit_by_words(PARAMS, context, long)
    assert len(seen) <= WORDS_ALONE + 1
