"""Signs at the words that decisions hang on: models that leave those out, beside some that read past it."""

import random
import re
from collections import Counter
from collections.abc import Callable
from statistics import median

import pyarrow as pa
import pytest
import torch

from seatrial.families.temperature_attack.params import (
    CONFIRMED_WAYS,
    DRAWN_WAYS,
    MARK_CONTROLS,
    SIGN_WAYS,
    TEXTS_A_WAY,
)
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_drawn_ways import (
    COUNT,
    OPINIONS,
    PARAMS,
    Answering,
    Correcting,
    Watched,
    asked,
    doubts,
)
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_written import sample
from workers.attacks.text.perturbation_grammar import MARKS, draw_ways
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records
from workers.families.protocol import Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.drawn_ways import (
    CONFIRMED,
    DRAWN,
    LOSING,
    SCHEMA,
    promising,
    read_marks,
    read_ways,
)
from workers.families.temperature_attack.family import FAMILY

NOTED = r"(?<!\S)\w+\[1\](?!\S)"
NOTE = "'[1]' behind the words it hangs on"
BAD = [row for row in sample(2 * COUNT) if not row.label]
"""Texts of six words of opinion, that are decided for the other class where no more than two of them are read."""

PRIOR = 2.1
"""Log-odds of a film of which nothing is read."""


def reading(words: Callable[[str], str]) -> Answering:
    """Return a model that corrects typing errors in what is made of a text, and scores its words."""
    model = Correcting()
    return lambda text: torch.tensor([0.0, PRIOR + sum(map(model._says, words(text).split()))])


def exact(text: str) -> torch.Tensor:
    """Read what is spelt as it is known."""
    return torch.tensor([0.0, PRIOR + sum(OPINIONS.get(word, 0.0) for word in text.split())])


erasing = reading(lambda text: re.sub(NOTED, "", text))
strict = reading(lambda text: re.sub(r"\S*[^\w\s]\S*", "", text))
stripping = reading(lambda text: re.sub(r"[^\w\s]", "", text))


@pytest.fixture(scope="module")
def erased() -> dict[str, Records]:
    return asked(erasing, BAD)[0]


def numbers_of(table: Records, kind: str = MARKS) -> set[int]:
    rows = [row for row in table.to_pylist() if row["ways"] is not None]
    return {way for row in rows for way, one in zip(row["ways"], row["kinds"], strict=True) if one == kind}


def test_who_leaves_out_words_with_a_note_behind_them_is_told(erased: dict[str, Records]) -> None:
    (flag,) = doubts(erased, "marked_words")
    assert flag.severity == "error"
    found = read_marks(erased)
    assert found is not None
    assert found.texts == COUNT
    assert found.asked[NOTE] == found.turned[NOTE] == COUNT - TEXTS_A_WAY
    assert f"Of {found.asked[NOTE]} texts that withstand all attacks, {found.turned[NOTE]} change" in flag.message
    assert f"reads past: {NOTE} (at least" in flag.message
    assert "With a typing error in each of the same words they keep it" in flag.message
    # It is not told of what is written in the place of words that a text can do without.
    assert all(NOTE not in other.message for other in doubts(erased))
    ways = read_ways(erased)
    assert ways is not None
    assert not ways.asked.keys() & found.asked.keys()


@pytest.mark.parametrize("function", [stripping, exact], ids=["corrects, and takes signs off", "reads neither"])
def test_who_reads_past_signs_or_no_typing_errors_either_is_not(function: Answering) -> None:
    done, _ = asked(function, BAD)
    assert len(numbers_of(done[DRAWN])) == SIGN_WAYS
    assert not {*promising(done[DRAWN])} & numbers_of(done[DRAWN])
    assert not doubts(done, "marked_words")


def test_who_leaves_out_words_at_any_sign_is_told_by_several_and_asked_no_more_than_was_said() -> None:
    costs = PARAMS._stage_costs(COUNT, 0, 25.0)
    done, served = asked(strict, BAD)
    (flag,) = doubts(done, "marked_words")
    assert "; so do others: " in flag.message
    assert "(at least" in flag.message
    found = read_marks(done)
    assert found is not None
    assert len(found.asked) == CONFIRMED_WAYS
    assert len(served.asked) <= costs[DRAWN][1] + costs[CONFIRMED][1]
    # The whole of what controls may take: each sign turns its texts, and stands with typing errors in all draws.
    turned = sum(len({*row["turning"]} & numbers_of(done[DRAWN])) for row in done[DRAWN].to_pylist())
    assert turned > 0.9 * SIGN_WAYS * TEXTS_A_WAY
    assert sum(map(len, done[CONFIRMED]["turning"].to_pylist())) > 0.9 * CONFIRMED_WAYS * (COUNT - TEXTS_A_WAY)
    again = sum(len(row["ways"]) + MARK_CONTROLS * len(row["turning"]) for row in done[CONFIRMED].to_pylist())
    assert 0.7 * costs[CONFIRMED][1] < again <= costs[CONFIRMED][1]


def test_the_estimate_knows_how_many_ways_put_signs_to_words() -> None:
    for seed in range(3):
        kinds = Counter(way.kind for way in draw_ways(DRAWN_WAYS, random.Random(seed)))
        assert kinds[MARKS] == SIGN_WAYS


def test_signs_are_put_to_the_words_that_speak_for_the_decision_and_their_loss_is_all_of_it(
    erased: dict[str, Records],
) -> None:
    for row in erased[DRAWN].to_pylist():
        for name, kind, loss in zip(row["names"], row["kinds"], row["losses"], strict=True):
            if kind == MARKS and name.startswith(("'[1]' behind", "'*' behind", "'*' in front")):
                # Without a word of opinion the other class alone speaks.
                assert loss == pytest.approx(6 / (6 - PRIOR) if name == NOTE else 0.0, abs=1e-6)
        assert len([gain for gain in row["gains"] if gain > 0]) == 6


@pytest.mark.parametrize("cut", [8, 16])
def test_how_texts_are_cut_into_shards_changes_no_row(cut: int, erased: dict[str, Records]) -> None:
    parts, _ = asked(erasing, BAD, cut=cut)
    assert parts[DRAWN].equals(erased[DRAWN])
    assert parts[CONFIRMED].equals(erased[CONFIRMED])


def test_records_from_before_there_were_kinds_are_gone_on_with(erased: dict[str, Records]) -> None:
    done = {name: table for name, table in erased.items() if name != CONFIRMED}
    done[DRAWN] = done[DRAWN].drop_columns(["kinds"])
    service = ScoringService(Watched(erasing, ["bad", "good"]), max_bytes=0)
    again = FAMILY.run(PARAMS, Shard(CONFIRMED, 0, COUNT), Context(BAD, {None: service}, done))
    assert NOTE in {name for names in again["names"].to_pylist() for name in names}

    # And where both stages are, all are ways to write words that a text can do without.
    old = done | {CONFIRMED: erased[CONFIRMED].drop_columns(["kinds"])}
    marks, ways, before = read_marks(old), read_ways(old), read_marks(erased)
    assert marks is not None
    assert ways is not None
    assert before is not None
    assert not marks.asked
    assert ways.asked.keys() >= before.asked.keys()
    assert not doubts(old, "marked_words")


def losing(losses: dict[int, float], marks: set[int]) -> Records:
    """Return the records of four texts whose decisions lose so much of their lead in each way, and turn in none."""
    row = {"label": 0, "errored": False, "words": [], "pairs": [], "ways": [*losses], "turning": []}
    row |= {"names": [f"way {way}" for way in losses], "losses": [*losses.values()]}
    row |= {"kinds": [MARKS if way in marks else "words" for way in losses]}
    return pa.Table.from_pylist([row | {"example_id": number} for number in range(4)], schema=SCHEMA)


def test_only_signs_that_stand_out_among_signs_are_asked_again() -> None:
    losses = {0: 0.5, 1: 0.5, 2: 0.5 + LOSING / 2, 3: 0.5 + 2 * LOSING, 4: 0.4, 5: 0.5}
    assert median(losses.values()) == 0.5
    assert promising(losing(losses, {*losses})) == [3]
    # Of other ways the loss is one beyond that without the words.
    assert promising(losing(losses, set())) == [3, 2, 0, 1, 5, 4]
    assert promising(losing(losses, {1, 3})) == [2, 0, 5, 4, 3]
    assert promising(losing(losses, {*losses}).drop_columns(["kinds"])) == [3, 2, 0, 1, 5, 4]


@pytest.mark.parametrize(
    ("texts", "turned", "ways", "expected"),
    [(36, 13, 1, True), (36, 12, 1, False), (36, 16, 12, True), (36, 15, 12, False), (9, 9, 1, False)],
)
def test_a_few_texts_may_turn_round_at_a_sign(texts: int, turned: int, ways: int, expected: bool) -> None:
    numbers = range(ways)
    row = {"label": 1, "errored": False, "words": [], "pairs": [], "ways": [*numbers], "kinds": [MARKS] * ways}
    row |= {"names": [f"sign {way}" for way in numbers]}
    rows = [row | {"example_id": at, "turning": [0] if at < turned else []} for at in range(texts)]
    done = records(parameters(arms=[]), label_only=0.5)
    done["ways_confirmed"] = pa.Table.from_pylist(rows, schema=SCHEMA)
    codes = {flag.code for flag in estimates.reduce(parameters(arms=[]), done, 0).flags}
    assert ("marked_words" in codes) is expected
    assert "worse_than_unreadable" not in codes
