"""Edits that leave alone what a text says: no letter of it is lost, whatever the text."""

import itertools
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.families.temperature_attack.params import MEANING_FREE_EDITS
from workers.attacks.text.meaning_free import (
    KINDS,
    MOST,
    NO_BREAK,
    SENTENCES,
    SOFT_HYPHEN,
    ZERO_WIDTH,
    meaning_free_edits,
)

TEXT = "The film is long, warm and funny."


def letters(text: str) -> str:
    """What is left to read: letters and digits, whatever their case, spaces and signs."""
    return "".join(one for one in text.casefold() if one.isalnum())


def test_each_kind_is_asked_once_and_a_question_is_what_the_estimate_says_at_most() -> None:
    found = meaning_free_edits(TEXT, 1)
    assert len(found) == MOST == MEANING_FREE_EDITS
    assert [name for name, _ in found][: len(KINDS)] == list(KINDS)
    assert all(name.count(" and ") == 2 for name, _ in found[len(KINDS) : -len(SENTENCES)])
    assert [name for name, _ in found][-len(SENTENCES) :] == list(SENTENCES)
    assert len({text for _, text in found}) == len(found)


@given(st.text(max_size=80), st.integers(0, 2**40))
def test_no_edit_loses_a_letter_or_is_the_text_itself(text: str, seed: int) -> None:
    for name, edited in meaning_free_edits(text, seed):
        assert isinstance(edited, str)
        assert edited != text
        left, before = letters(edited), letters(text)
        # Case may change the number of letters; twice written words add some.
        assert len(left) >= len(before) - 1 or "case" in name or "capitals" in name
        assert unicodedata.category(edited[0]) != "Cs" or unicodedata.category(text[0]) == "Cs"


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("no punctuation at the end", lambda text: text[-1:].isalnum()),
        ("two spaces", lambda text: "  " in text),
        ("an invisible character", lambda text: ZERO_WIDTH in text.strip(ZERO_WIDTH)),
        ("a soft hyphen", lambda text: SOFT_HYPHEN in text),
        ("a no-break space", lambda text: NO_BREAK in text),
        ("an exclamation mark at the end instead", lambda text: text.endswith("y!")),
        ("the first word twice", lambda text: text.startswith("The The ")),
        ("the first letter's case", lambda text: text.startswith("the ")),
        ("brackets around", lambda text: text == f"({TEXT})"),
        ("three words in capitals", lambda text: sum(word.strip(",.").isupper() for word in text.split()) == 3),
        ("three words as in a title", lambda text: 2 <= sum(word[0].isupper() for word in text.split()[1:]) <= 3),
        ("a short word with a letter more", lambda text: len(text) == len(TEXT) + 1 and text != TEXT),
        ("a short word with a letter less", lambda text: "film i long" in text),
        ("a drawn-out word", lambda text: any(5 * one in text for one in "efmsgdy")),
        ("a number in front", lambda text: text == f"1. {TEXT}"),
        ("a tab", lambda text: text.count("\t") == 1 and "\t" in text.strip()),
        ("an empty line", lambda text: "\n\n" in text.strip()),
        ("a space in front", lambda text: text == f" {TEXT}"),
        ("stops and dashes", lambda text: ";" in text and "\u2014" in text),
        ("signs", lambda text: any(mark in text for mark in "*#@&%")),
        ("a word cut in two", lambda text: text.count(" ") == TEXT.count(" ") + 1 and letters(text) == letters(TEXT)),
        ("a short word misspelt", lambda text: "si long" in text),
        ("stop words misspelt", lambda text: not re.search(r"\b(is|and)\b", text) and "long, warm" in text),
        ("a sentence behind", lambda text: text.startswith(f"{TEXT} ") and text.endswith(".")),
        ("a sentence in front", lambda text: text.endswith(f". {TEXT}")),
        ("two words run together", lambda text: text.count(" ") == TEXT.count(" ") - 1),
    ],
)
def test_a_kind_writes_what_it_says(kind, sign) -> None:
    assert sign(dict(meaning_free_edits(TEXT, 3))[kind])
    assert not sign(TEXT)


def test_marks_are_written_once_each_in_gaps_of_their_own() -> None:
    text = " ".join(["word"] * 12)
    edited = dict(meaning_free_edits(text, 4))["stops and dashes"]
    assert sorted(one for one in edited if not one.isalnum() and one != " ") == sorted(";:-/\u2013\u2014\u2026")
    words = edited.split()
    assert [word for word in words if word.isalpha()] == text.split()
    assert all(before.isalpha() for before, mark in itertools.pairwise(words) if not mark.isalpha())


def test_places_are_drawn_anew_for_every_seed() -> None:
    drawn = {dict(meaning_free_edits(TEXT, seed))["a word twice"] for seed in range(40)}
    assert len(drawn) == len(TEXT.split())
    assert meaning_free_edits(TEXT, 5) == meaning_free_edits(TEXT, 5)


def test_of_a_pair_the_hypothesis_is_edited_and_nothing_beyond_what_is_seen() -> None:
    assert [text[1] for _, text in meaning_free_edits(("a premise", TEXT), 2)] == [
        text for _, text in meaning_free_edits(TEXT, 2)[: -len(SENTENCES)]
    ]
    assert {text[0] for _, text in meaning_free_edits(("a premise", TEXT), 2)} == {"a premise"}
    for _, edited in meaning_free_edits(TEXT, 2, seen=(12,)):
        assert edited.endswith(TEXT[12:])
    for _, edited in meaning_free_edits(("a premise", TEXT), 2, seen=(3, 12)):
        assert edited[1].endswith(TEXT[12:])


@pytest.mark.parametrize("text", ["Der Film ist lang und warm.", "这部电影很长。", "Wonderful!"])
def test_a_text_that_is_hardly_english_is_given_no_sentence_in_english(text: str) -> None:
    assert not set(SENTENCES) & {name for name, _ in meaning_free_edits(text, 1)}


@pytest.mark.parametrize("text", ["", " ", ".", "a", "\u200b"])
def test_texts_with_hardly_anything_in_them_are_edited_too(text: str) -> None:
    assert all(edited != text for _, edited in meaning_free_edits(text, 1))
