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
from scipy.stats import hypergeom, kstest, rankdata

from seatrial.contracts.costs import OnDemand
from seatrial.families.temperature_attack.params import TemperatureAttackParams, stage_costs
from seatrial.families.temperature_attack.sent import FRAGMENTS, MISSPELT, SENT_LATER, SENT_ONCE
from seatrial.noise.lexicons import stopwords
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_anew import TEXTS
from tests.families.temperature_attack.test_displaced import PARAMS, audited, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import HELD_OUT, SAMPLE, Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.pieced import less_withstand
from workers.families.temperature_attack.probe import edit_path
from workers.families.temperature_attack.sent_once import (
    ELSEWHERE,
    FEWEST,
    ONCE,
    PREPARED,
    ROBUST,
    Later,
    SentOnce,
    largest_p,
    read_once,
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


def edited(
    function: Callable[[str], Any],
    texts: list[TextExample] = TEXTS[:HALF],
    cut: int = 100,
    params: TemperatureAttackParams = PARAMS,
    stage: str = ONCE,
) -> Records:
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    parts = [
        FAMILY.run(params, Shard(stage, at, at + cut), Context(texts[at : at + cut], {None: service}, {}))
        for at in range(0, len(texts), cut)
    ]
    return pa.concat_tables(parts).combine_chunks()


def later(function: Callable[[str], Any], texts: list[TextExample] = TEXTS[HALF:]) -> dict[str, Records]:
    """Send what is prepared after twenty near copies of each text, which was asked about first, as an audit's are."""
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    service.ask_anew([example.text for example in texts])
    done = {PREPARED: edited(function, texts, stage=PREPARED)}
    for example in texts:
        service.ask_anew(edit_path(example.text, example.example_id, 20))
    sending = Later(PARAMS, Context(texts, {None: service}, done), texts, "deepwordbug")
    table = pa.table({"example_id": [row.example_id for row in texts]})
    return done | {"attack_deepwordbug": sending.beside(table)}


def told(once: Records, strength: float) -> dict[str, str]:
    """Return the flags of an audit whose search by labels is so strong."""
    params = parameters(arms=[])
    return {
        flag.code: flag.message
        for flag in estimates.reduce(params, records(params, label_only=strength) | {ONCE: once}, 0).flags
    }


def test_who_leans_on_the_first_near_copy_is_told() -> None:
    function = Leaning()
    found = read_once(PARAMS, {ONCE: edited(function)} | later(function))
    assert found is not None
    assert found.robust.mean() < 0.35
    assert found.later.mean() > 0.8


@pytest.mark.parametrize(("function", "is_told"), [(Leaning, True), (lambda: honest, False)])
def test_the_same_edits_are_sent_while_texts_are_attacked(function, is_told) -> None:
    answering = function()
    for example in TEXTS[HALF:]:
        answering(example.text)
    done = {ONCE: edited(answering), PREPARED: edited(answering, TEXTS[HALF:], stage=PREPARED)}
    done |= audited(answering, examples=TEXTS[HALF:], done=done)
    (*_, message) = [
        "",
        *(flag.message for flag in estimates.reduce(PARAMS, done, 0).flags if "near copies" in flag.message),
    ]
    found = read_once(PARAMS, done)
    assert found is not None
    says = f"{int(found.later.sum())} of {HALF}, edited in the same way, after near copies (p = "
    assert (says in message) is is_told


def test_a_function_of_the_text_decides_alike_whenever_it_is_sent() -> None:
    once, found = edited(honest, TEXTS[HALF:]), later(honest)
    assert once[ROBUST].to_pylist() == found["attack_deepwordbug"][ROBUST].to_pylist()
    assert once["foreseen"].to_pylist() == found[PREPARED]["foreseen"].to_pylist()


def test_each_is_sent_once_within_an_attack_or_at_its_end_and_by_the_first_recipe_alone() -> None:
    texts = TEXTS[:10]
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return honest(text)

    done = {PREPARED: edited(honest, texts, stage=PREPARED)}
    service = ScoringService(TextModel(function, ["bad", "good"]), max_bytes=0)
    context = Context(texts, {None: service}, done)
    sending = Later(PARAMS, context, texts, "deepwordbug")
    table = pa.table({"example_id": [row.example_id for row in texts]})
    heard: list[int] = []
    seen = []
    for by_labels in (False, True):
        listen = sending.during(lambda outcome: heard.append(outcome.example_id), by_labels=by_labels)
        for row in texts[:8]:
            listen(Outcome(row.example_id, "failed", row.text, 1, 0.0))
        seen.append(len(asked))
    # By a coin after one or the other; those without an attack at the end.
    assert 0 < seen[0] < 8 * (1 + MISSPELT) == seen[1]
    assert heard == [row.example_id for row in texts[:8]] * 2
    rows = sending.beside(table).to_pylist()
    written = {row["example_id"]: row["parts"] for row in done[PREPARED].to_pylist()}
    # Each before it is asked about much misspelt.
    assert sorted(asked[:: 1 + MISSPELT]) == sorted(text for (text,) in written.values())
    assert all(row[ROBUST] is not None for row in rows)
    assert Later(PARAMS, context, texts, "pwws").beside(table).column_names == ["example_id"]
    # Of texts behind those that are prepared the table is of the same columns.
    others = Later(PARAMS, context, TEXTS[10:12], "deepwordbug")
    behind = others.beside(pa.table({"example_id": [row.example_id for row in TEXTS[10:12]]}))
    assert behind.schema == sending.beside(table).schema
    assert behind[ROBUST].to_pylist() == [None, None]
    # An audit that began before there was this stage.
    assert Later(PARAMS, Context(texts, {None: service}, {}), texts, "deepwordbug").beside(table).equals(table)


def test_what_is_sent_is_chosen_by_fragments_and_keeps_to_the_letters_an_attack_may_edit() -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return honest(text)

    edited(function, TEXTS[:1])
    text = str(TEXTS[0].text)
    *fragments, sent = asked
    assert 1 <= Levenshtein.distance(text, sent) <= CHARACTERS
    # No question before is near to it.
    assert min(Levenshtein.distance(text, fragment) for fragment in fragments) > len(text) / 3
    words = [(plain, wrong) for plain, wrong in zip(text.split(), sent.split(), strict=True) if plain != wrong]
    assert all(OSA.distance(plain, wrong) <= 2 and plain not in stopwords() for plain, wrong in words)
    table = edited(honest, TEXTS[:1], params=PARAMS.model_copy(update={"edit_share": 0.02}))
    assert table["edits"].to_pylist()[0] <= 0.02 * len(text)


def test_fragments_that_say_nothing_keep_no_text_from_being_edited() -> None:
    for nothing in (likely(0.9), UnansweredError("too short")):

        def function(text: str, said: Any = nothing) -> Any:
            return honest(text) if len(text) > 90 else said

        table = edited(function, texts := TEXTS[:8])
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
        row = edited(function, [example]).to_pylist()[0]
        assert row["foreseen"] == pytest.approx(row["sent_lead"], abs=1e-9)
        # The same words are misspelt in the pieces, and otherwise.
        *before, last = (text.split() for text in asked)
        at = next(at for at in reversed(range(len(before))) if sum(map(len, before[at:])) == len(last))
        pieces = [word for piece in before[at:] for word in piece]
        assert Counter(word for word in last if word in WORDS) == Counter(word for word in pieces if word in WORDS)
        assert set(last) - set(WORDS) != set(pieces) - set(WORDS)
        assert 2 <= len(before[at:]) <= FRAGMENTS


@pytest.mark.parametrize(("text", "is_cut"), [("一天下来大家都很高兴今天天气好", True), ("word", False), ("!", False)])
def test_pieces_of_what_no_spaces_part_are_less_than_all_of_it(text, is_cut) -> None:
    asked: list[str] = []

    def function(text: str) -> torch.Tensor:
        asked.append(text)
        return likely(0.7)

    (row,) = edited(function, [TextExample(0, text, 1)]).to_pylist()
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
    # Where nothing leans small ones are no more frequent than they say.
    assert kstest(by_chance, "uniform", alternative="greater").pvalue > 0.01
    assert found_of(leads_of(FEWEST - 1, 0.0, 1), leads_of(64, 9.0, 2)).p == 1


def residuals(once: np.ndarray, later: np.ndarray) -> np.ndarray:
    lead, foreseen = (rankdata(column) for column in np.concatenate([once, later]).T)
    slope, at = np.polyfit(foreseen, lead, 1)
    return lead - slope * foreseen - at


def test_the_p_of_a_lean_is_that_of_shuffled_texts() -> None:
    once, later = leads_of(40, 0.0, 3), leads_of(40, 0.25, 4)
    left = residuals(once, later)
    rng = np.random.default_rng(5)
    shuffled = [rng.permutation(left) for _ in range(4000)]
    sums = [rankdata(each)[40:].sum() for each in (left, *shuffled)]
    shares = [np.mean(np.array(sums[1:]) >= sums[0])]
    for count in (8, 16):
        hits = [np.sum(np.argsort(-each)[:count] >= 40) for each in (left, *shuffled)]
        shares.append(np.mean(np.array(hits[1:]) >= hits[0]))
    assert found_of(once, later).p == pytest.approx(min(1, 3 * min(shares)), abs=0.06)


def test_a_few_decisions_that_are_kept_show_where_ranks_show_none() -> None:
    once, later = leads_of(120, 0.0, 1), leads_of(120, 0.0, 2)
    # Of one in six the side is kept that an attack would have turned.
    kept = np.flatnonzero(later[:, 0] < -0.5)[:20]
    later[kept, 0] *= -1
    found = found_of(once, later)
    assert found.p < 1e-3
    assert less_withstand(int(found.later.sum()), len(found.later), found.robust) > 1e-3
    left = residuals(once, later)
    largest = np.sort(left)[-24:]
    among = int(np.isin(left[120:], largest).sum())
    assert largest_p(left[:120], left[120:], 0.1) == pytest.approx(hypergeom.sf(among - 1, 240, 120, 24))
    # Of what ties the earlier counts as the larger.
    assert largest_p(np.zeros(10), np.zeros(10), 0.5) == 1


@pytest.mark.parametrize(
    ("leaning", "is_elsewhere", "is_told"), [(1.5, False, True), (0.0, False, False), (1.5, True, False)]
)
def test_a_lean_is_told_of_texts_of_the_same_data(leaning, is_elsewhere, is_told) -> None:
    table = edited(honest).to_pylist()
    for row, (lead, foreseen) in zip(table, leads_of(len(table), 0.0, 6), strict=True):
        row |= {"sent_lead": lead, "foreseen": foreseen}
    done = {PREPARED: edited(honest, TEXTS[HALF:], stage=PREPARED)}
    done |= audited(honest, examples=TEXTS[HALF:], done=done)
    done[ELSEWHERE if is_elsewhere else ONCE] = pa.Table.from_pylist(table)
    prepared, attacked = done[PREPARED].to_pylist(), done["attack_deepwordbug"].to_pylist()
    for before, after, (lead, foreseen) in zip(prepared, attacked, leads_of(HALF, leaning, 7), strict=True):
        before |= {"foreseen": foreseen}
        after |= {"sent_lead": lead}
    done[PREPARED] = pa.Table.from_pylist(prepared, schema=done[PREPARED].schema)
    done["attack_deepwordbug"] = pa.Table.from_pylist(attacked, schema=done["attack_deepwordbug"].schema)
    flags = estimates.reduce(PARAMS, done, 0).flags
    assert any("for what their pieces say" in flag.message for flag in flags) is is_told


def test_no_cut_changes_a_row() -> None:
    for stage in (ONCE, PREPARED):
        assert edited(honest, cut=100, stage=stage).equals(edited(honest, cut=8, stage=stage))


def test_a_pair_and_a_text_without_words_are_sent_too() -> None:
    texts = [TextExample(0, ("a fine day for all", "the day was fine"), 1), TextExample(1, "!", 0)]
    table = edited(lambda text: likely(0.9), texts)
    assert table["edits"].to_pylist()[1] == 0
    assert table[ROBUST].to_pylist() == [True, False]
    parts = edited(lambda text: likely(0.9), texts, stage=PREPARED)["parts"].to_pylist()
    assert list(map(len, parts)) == [2, 1]


def test_texts_without_an_answer_are_told_and_spoil_no_number() -> None:
    def function(text: str) -> Any:
        return honest(text) if len(text) < 45 else UnansweredError("no")

    found = read_once(PARAMS, {ONCE: edited(function)} | later(function))
    assert found is not None
    assert (found.answered, found.unanswered, len(found.later)) == (0, HALF, 0)
    message = told(edited(function), 0.5)["controls_unanswered"]
    assert f"{HALF} of {HALF} edited texts that were sent once" in message
    assert read_once(PARAMS, {}) is None


def test_it_comes_before_anything_else_is_asked_about_its_texts() -> None:
    probe, few, many = (pa.table({"example_id": np.arange(count)}) for count in (64, FEWEST - 1, FEWEST))
    elsewhere = PARAMS.model_copy(update={"arms": ["calibrated"], "validation_dataset": "dat_1"})

    def following(params: TemperatureAttackParams, done: dict[str, Records]) -> tuple[str, str, int | None]:
        stage = FAMILY.next_stage(params, {"probe": probe, **done})
        assert stage is not None
        return stage.name, stage.source, stage.limit

    for params in (PARAMS, elsewhere):
        assert following(params, {}) == (ONCE, HELD_OUT, SENT_ONCE)
        # Of a small sample no more than are compared with them.
        assert following(params, {"probe": few}) == (ONCE, HELD_OUT, FEWEST - 1)
        assert following(params, {ONCE: many}) == (PREPARED, SAMPLE, SENT_LATER)
        # An audit that went on before there were these stages does without.
        for begun in ("validation", "attack_deepwordbug"):
            assert following(params, {begun: probe})[0] not in (ONCE, PREPARED)
    # Where the data hold too few texts beside the sample, those for validation are sent.
    assert following(PARAMS, {ONCE: few})[0] == PREPARED
    assert following(elsewhere, {ONCE: few}) == (ELSEWHERE, "validation_dataset", 160)
    assert following(elsewhere, {ONCE: few, ELSEWHERE: many})[0] == PREPARED


def test_a_recipe_that_keeps_the_class_asks_for_none() -> None:
    probe = pa.table({"example_id": np.arange(10)})
    params = TemperatureAttackParams(kind="temperature_attack", arms=[], recipes=["input_reduction"])
    stage = FAMILY.next_stage(params, {"probe": probe})
    assert stage is not None
    assert stage.name not in (ONCE, PREPARED)
    assert not {"sent_once", "prepared"} & set(params._stage_costs(10, 0, 25.0))


def test_the_stage_that_is_seldom_run_is_told_as_one() -> None:
    params = {"kind": "temperature_attack", "arms": ["calibrated"], "validation_dataset": "dat_1"}
    costs = stage_costs(TemperatureAttackParams.model_validate(params).model_dump(mode="json"), 300)
    assert list(costs)[3:6] == [ONCE, ELSEWHERE, PREPARED]
    assert isinstance(costs[ELSEWHERE], OnDemand)
    assert ELSEWHERE not in stage_costs(PARAMS.model_dump(mode="json"), 300)
