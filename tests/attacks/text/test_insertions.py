"""Words put into a text: its own stay in their order, within thirty characters."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from workers.attacks.text.insertions import (
    HESITATIONS,
    LABELS,
    REGISTERS,
    STRESSES,
    gathered,
    hesitating,
    listed,
    registered,
    said_again,
)
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.unreadable import words_of

TEXT = "the film is long, warm and funny, a tedious and mediocre thriller that hardly ever finds its footing."
SOME = st.lists(st.sampled_from(words_of(TEXT)), unique=True)


def is_within(text: str, edited: str) -> bool:
    """Return whether an edit only puts something in, and no more than there may be."""
    count = len(edited) - len(text)
    return count <= CHARACTERS and Levenshtein.distance(text, edited) == count


@given(SOME, st.sampled_from([*HESITATIONS, *STRESSES]))
def test_what_is_put_stands_before_the_first_words_that_there_is_room_for(words: list[str], put: str) -> None:
    edited = hesitating(TEXT, words, put)
    assert is_within(TEXT, edited)
    stressed = re.findall(rf"(?<!\w){re.escape(put)} (\w+)", edited)
    assert sorted(stressed) == sorted(words[: CHARACTERS // (len(put) + 1)])
    # The same is put in where all of it stands in front.
    control = gathered(TEXT, edited, put)
    assert control.endswith(TEXT)
    assert sorted(control.split()) == sorted(edited.split())


@given(SOME, st.sampled_from(LABELS))
def test_labels_of_a_list_stand_in_order(words: list[str], labels: tuple[str, ...]) -> None:
    edited = listed(TEXT, words, labels)
    assert is_within(TEXT, edited)
    found = [piece for piece in edited.split() if piece in labels]
    assert tuple(found) == labels[: len(found)]
    assert len(found) == 1 + min(len(words), CHARACTERS // 3 - 1, len(labels) - 1)


@given(SOME)
def test_words_are_said_again_before_the_last_mark(words: list[str]) -> None:
    edited = said_again(TEXT, words)
    assert is_within(TEXT, edited)
    assert edited.endswith(TEXT[-1])
    again = edited[len(TEXT) :].rstrip(".").split()
    assert set(again) <= {*words, ","}
    assert not words or edited == TEXT or len(again) >= 1


@pytest.mark.parametrize("register", REGISTERS)
def test_a_text_within_something_is_whole(register: str) -> None:
    edited = registered(TEXT, register)
    assert TEXT in edited
    assert is_within(TEXT, edited)
    assert not edited.startswith(TEXT)
    assert not edited.endswith(TEXT)
