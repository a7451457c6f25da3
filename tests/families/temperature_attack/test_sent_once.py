"""What withstands because attacks ask about near copies is told by edited texts that are sent once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import OSA, Levenshtein
from rapidfuzz.process import extractOne
from scipy.stats import kstest, rankdata

from seatrial.families.temperature_attack.params import FRAGMENTS, SENT_ONCE, UNASKED, TemperatureAttackParams
from seatrial.noise.lexicons import stopwords
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
from workers.families.temperature_attack.pieced import less_withstand
from workers.families.temperature_attack.sent_once import (
    FEWEST,
    LATER,
    ONCE,
    SentOnce,
    read_once,
    with_sent_later,
)
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
    assert all(OSA.distance(plain, wrong) == 1 and plain not in stopwords() for plain, wrong in words)
    table = sent(honest, TEXTS[:1], params=PARAMS.model_copy(update={"edit_share": 0.02}))
    assert table["edits"].to_pylist()[0] <= 0.02 * len(text)


def test_fragments_that_say_nothing_keep_no_text_from_being_edited() -> None:
    for nothing in (likely(0.9), UnansweredError("too short")):

        def function(text: str, said: Any = nothing) -> Any:
            return honest(text) if len(text) > 90 else said

        table = sent(function, texts := TEXTS[:8])
        longest = [len(str(row.text)) for row in texts]
        assert all(edits > 5 for edits, length in zip(table["edits"].to_pylist(), longest, strict=True) if length > 90)


WORDS = {
    word: ((number * 37) % 61 - 30) / 20
    for number, word in enumerate(sorted(" ".join(map(str, (example.text for example in TEXTS))).split()))
}


def bag(text: str) -> torch.Tensor:
    """Add up what words count, but for an intercept; what no text has counts nothing."""
    return torch.tensor([0.0, 0.3 + sum(WORDS.get(word, 0.0) for word in text.split())], dtype=torch.float64)


def test_pieces_of_what_is_sent_say_what_a_bag_of_words_says_of_it() -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return bag(text)

    for example in TEXTS[:6]:
        asked.clear()
        row = sent(function, [example]).to_pylist()[0]
        assert row["foreseen"] == pytest.approx(row["lead"], abs=1e-9)
        words = Counter(asked[-1].split())
        at = next(at for at in range(len(asked)) if sum(map(Counter, map(str.split, asked[at:-1])), Counter()) == words)
        assert 2 <= len(asked[at:-1]) <= FRAGMENTS


@pytest.mark.parametrize(("text", "is_cut"), [("一天下来大家都很高兴今天天气好", True), ("word", False), ("!", False)])
def test_pieces_of_what_no_spaces_part_are_less_than_all_of_it(text, is_cut) -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return likely(0.7)

    (row,) = sent(function, [TextExample(0, text, 1)]).to_pylist()
    # Of one word nothing is foreseen: it would be asked about before it is sent.
    assert (row["foreseen"] is not None) is is_cut
    assert asked[-1] not in asked[:-1]
    assert not is_cut or all(len(one) < len(text) for one in asked[:-1] if set(one) - set("qxzvjk "))


def leads_of(texts: int, leaning: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    foreseen = rng.normal(0, 2, texts)
    return np.stack([0.8 * foreseen + rng.normal(leaning, 0.5, texts), foreseen], axis=1)


def found_of(once: np.ndarray, later: np.ndarray) -> SentOnce:
    return SentOnce(once[:, 0] > 0, 0, later[:, 0] > 0, once, later)


def test_a_lean_shows_beside_what_pieces_say_where_decisions_show_none() -> None:
    found = found_of(leads_of(60, 0.0, 1), leads_of(64, 0.5, 2))
    assert found.p < 1e-4
    assert less_withstand(int(found.later.sum()), len(found.later), found.robust) > 0.01
    by_chance = [found_of(leads_of(60, 0.0, seed), leads_of(64, 0.0, seed + 1000)).p for seed in range(300)]
    # Uniform where nothing leans.
    assert kstest(by_chance, "uniform").pvalue > 0.01
    assert found_of(leads_of(FEWEST - 1, 0.0, 1), leads_of(64, 9.0, 2)).p == 1


def test_the_p_of_a_lean_is_that_of_shuffled_texts() -> None:
    once, later = leads_of(40, 0.0, 3), leads_of(40, 0.25, 4)
    lead, foreseen = (rankdata(column) for column in np.concatenate([once, later]).T)
    slope, at = np.polyfit(foreseen, lead, 1)
    left = lead - slope * foreseen - at
    rng = np.random.default_rng(5)
    shuffled = [rankdata(rng.permutation(left))[40:].sum() for _ in range(4000)]
    share = np.mean(np.array(shuffled) >= rankdata(left)[40:].sum())
    assert found_of(once, later).p == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    ("leaning", "changes", "is_told"),
    [(1.5, {}, True), (0.0, {}, False), (1.5, {"validation_dataset": "dat_1"}, False)],
)
def test_a_lean_is_told_of_texts_of_the_same_data(leaning, changes, is_told) -> None:
    table = sent(honest).to_pylist()
    for row, (lead, foreseen) in zip(table, leads_of(len(table), 0.0, 6), strict=True):
        row |= {"lead": lead, "foreseen": foreseen}
    done = audited(honest, examples=TEXTS[HALF:]) | {ONCE: pa.Table.from_pylist(table)}
    closing = done["closing"].to_pylist()
    for row, (lead, foreseen) in zip(closing, leads_of(len(closing), leaning, 7), strict=True):
        row |= {"sent_later_lead": lead, "sent_later_foreseen": foreseen}
    done["closing"] = pa.Table.from_pylist(closing, schema=done["closing"].schema)
    flags = estimates.reduce(PARAMS.model_copy(update=changes), done, 0).flags
    assert any("for what their pieces say" in flag.message for flag in flags) is is_told


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
