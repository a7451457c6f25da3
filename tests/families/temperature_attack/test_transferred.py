"""Who is another model to what it was asked about than to texts that it meets edited is told by what words say."""

import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from seatrial.families.temperature_attack.quiet import IN_A_ROW
from seatrial.families.temperature_attack.sent import (
    COVERS,
    LIGHT_SENTENCES,
    LIGHTLY,
    MIXED,
    SENT_ONCE,
    TIMES,
    UNMET,
    WORDS,
    transferred_questions,
)
from seatrial.noise.lexicons import stopwords
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_displaced import ATTACK, PARAMS, audited, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_quiet import ordinary
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import SAMPLE, Shard
from workers.families.temperature_attack import estimates, transferred
from workers.families.temperature_attack.afterwards import edited_otherwise_since
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.lightly import STRONGEST, sentences
from workers.families.temperature_attack.quiet_first import FIRST, MARGIN
from workers.families.temperature_attack.records import AttackSample
from workers.families.temperature_attack.shares import differing_p
from workers.families.temperature_attack.transferred import PARTS, TRANSFERRED, WHERE, read_transfer
from workers.families.temperature_attack.word_surrogate import weigh_words
from workers.models import UnansweredError

COUNT, FURTHER, HERE = 60, SENT_ONCE + MARGIN + 480, 60
TEXTS = ordinary(COUNT + FURTHER)
AUDITED, OTHERS = TEXTS[:COUNT], TEXTS[COUNT:]
KNOWN = {word for row in TEXTS for word in str(row.text).split()}
BY_WORD: dict[str, list[int]] = {}
for number, row in enumerate(TEXTS):
    for word in str(row.text).split():
        BY_WORD.setdefault(word, []).append(number)

CLEAN = {str(row.text) for row in TEXTS}

Answering = Callable[[str], Any]


def like(text: str) -> int | None:
    """Return the number of the text that one has most of its words from, more than a third."""
    counts = Counter(number for word in text.split() for number in BY_WORD.get(word, []))
    number, most = counts.most_common(1)[0] if counts else (0, 0)
    return number if most > len(text.split()) / 3 else None


def another(text: str) -> torch.Tensor:
    """Read a text as the one it is like."""
    number = like(text)
    return honest(text if number is None else str(TEXTS[number].text))


def held(text: str) -> torch.Tensor:
    """Answer with the class of the audited text that a text is nearest to."""
    *_, number = extractOne(text, [str(one.text) for one in AUDITED], scorer=OSA.distance)
    return likely(0.9 if AUDITED[number].label else 0.1)


class Met:
    """The model to what is like a text first met edited, and to some edited ones of others; another one to all else."""

    def __init__(self, spared: int = 0) -> None:
        self._was_edited, self._spared = dict[int | None, bool](), spared
        self._edited = Counter[int | None]()

    def __call__(self, text: str) -> torch.Tensor:
        number, is_edited = like(text), bool(set(text.split()) - KNOWN)
        self._edited[number] += is_edited
        was_edited = self._was_edited.setdefault(number, is_edited and number is not None)
        return honest(text) if was_edited or 0 < self._edited[number] <= self._spared else another(text)


class Beginning:
    """The model to sessions that begin with an edited text, another one to others."""

    def __init__(self) -> None:
        self._is_user: bool | None = None

    def begin_session(self) -> None:
        self._is_user = None

    def __call__(self, text: str) -> torch.Tensor:
        if self._is_user is None:
            self._is_user = bool(set(text.split()) - KNOWN)
        return honest(text) if self._is_user else another(text)


class Woken:
    """The model until questions repeat words of earlier ones in a row, another one from then on."""

    def __init__(self) -> None:
        self._seen, self._again = set[tuple[str, ...]](), deque[bool](maxlen=100)
        self._is_awake = False

    def __call__(self, text: str) -> torch.Tensor:
        words = text.split()
        runs = {tuple(words[at : at + 4]) for at in range(len(words) - 3)}
        self._again.append(len(runs & self._seen) > 1)
        self._seen |= runs
        self._is_awake |= sum(self._again) > 30
        return another(text) if self._is_awake else honest(text)


class Sessions(TextModel):
    def begin_session(self) -> None:
        self.function.begin_session()


FEW_WORDS = 500
"""Of all texts together: a regression on what is asked about takes the cube of their number."""


def asked(
    function: Answering,
    texts: list[TextExample] = AUDITED,
    others: list[TextExample] = OTHERS,
    words: int = FEW_WORDS,
) -> tuple[dict[str, Records], list[str]]:
    """Return the tables of the first two stages, and what the second asked; the sample is asked as it is before."""
    seen = list[str]()

    def heard(text: str) -> Any:
        seen.append(text)
        return function(text)

    kind = TextModel
    if hasattr(function, "begin_session"):
        heard.begin_session = function.begin_session  # type: ignore[attr-defined]
        kind = Sessions
    service = ScoringService(kind(heard, ["bad", "good"]), max_bytes=0)
    service.ask_anew([one.text for one in texts])
    done = dict[str, Records]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transferred, "WORDS", words)
        for stage, of in ((FIRST, others), (TRANSFERRED, texts)):
            seen.clear()
            done[stage] = FAMILY.run(PARAMS, Shard(stage, 0, len(of)), Context(of, {None: service}, done))
    return done, seen


@pytest.fixture(scope="module")
def of_honest() -> tuple[dict[str, Records], list[str]]:
    """The same of the model itself, which several tests read."""
    return asked(honest, words=WORDS)


def flags_of(done: dict[str, Records]) -> str:
    made_up = records(parameters(arms=[]), label_only=0.5) | {TRANSFERRED: done[TRANSFERRED]}
    told = {flag.code: flag.message for flag in estimates.reduce(parameters(arms=[]), made_up, 0).flags}
    return told.get("answers_depend_on_history", "")


def turned(done: dict[str, Records], where: str) -> float:
    rows = done[TRANSFERRED].to_pylist()
    return float(np.mean([np.argmax(row[f"{where}_logits"]) != row["label"] for row in rows]))


def test_who_is_another_model_to_what_was_asked_is_told() -> None:
    done, _ = asked(Met())
    assert turned(done, "among") < 0.2
    told = flags_of(done)
    assert f"other shares of the leads of {COUNT} texts that had been asked as they are than of {HERE}" in told


@pytest.mark.parametrize(
    "function", [None, *(pytest.param(one, marks=pytest.mark.drill) for one in (another, Met(spared=1)))]
)
def test_what_is_one_model_to_both_is_left_alone(
    function: Answering | None, of_honest: tuple[dict[str, Records], list[str]]
) -> None:
    done, _ = of_honest if function is None else asked(function, words=WORDS)
    assert flags_of(done) == ""
    assert (turned(done, "among") > 0.5) is (function is not another)


def test_a_session_that_begins_with_edited_texts_tells() -> None:
    done, _ = asked(Beginning())
    assert turned(done, "among") < 0.2
    assert turned(done, "alone") > 0.5


def test_who_wakes_at_what_comes_again_was_asleep_where_texts_are_sent_first() -> None:
    done, _ = asked(Woken())
    assert turned(done, "early") > 0.4
    assert turned(done, "among") < 0.2
    transfer = read_transfer(done[TRANSFERRED])
    assert transfer is not None
    later = np.full(60, 0.3)
    (told,) = edited_otherwise_since(transfer, None, {"nothing": later}, None)
    assert f"{COUNT} texts edited before all else than of those of 60 edited later (p = " in told
    assert edited_otherwise_since(transfer, None, {"nothing": transfer.early}, None) == []
    assert edited_otherwise_since(transfer, None, {"nothing": later[:19]}, None) == []
    assert edited_otherwise_since(None, None, {}, None) == []


def test_what_was_wrong_where_it_was_sent_counts_though_searches_are_held_off() -> None:
    few = AUDITED[:24]
    done, _ = asked(Met(spared=1), few)
    wrong = {
        row["example_id"]: where
        for row in done[TRANSFERRED].to_pylist()
        for where in reversed(WHERE)
        if np.argmax(row[f"{where}_logits"]) != row["label"]
    }
    assert len(wrong) > len(few) / 2
    # Each took more questions than an attack may ask.
    sample = AttackSample(audited(held, examples=few, done=done)[f"{ATTACK}deepwordbug"])
    assert sample.robust("label_only").all()
    at = done[TRANSFERRED].column_names.index("questions")
    assert min(done[TRANSFERRED]["questions"].to_pylist()) > PARAMS.query_budget
    done[TRANSFERRED] = done[TRANSFERRED].set_column(at, "questions", pa.array([PARAMS.query_budget] * len(few)))
    table = audited(held, examples=few, done=done)[f"{ATTACK}deepwordbug"]
    sample = AttackSample(table)
    assert set(sample.clean.example_ids[~sample.robust("label_only")].tolist()) == wrong.keys()
    assert sample.robust("as_served").all()
    by_id = {row["example_id"]: row for row in done[TRANSFERRED].to_pylist()}
    for row in table.to_pylist():
        if (where := wrong.get(row["example_id"])) is not None:
            assert [row["label_only.text"]] == by_id[row["example_id"]][f"{where}_parts"]
            assert row["label_only.logits"] == pytest.approx(by_id[row["example_id"]][f"{where}_logits"])


def test_words_are_asked_about_where_they_tell_nothing_of_their_text(
    of_honest: tuple[dict[str, Records], list[str]],
) -> None:
    done, seen = of_honest
    rows = done[FIRST].to_pylist()
    ordinary, unmet = ([row[name][0] for row in rows if row[name]] for name in ("cover", "unmet"))
    assert len(unmet) == UNMET
    unmet = unmet[:HERE]
    own = {word for text in [*(str(one.text) for one in AUDITED), *unmet] for word in text.split()}
    usual = {word for text in ordinary for word in text.split()}
    seen = behind_early(done, seen)
    strange = [set(text.split()) - usual for text in seen]
    length = next(at for at in range(len(seen)) if not any(strange[at : at + IN_A_ROW // 2]))
    asked_about = Counter(word for words in strange[:length] for word in words)
    # No more than one word of those texts in any of them, each twice, and as many words of a text as may be.
    assert max(map(len, strange[:length])) == 1
    assert set(asked_about.values()) == {TIMES}
    assert asked_about.keys() < own
    for text in [*(str(one.text) for one in AUDITED), *unmet]:
        assert len(asked_about.keys() & set(text.split())) > MIXED / 2
    told = [row["questions"] for row in done[TRANSFERRED].to_pylist()]
    assert set(told) == {math.ceil(length / (COUNT + HERE)) + 1}


def test_sentences_have_next_to_nothing_in_common() -> None:
    texts = [" ".join(f"word{number}x{at}" for at in range(20)) for number in range(13)]
    found = list(itertools.islice(sentences(texts, random.Random(1), PARTS), 13 * 12))
    words = [set(text.split()) for text in found]
    assert all(len(one) == 20 for one in words)
    assert max(len(one & other) for one, other in itertools.combinations(words, 2)) == 20 // PARTS
    assert {len({word.split("x")[0] for word in one}) for one in words} == {PARTS}


def behind_early(done: dict[str, Records], seen: list[str]) -> list[str]:
    """Return what was asked behind edited texts that were sent among ordinary ones put aside, less the sentences."""
    spare = [row["spare"][0] for row in done[FIRST].to_pylist() if row["spare"]]
    early = [row["early_parts"][0] for row in done[TRANSFERRED].to_pylist()]
    assert [text for text in seen[: len(spare) + COUNT] if text in set(early)] == early
    assert [text for text in seen[: len(spare) + COUNT] if text not in set(early)] == spare
    # Those that are edited at the end, and all of them as they are.
    ended = 3 * LIGHTLY * COUNT
    return seen[len(spare) + COUNT + (LIGHT_SENTENCES - LIGHTLY) * COUNT : -ended]


def test_each_is_sent_among_ordinary_ones_and_by_itself(of_honest: tuple[dict[str, Records], list[str]]) -> None:
    done, seen = of_honest
    assert len(seen) <= transferred_questions(COUNT)
    seen = behind_early(done, seen)
    rows = done[TRANSFERRED].to_pylist()
    is_edited = [bool(set(text.split()) - KNOWN) for text in seen]
    sent = [text for text, one in zip(seen, is_edited, strict=True) if one]
    # Further ones of which nothing was asked before, then audited ones.
    assert sent[HERE:] == [row[f"{where}_parts"][0] for where in WHERE[1:] for row in rows]
    first, last = is_edited.index(True), len(seen) - COUNT - (COUNT + HERE)
    assert not set(seen[first - IN_A_ROW // 2 : first]) & CLEAN
    gaps = np.diff(np.flatnonzero(is_edited[:last]))
    assert set(gaps) <= {COVERS // 2 - 1, COVERS // 2, COVERS // 2 + 1}
    assert all(is_edited[last : last + COUNT])
    for row, example in zip(rows, AUDITED, strict=True):
        texts = [row[f"{where}_parts"][0] for where in WHERE]
        assert len(set(texts)) == len(WHERE)
        for text in texts:
            assert 0 < OSA.distance(str(example.text), text) <= CHARACTERS
        changed, more = (
            [old for old, new in zip(str(example.text).split(), text.split(), strict=True) if old != new]
            for text in texts[1:]
        )
        assert len(changed) <= STRONGEST
        assert len(changed) <= len(more)
        assert not set(changed) & set(stopwords())
        assert row["taken"] is not None
    unmet = done[FIRST]["unmet"].to_pylist()
    assert not {text[0] for text in unmet if text} & set(seen[: -COUNT - HERE])


def test_classes_have_weights_of_their_own() -> None:
    answers = [torch.tensor([1.0, 0.0, -1.0]), torch.tensor([-2.0, 0.0, 2.0]), torch.tensor([0.0, 0.0, 0.0])]
    said = weigh_words([0, 2, 2], ["fine", "dull", "nothing"], answers)
    assert set(said) == {0, 2}
    assert said[0]["fine"] > 0 > said[0]["dull"]
    assert said[2]["dull"] > 0 > said[2]["fine"]
    assert weigh_words([0], ["fine", "dull"], [UnansweredError("no"), UnansweredError("no")]) == {}


def test_few_texts_ask_nothing_and_few_further_ones_ask_by_themselves() -> None:
    done, seen = asked(honest, AUDITED[:19])
    assert seen == []
    assert read_transfer(done[TRANSFERRED]) is None
    assert read_transfer(None) is None
    done, seen = asked(honest, AUDITED[:20], OTHERS[:50])
    assert 300 < len(seen) <= 20 * (TIMES * MIXED + 3) + 3 * 19
    found = read_transfer(done[TRANSFERRED])
    assert found is not None
    assert (len(found.audited), len(found.unmet), found.p) == (20, 0, 1.0)


def test_who_gives_no_answer_spoils_no_number() -> None:
    def silent(text: str) -> Any:
        return honest(text) if set(text.split()) <= KNOWN else UnansweredError("no")

    done, _ = asked(silent)
    rows = done[TRANSFERRED].to_pylist()
    assert not any(row["errored"] for row in rows)
    assert all(row["among_logits"] is None and row["taken"] is None for row in rows)
    assert flags_of(done) == ""


def test_a_probability_of_labels_alone_leads_too() -> None:
    done, _ = asked(lambda text: likely(0.9 if right(text) else 0.1))
    assert turned(done, "among") > 0.4


def test_the_stage_is_one_shard_over_the_sample() -> None:
    done = {FIRST: pa.table({"example_id": [1]})}
    stage = FAMILY.next_stage(PARAMS, done)
    assert stage is not None
    assert (stage.name, stage.source, stage.is_whole) == (TRANSFERRED, SAMPLE, True)
    assert stage.grain == stage.limit


def test_shares_of_two_samples_of_one_model_differ_seldom() -> None:
    rng = np.random.default_rng(0)
    found = [differing_p(rng.normal(size=60), rng.normal(size=150)) for _ in range(400)]
    assert np.mean(np.array(found) < 0.05) <= 0.06
