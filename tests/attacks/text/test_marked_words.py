"""Many words of a text written otherwise in one way: readable, within thirty characters, and drawn anew for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from seatrial.families.temperature_attack.params import MARKS
from seatrial.noise.lexicons import stopwords
from workers.attacks.text.marked_words import CHARACTERS, HALVES, MARKED, marked_texts

TEXT = "The film is long, warm and funny, a tedious and mediocre thriller that never finds its footing."
CONTENT = [word.strip(",.") for word in TEXT.split() if word.lower() not in stopwords()]


WEAK = {"tedious", "mediocre"}


def first(text: str, seed: int) -> dict[str, str]:
    """Return the text with as many words written in each way as may be."""
    return {way: str(edited) for way, edited in reversed(marked_texts(text, seed))}


def test_each_way_is_written_some_times_and_the_estimate_knows_how_many() -> None:
    found = marked_texts(TEXT, 1, weak=WEAK)
    assert [name for name, _ in found][: len(MARKED)] == list(MARKED)
    assert len(MARKED) * (2 + HALVES) == MARKS
    # Two of them may be the same.
    assert MARKS - 20 <= len({text for _, text in found}) == len(found) <= MARKS
    assert len(marked_texts(TEXT, 1)) < len(found)


def test_words_that_an_attack_changed_are_written_by_themselves() -> None:
    tags = [str(edited) for way, edited in marked_texts(TEXT, 1, weak=WEAK) if way == "words as tags"]
    assert {word.strip(",") for word in tags[1].split() if word.startswith("#")} == {f"#{word}" for word in WEAK}
    glued = [str(edited) for way, edited in marked_texts(TEXT, 1, weak=WEAK) if way == "words run together"]
    assert glued[1] == TEXT.replace("a tedious and mediocre", "atedious andmediocre")


def test_halves_are_drawn_anew() -> None:
    halves = [str(edited) for way, edited in marked_texts(TEXT, 1) if way == "words as tags"][1:]
    assert len(halves) == HALVES
    assert len(set(halves)) == HALVES
    assert {half.count("#") for half in halves} == {(len(CONTENT) + 1) // 2}


@pytest.mark.parametrize("way", [name for name in MARKED if "capitals" not in name])
def test_no_more_characters_are_edited_than_an_attack_may(way: str) -> None:
    long = " ".join([TEXT] * 6)
    edits = Levenshtein.distance(long, first(long, 3)[way])
    assert 8 <= edits <= CHARACTERS


@pytest.mark.parametrize(
    ("way", "written"),
    [
        ("words in quotes", "'tedious'"),
        ("words in brackets", "[tedious]"),
        ("words as tags", "#tedious"),
        ("dots between letters", "t.e.dious"),
        ("first letters twice", "ttedious"),
        ("letters thrice", "teeedious"),
        ("stars for letters", "t*dious"),
        ("accents on letters", "te\u0301dious"),
        ("digits for letters", "t3dious"),
        ("wide letters", "\uff54\uff45dious"),
        ("capital first letters", "Tedious"),
        ("words in capitals", "TEDIOUS"),
    ],
)
def test_a_way_writes_all_words_but_stop_words(way: str, written: str) -> None:
    edited = first(TEXT, 2)[way]
    assert written in edited
    assert edited.startswith("The ")
    assert " is " in edited
    assert sum(word in edited.split() for word in CONTENT) <= 3


def test_stop_words_are_written_in_capitals_alone() -> None:
    edited = first(TEXT, 2)["stop words in capitals"]
    assert {word for word in edited.split() if word.isupper() and len(word) > 1} == {"THE", "IS", "AND", "THAT", "ITS"}


@given(st.text(max_size=60), st.integers(0, 2**40))
def test_any_text_is_written_and_none_is_the_text_itself(text: str, seed: int) -> None:
    assert all(edited != text for _, edited in marked_texts(text, seed))
    assert marked_texts(text, seed) == marked_texts(text, seed)


def test_of_a_pair_the_hypothesis_is_written_and_nothing_beyond_what_is_seen() -> None:
    assert {text[0] for _, text in marked_texts(("a premise", TEXT), 2)} == {"a premise"}
    for _, edited in marked_texts(TEXT, 2, seen=(30,)):
        assert edited.endswith(TEXT[30:])
