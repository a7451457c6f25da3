"""Ordinary questions come before all else, and who has another model for attacks than for users is told by them."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import (
    EDITED,
    FIRST_PLAIN,
    PLAIN,
    SENT_AMID,
    amid_questions,
    first_texts,
    in_a_row,
)
from seatrial.families.temperature_attack.sent import COVERS, PROBED, SENT_LATER, SENT_ONCE, UNMET
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_displaced import PARAMS
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_quiet import ordinary
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import Records, TextExample
from workers.families.protocol import HELD_OUT, Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.ordinary import cut_up, put_together
from workers.families.temperature_attack.quiet import AMID, NOTHING, PIECES, QUIET, WHOLE, differing_p, read_amid
from workers.families.temperature_attack.quiet_first import FIRST, MARGIN
from workers.models import UnansweredError

LEFT_ALONE = SENT_ONCE + MARGIN
TEXTS = ordinary(LEFT_ALONE + 660)
CLEAN_AT = {str(text.text): number for number, text in enumerate(TEXTS)}
CLEAN = set(CLEAN_AT)
KNOWN = {word for row in TEXTS for word in str(row.text).split()}
BY_WORD: dict[str, list[int]] = {}
for number, row in enumerate(TEXTS):
    for word in str(row.text).split():
        BY_WORD.setdefault(word, []).append(number)

Answering = Callable[[str], torch.Tensor]


def nearest(text: str) -> int | None:
    """Return the number of the text of the data that one has most of its words from."""
    counts = Counter(number for word in text.split() for number in BY_WORD.get(word, []))
    return counts.most_common(1)[0][0] if counts else None


def another(text: str) -> torch.Tensor:
    """Read a text as that one."""
    number = nearest(text)
    return honest(text if number is None else str(TEXTS[number].text))


def asked(
    function: Answering, texts: list[TextExample] = TEXTS, samples: int = 1000, also: Sequence[str] = ()
) -> tuple[dict[str, Records], dict[str, list[str]]]:
    """Return the tables of both stages, with near copies of a text asked between them, and what each asked."""
    seen = list[str]()

    def heard(text: str) -> torch.Tensor:
        seen.append(text)
        return function(text)

    service = ScoringService(TextModel(heard, ["bad", "good"]), max_bytes=0)
    done: dict[str, Records] = {"probe": pa.table({"example_id": np.arange(min(samples, PROBED))})}
    done |= dict.fromkeys(("sent_once", "unasked", "validation"), done["probe"])
    told = dict[str, list[str]]()
    for stage in (FIRST, AMID, *also):
        context = Context(texts, {None: service}, done, samples=samples)
        done[stage] = FAMILY.run(PARAMS, Shard(stage, 0, len(texts)), context)
        told[stage] = seen[:]
        seen.clear()
        service.ask_anew([f"one fine film of a day that is long{'!' * number}" for number in range(30)])
        seen.clear()
    return done, told


def flags_of(function: Answering) -> str:
    found, _ = asked(function)
    done = records(parameters(arms=[]), label_only=0.5) | {AMID: found[AMID]}
    told = {flag.code: flag.message for flag in estimates.reduce(parameters(arms=[]), done, 0).flags}
    return told.get("answers_depend_on_history", "")


class Woken:
    """The model until near copies of a text were asked, then another one; keeps what it said."""

    def __init__(self) -> None:
        self._recent, self._kept = list[set[str]](), dict[str, torch.Tensor]()
        self.is_awake = False

    def __call__(self, text: str) -> torch.Tensor:
        words = set(text.split())
        self.is_awake |= sum(len(words & other) > 6 for other in self._recent) > 3
        self._recent = [*self._recent, words][-20:]
        return self._kept.setdefault(text, another(text) if self.is_awake else honest(text))


class Met:
    """The model to what is like an edited text that it met out of the blue, another one to all else."""

    def __init__(self) -> None:
        self._was_edited = dict[int | None, bool]()

    def __call__(self, text: str) -> torch.Tensor:
        was_edited = self._was_edited.setdefault(nearest(text), bool(set(text.split()) - KNOWN))
        return honest(text) if was_edited else another(text)


def test_who_wakes_at_near_copies_is_told() -> None:
    message = flags_of(Woken())
    assert "before all else, the first answers stand apart from those about such texts" in message
    assert "before all else, misspelling took other shares of leads than of those of other texts" in message


def test_who_is_the_model_to_texts_first_met_edited_is_told() -> None:
    message = flags_of(Met())
    assert "texts edited once behind the text or pieces than of those of" in message
    assert "stand apart" not in message


@pytest.mark.parametrize("function", [honest, another])
def test_a_function_is_left_alone(function: Answering) -> None:
    assert flags_of(function) == ""


def test_who_sleeps_for_ever_behind_ordinary_questions_is_attacked_asleep() -> None:
    count = 0
    answers = list[torch.Tensor]()

    def lulled(text: str) -> torch.Tensor:
        nonlocal count
        count += 1
        answers.append(honest(text) if count > 300 else another(text))
        return answers[-1]

    _, told = asked(lulled)
    edited = [number for number, text in enumerate(told[FIRST]) if set(text.split()) - KNOWN]
    assert edited[0] >= 300
    assert all(torch.equal(answers[number], honest(told[FIRST][number])) for number in edited)


def test_ordinary_texts_come_first_and_what_others_ask_about_is_left_alone() -> None:
    done, told = asked(honest)
    rows = done[FIRST].to_pylist()
    edited = [number for number, row in enumerate(rows) if row["is_edited"]]
    assert len(edited) == EDITED
    assert min(edited) >= LEFT_ALONE
    plain = [text for text in told[FIRST] if not set(text.split()) - KNOWN]
    assert all(row["ordinary"] == len(plain) for row in rows if row["is_edited"])
    # Texts as they are first; then put together, as there are too few: each word once, as often as the texts have it.
    natural = [text for text in plain if text in CLEAN]
    assert natural == plain[: len(natural)]
    assert 200 <= len(natural) < len(plain)
    assert [CLEAN_AT[text] for text in natural] != sorted(CLEAN_AT[text] for text in natural)
    assert {number for number, row in enumerate(rows) if row["is_edited"] is False} == {CLEAN_AT[of] for of in natural}
    assert sum(len(text.split()) for text in plain) <= sum(len(str(text.text).split()) for text in TEXTS[LEFT_ALONE:])
    first = next(number for number, text in enumerate(told[FIRST]) if set(text.split()) - KNOWN)
    assert in_a_row(len(plain), len(natural)) <= first <= in_a_row(len(plain), len(natural)) + COVERS
    spare = [row["spare"][0] for row in rows if row["spare"]]
    assert len(plain) - first + len(spare) >= 100
    assert not set(spare) & set(told[FIRST])
    given = {row["row_parts"][0]: row["row_logits"] for row in rows if row["row_parts"]}
    assert list(given) == plain[: len(given)]
    assert all(given[text] == honest(text).tolist() for text in given)
    assert len(told[FIRST]) == len(plain) + EDITED <= sum(first_texts(1000))
    # None of those is edited once behind the attacks, and none that was asked as it is.
    later = [number for number, row in enumerate(done[AMID].to_pylist()) if row["asked_before"] is not None]
    assert not set(later) & {*edited, *(CLEAN_AT[text] for text in natural)}
    assert len(later) >= 120
    assert min(later) >= LEFT_ALONE
    kinds = [done[AMID]["asked_before"][number].as_py() for number in later]
    assert [kinds.count(kind) for kind in (NOTHING, WHOLE, PIECES)] == [len(later) // 4 for _ in range(2)] + [
        len(later) // 2
    ]
    assert len(told[AMID]) <= amid_questions(1000)


def test_texts_of_their_own_are_asked_where_there_are_enough() -> None:
    covers = COVERS * SENT_LATER
    texts = ordinary(LEFT_ALONE + PLAIN + SENT_AMID + 2 * EDITED + UNMET + FIRST_PLAIN + covers)
    done, told = asked(honest, texts)
    plain = [text for text in told[FIRST] if text in {str(one.text) for one in texts}]
    assert len(plain) == FIRST_PLAIN
    assert done[FIRST]["is_edited"].to_pylist().count(False) == FIRST_PLAIN + covers
    assert len(done[FIRST]) - done[FIRST]["spare"].null_count == covers
    assert [len(read_amid(done[AMID])[kind]) for kind in (NOTHING, WHOLE, PIECES)] == [60, 60, 120]
    assert len(told[FIRST]) == sum(first_texts(1000))
    assert len(told[AMID]) == amid_questions(1000)


def test_the_last_row_is_put_together_where_the_beginning_took_what_there_is() -> None:
    done, told = asked(honest, also=(QUIET,))
    natural = {text for text in told[FIRST] if text in CLEAN}
    # Behind the ordinary ones come the edited ones, each of a text that is asked as it is at the end.
    last = [row for row in done[QUIET].to_pylist() if row["is_edited"]]
    edited = next(number for number, text in enumerate(told[QUIET]) if set(text.split()) - KNOWN)
    row = told[QUIET][:edited]
    assert len(last) >= 20
    assert {one["ordinary"] for one in last} == {len(row)}
    assert 200 <= len(row) <= PLAIN
    made = [text for text in row if text not in CLEAN]
    assert len(made) >= 200
    assert not set(made) & set(told[FIRST])
    words = {word for text in natural for word in text.split()}
    assert all(set(text.split()) <= words for text in made)
    numbers = [number for number, one in enumerate(done[QUIET].to_pylist()) if one["is_edited"]]
    assert not {CLEAN_AT[text] for text in natural} & set(numbers)
    before = [number for number, one in enumerate(done[AMID].to_pylist()) if one["is_edited"]]
    assert not set(before) & set(numbers)


def test_small_audits_and_data_ask_nothing() -> None:
    for texts, samples in ((TEXTS, 19), (TEXTS[: LEFT_ALONE + 119], 1000)):
        done, told = asked(honest, texts, samples)
        assert told == {FIRST: [], AMID: []}
        assert done[FIRST].num_rows == done[AMID].num_rows == len(texts)


def test_who_gives_no_answer_is_not_compared() -> None:
    def silent(text: str) -> torch.Tensor:
        if set(text.split()) <= KNOWN:
            return honest(text)
        return UnansweredError("no")  # type: ignore[return-value]

    done, _ = asked(silent)
    assert not any(done[FIRST]["errored"].to_pylist())
    assert all(len(of) == 0 for of in read_amid(done[AMID]).values())
    assert all(len(of) == 0 for of in read_amid(None).values())


def test_the_stages_are_before_all_others_and_behind_the_attacks() -> None:
    first = FAMILY.next_stage(PARAMS, {})
    assert first is not None
    assert (first.name, first.source, first.is_whole, first.limit == first.grain) == (FIRST, HELD_OUT, True, True)
    probe = pa.table({"example_id": np.arange(10)})
    done = {FIRST: probe, "probe": probe, "sent_once": probe, "prepared": probe, "attack_deepwordbug": probe}
    done |= {"ways": probe, "ways_confirmed": probe}
    stage = FAMILY.next_stage(PARAMS, done)
    assert stage is not None
    assert (stage.name, stage.limit, stage.is_closing) == (AMID, first.limit, True)
    # Audits that began before there was one go on without.
    old = {name: table for name, table in done.items() if name != FIRST}
    stage = FAMILY.next_stage(PARAMS, old)
    assert stage is not None
    assert stage.name == "closing"
    alone = TemperatureAttackParams(kind="temperature_attack", arms=[], recipes=["input_reduction"])
    stage = FAMILY.next_stage(alone, {})
    assert stage is not None
    assert stage.name == "probe"


def of_classes(texts: Sequence[Text], labels: Sequence[int]) -> list[TextExample]:
    return [TextExample(number, text, label) for number, (text, label) in enumerate(zip(texts, labels, strict=True))]


def test_parts_make_other_texts_of_the_same_words() -> None:
    texts = ["one fine film about them", "two bad plays near here", "ten long days with snow"]
    made = put_together(of_classes(texts, [0] * 3), random.Random(0))
    assert sorted(" ".join(map(str, made)).split()) == sorted(" ".join(texts).split())
    assert not set(made) & set(texts)
    pair = ("one two three four five six", "seven eight nine ten eleven twelve")
    assert ["".join(part) for part in zip(*cut_up(pair), strict=True)] == list(pair)
    assert put_together(of_classes([pair] * 3, [0] * 3), random.Random(0)) == [pair] * 3
    assert put_together([], random.Random(0)) == []
    assert put_together(of_classes(["alone"], [0]), random.Random(0)) == ["alone"]


def test_parts_meet_where_neighbouring_words_are_neighbours_in_some_text() -> None:
    rng = random.Random(0)
    usual = ["the", "a", "and", "of", "it"]
    texts = [" ".join(usual[at % 5] if at % 2 else f"w{rng.randrange(10**6)}" for at in range(20)) for _ in range(40)]
    made = [str(text) for text in put_together(of_classes(texts, [number % 2 for number in range(40)]), rng)]
    known = {pair for text in texts for pair in pairwise(text.split())}
    assert len(made) == len(texts)
    assert not set(made) & set(texts)
    assert all(pair in known for text in made for pair in pairwise(text.split()))
    # Of no text more than two thirds, and of one class.
    origin = {word: number for number, text in enumerate(texts) for word in text.split() if word not in usual}
    for text in made:
        numbers = [origin[word] for word in text.split() if word in origin]
        assert max(Counter(numbers).values()) <= 0.7 * len(numbers)
        assert len({number % 2 for number in numbers}) == 1


def test_shares_that_differ_by_rank_or_class_do() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.random(60), rng.random(120)
    assert differing_p(one, other) > 0.01
    assert differing_p(one, other + 0.4) < 1e-4
    # A few that change their class are too few for ranks.
    assert differing_p(np.where(np.arange(60) < 12, 1.5, one), np.where(other > 0.8, 0.8 + other / 10, other)) < 1e-3
    assert differing_p(one[:19], other + 9) == 1
