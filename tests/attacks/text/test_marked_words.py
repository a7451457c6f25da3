"""Many words of a text written otherwise in one way: readable, within thirty characters, and drawn anew for each."""

import random
import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from seatrial.families.temperature_attack.params import MARKS, WAYS
from seatrial.noise.lexicons import stopwords
from workers.attacks.text.marked_words import (
    CHARACTERS,
    DRAWN,
    GAPS,
    MARKED,
    PAIRS,
    SEVERAL,
    SIGNS,
    marked_texts,
    some_of,
)

TEXT = "The film is long, warm and funny, a tedious and mediocre thriller that never finds its footing."
CONTENT = [word.strip(",.") for word in TEXT.split() if word.lower() not in stopwords()]


WEAK = {"tedious", "mediocre"}


def fixed(text: str, seed: int, weak: set[str] = WEAK) -> list[dict[str, str]]:
    """Return by way the text with as many words written so as may be, and with weak ones."""
    found = [(way, str(edited)) for way, edited in marked_texts(text, seed, weak=weak)]
    again = next(at for at, (way, _) in enumerate(found) if way == next(iter(MARKED)) and at)
    return [dict(found[:again]), dict(reversed(found[again:]))]


def test_each_way_is_written_some_times_and_the_estimate_knows_how_many() -> None:
    found = marked_texts(TEXT, 1, weak=WEAK)
    assert [name for name, _ in found][: len(MARKED)] == list(MARKED)
    assert len(MARKED) == WAYS
    assert 2 * WAYS + DRAWN == MARKS
    # Two of them may be the same.
    assert MARKS - 20 <= len({text for _, text in found}) == len(found) <= MARKS
    assert len(marked_texts(TEXT, 1)) < len(found)
    assert sum(way == SEVERAL for way, _ in found) > 10


def test_words_that_an_attack_changed_are_written_by_themselves() -> None:
    weak = fixed(TEXT, 1)[1]
    assert weak["words as tags"] == TEXT.replace("tedious", "#tedious").replace("mediocre", "#mediocre")
    assert weak["words run together"] == TEXT.replace("a tedious and mediocre", "atedious andmediocre")


def test_how_many_words_are_drawn_are_few_more_often_than_many() -> None:
    places = list(re.finditer("([a-z]+)", " ".join(string.ascii_lowercase)))
    rng = random.Random(0)
    drawn = [some_of({"c", "d"}, places, rng) for _ in range(4000)]
    counts = np.bincount([len(one) for one in drawn], minlength=27)
    assert counts[0] == 0
    assert counts[1] > counts[4] > counts[16] > 0
    of_two = [{place[1] for place in one} for one in drawn if len(one) == 2]
    for expected in ({"c", "d"}, {"a", "b"}, {"y", "z"}):
        assert of_two.count(expected) > len(of_two) / 10
    rows = [{ord(letter) for letter in one} for one in map("".join, of_two)]
    assert sum(max(one) - min(one) == 1 for one in rows) > len(of_two) / 2
    assert some_of(set(), [], rng) == []


@pytest.mark.parametrize("way", [name for name in MARKED if "capitals" not in name])
def test_no_more_characters_are_edited_than_an_attack_may(way: str) -> None:
    long = " ".join([TEXT] * 6)
    edits = Levenshtein.distance(long, fixed(long, 3)[0][way])
    assert 8 <= edits <= CHARACTERS


@pytest.mark.parametrize(
    ("way", "written"),
    [
        ("words in quotes", "'tedious'"),
        ("words in brackets", "[tedious]"),
        ("words as tags", "#tedious"),
        ("open brackets", "(tedious"),
        ("first letters stuttered", "t-tedious"),
        ("letters drawn out", "eeeeee"),
        ("first letters last", "edioust"),
        ("endings in brackets", "tediou(s)"),
        ("accents decoded wrongly", "t\u00c3\u00a9dious"),
        ("dots between letters", "t.e.dious"),
        ("first letters twice", "ttedious"),
        ("letters thrice", "teeedious"),
        ("stars for letters", "t*dious"),
        ("accents on letters", "te\u0301dious"),
        ("digits for letters", "t3dious"),
        ("wide letters", "\uff54\uff45dious"),
        ("capital first letters", "Tedious"),
        ("words in capitals", "TEDIOUS"),
        ("notes at words", "tedious[1]"),
        ("raised figures at words", "tedious\u00b9"),
    ],
)
def test_a_way_writes_all_words_but_stop_words(way: str, written: str) -> None:
    edited = fixed(TEXT, 2)[0][way]
    assert written in edited
    assert edited.startswith("The ")
    assert " is " in edited
    assert sum(word in edited.split() for word in CONTENT) <= 3


def test_gaps_and_phrases_are_written_and_no_letter_is_lost() -> None:
    found = fixed(TEXT, 2)[0]
    for way, put in (("hyphens", "-"), ("commas", ", "), ("two spaces", "  ")):
        assert found[f"{way} between words"].count(put) - TEXT.count(put) == GAPS
    assert found["words on lines of their own"].split() == TEXT.split()
    assert found["words on lines of their own"].count("\n") == GAPS
    off = found["spaces a letter off"]
    assert off.replace(" ", "") == TEXT.replace(" ", "")
    assert len(off.split()) == len(TEXT.split())
    assert off != TEXT
    phrases = found["marks around phrases"]
    assert any(phrases.count(pair[0]) > 3 and phrases.count(pair[1]) > 3 for pair in PAIRS)
    assert re.sub(r"[*_()\[\]\"]", "", phrases) == TEXT
    slips = found["slips corrected at once"]
    assert all(word in slips.replace(",", "").replace(".", "").split() for word in CONTENT)
    assert len(slips.split()) > len(TEXT.split())


def test_letters_and_words_are_exchanged_and_none_is_lost() -> None:
    found = fixed(TEXT, 2)[0]
    for way in ("first letters exchanged", "words exchanged", "capitals anywhere in words", "endings in brackets"):
        assert found[way] != TEXT
        written = re.sub(r"[()]", "", found[way].lower())
        assert sorted(written) == sorted(TEXT.lower()), way
    assert sorted(re.findall(r"\w+", found["words exchanged"])) == sorted(re.findall(r"\w+", TEXT))
    capitals = [word for word in found["capitals anywhere in words"].split() if not word.islower()]
    assert len(capitals) >= len(CONTENT)
    assert not any(word.isupper() and len(word) > 4 for word in capitals)
    marks = found["marks in words"], found["marks between words"]
    assert all(sum(map(text.count, SIGNS)) > 8 for text in marks)
    several = [fixed(TEXT, seed)[0]["one letter for another"] for seed in range(9)]
    changed = [[(old.lower(), new) for old, new in zip(TEXT, one, strict=True) if old != new] for one in several]
    assert {len(set(one)) for one in changed} == {1}
    assert max(map(len, changed)) > 4


def test_several_ways_keep_within_what_an_attack_may_edit() -> None:
    long = " ".join([TEXT] * 6)
    for seed in range(5):
        for way, edited in marked_texts(long, seed):
            is_capital = way == SEVERAL or "capital" in way
            before, after = (long.casefold(), str(edited).casefold()) if is_capital else (long, str(edited))
            assert Levenshtein.distance(before, after) <= CHARACTERS


def test_stop_words_are_written_in_capitals_alone() -> None:
    edited = fixed(TEXT, 2)[0]["stop words in capitals"]
    assert {word for word in edited.split() if word.isupper() and len(word) > 1} == {"THE", "IS", "AND", "THAT", "ITS"}


@given(st.text(max_size=60), st.integers(0, 2**40))
def test_any_text_is_written_and_none_is_the_text_itself(text: str, seed: int) -> None:
    assert all(edited != text for _, edited in marked_texts(text, seed))
    assert marked_texts(text, seed) == marked_texts(text, seed)


def test_of_a_pair_the_hypothesis_is_written_and_nothing_beyond_what_is_seen() -> None:
    assert {text[0] for _, text in marked_texts(("a premise", TEXT), 2)} == {"a premise"}
    for _, edited in marked_texts(TEXT, 2, seen=(30,)):
        assert edited.endswith(TEXT[30:])
