"""Words made unreadable: those that were asked for and no others, and as many of them as a decision can do without."""

import random
import re
import string
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.families.temperature_attack.params import DRAWN_WAYS, WAY_CONTROLS
from workers.attacks.text.marked_words import LETTERS
from workers.attacks.text.perturbation_grammar import draw_ways
from workers.attacks.text.unreadable import (
    PARTED,
    SHARES,
    most_tolerated,
    pairs_of,
    some_of,
    unreadable,
    unreadable_where,
    without,
    words_of,
)
from workers.families.temperature_attack.way_questions import MISSING_DRAWS, RANKED, TIMES

TEXT = "The film is long, warm and funny, a tedious and mediocre thriller that hardly ever finds its footing."
WAYS = draw_ways(DRAWN_WAYS, random.Random(0))


@pytest.mark.parametrize("length", range(21))
def test_the_most_that_are_tolerated_are_those_that_brute_force_finds(length: int) -> None:
    order = [str(number) for number in range(length)]
    for most in range(length + 1):
        asked: list[int] = []

        def keeps(units: Sequence[str], most: int = most, asked: list[int] = asked) -> bool:
            asked.append(len(units))
            return len(units) <= most

        brute = max((order[:count] for count in range(length + 1) if count <= most), key=len)
        assert most_tolerated(order, keeps) == brute
        assert len(asked) <= 1 + max(0, length - 1).bit_length()


def test_where_not_even_one_is_tolerated_none_is() -> None:
    assert most_tolerated(["dull", "film"], lambda units: False) == []
    assert most_tolerated([], lambda units: False) == []


def test_the_estimate_knows_how_many_questions_that_takes() -> None:
    text = " ".join(f"{one}{other}" for one in "abcdefgh" for other in "stuvwxyz")
    asked: list[int] = []

    def keeps(units: Sequence[str]) -> bool:
        asked.append(TIMES)
        return not units

    for units in (words_of(text), pairs_of(text)):
        most_tolerated(units, keeps)
    assert len(words_of(text)) == 64
    # And one without some of the words, and two draws of letters for them, in three ways; and what ranks the words, and
    # adds to them, and to pairs of them, those that speak for nothing.
    others = len(SHARES) * (1 + MISSING_DRAWS) + RANKED + 2 * TIMES
    assert WAY_CONTROLS - TIMES < sum(asked) + others <= WAY_CONTROLS


def test_words_are_told_once_and_pairs_share_none() -> None:
    assert words_of("A dull film, a DULL day.") == ["dull", "film", "day"]
    assert pairs_of("dull film. warm day out; dull film") == ["dull film", "warm day"]
    assert words_of("") == pairs_of("") == []


@given(st.sets(st.sampled_from(words_of(TEXT))), st.integers(0, 99))
def test_words_that_were_asked_for_are_other_letters_and_no_others(words: set[str], seed: int) -> None:
    found = unreadable(TEXT, words, random.Random(seed))
    assert len(found) == len(TEXT)
    for before, after in zip(TEXT.split(), found.split(), strict=True):
        word = before.strip(",.")
        if word.lower() in words:
            assert set(after.strip(",.")) <= {*LETTERS}
            assert after[len(word) :] == before[len(word) :]
        else:
            assert after == before


@given(st.lists(st.sampled_from(words_of(TEXT)), max_size=30), st.integers(0, 99))
def test_some_words_are_half_a_quarter_and_as_many_in_a_row(told: list[str], seed: int) -> None:
    half, quarter, row = some_of(" ".join(told), random.Random(seed)).values()
    assert len(half) == len({*half} & {*told}) == (len({*told}) + 1) // 2
    assert {*quarter} <= {*half}
    assert len(row) == min(len(told), max(1, len(told) // 4)) >= len(quarter)
    assert row in [told[at : at + len(row)] for at in range(len(told) + 1)]


@given(st.sets(st.sampled_from(words_of(TEXT))))
def test_a_text_without_words_has_all_others_in_their_order(words: set[str]) -> None:
    left = without(TEXT, words)
    assert words_of(left) == [word for word in words_of(TEXT) if word not in words]
    assert "  " not in left
    assert set(TEXT) - {*string.ascii_letters} <= set(left) | {" "}


@given(st.sampled_from([way for way in WAYS if way.kind == "words"]), st.integers(0, 99))
def test_pieces_that_an_edit_left_are_left_and_all_others_are_other_letters(way, seed: int) -> None:
    edited = way.edit(TEXT, None, random.Random(seed))
    found = unreadable_where(TEXT, edited, random.Random(seed))
    kept = set(edited.split())
    told, parted = found.split()[: len(TEXT.split())], found.split()[len(TEXT.split()) :]
    assert set(parted) <= kept
    assert not parted or (len(edited.split()) > len(TEXT.split()) and max(map(len, parted)) <= PARTED)
    for before, after in zip(TEXT.split(), told, strict=True):
        if before in kept:
            assert after == before
        else:
            assert set(re.sub(r"\W", "", after)) <= {*LETTERS}
            assert re.sub(r"\w", "", after) == re.sub(r"\w", "", before)


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        # What is put between pieces, or moved, touches none.
        ("warm and funny film", "warm funny and film"),
        ("warm, - funny and film !", "warm funny and film"),
        ("warm funny and du-\nll", None),
    ],
)
def test_what_stands_as_it_was_is_no_edit(edited: str, expected: str | None) -> None:
    text = "warm funny and film"
    if expected is not None:
        edited = edited.replace("warm,", "warm ,")
        assert unreadable_where(text, edited, random.Random(0)) == expected
    else:
        assert unreadable_where(text, edited, random.Random(0)).startswith("warm funny and ")
        assert not unreadable_where(text, edited, random.Random(0)).endswith("film")


def test_digits_and_marks_stand_and_a_text_without_letters_is_left() -> None:
    assert re.fullmatch(r"[a-z]{4}2\.", unreadable_where("film2.", "flim2.", random.Random(0)))
    assert unreadable_where("12 !", "34 ?", random.Random(0)) == "12 !"
    assert unreadable("", {"film"}, random.Random(0)) == ""


def test_short_pieces_that_an_edit_parts_from_words_stay() -> None:
    text, edited = "warm funny film that is fine", "war-\nm funn-\ny film that is fine"
    for seed in range(5):
        pieces = unreadable_where(text, edited, random.Random(seed)).split()
        assert pieces[2:] == ["film", "that", "is", "fine", "m", "y"]
        assert not {"warm", "funny"} & set(pieces)
    # What the text has by itself already is no more than it was; longer pieces are drawn, and words that stay whole.
    assert unreadable_where("a b film", "a b fi lm", random.Random(0)).split()[3:] == ["fi", "lm"]
    assert len(unreadable_where("warm film", "warm fil mmm", random.Random(0)).split()) == 2
    assert len(unreadable_where("the film", "de film", random.Random(0)).split()) == 2
