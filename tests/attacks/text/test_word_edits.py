"""Words edited at random: how many, where, and of which kinds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.attacks.text.word_edits import KINDS, TYPED, WordsOf, edit_words, misspelt, without_a_letter

TEXT = "a remarkable film about ordinary people who fall through the cracks of a prosperous society"


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_words_are_edited_as_are_wanted(kind: str) -> None:
    edited, count = edit_words(TEXT, kind, 0.3, 2, 1)
    assert isinstance(edited, str)
    changed = sum(one != other for one, other in zip(edited.split(), TEXT.split(), strict=True))
    # Twelve words have three letters or more.
    assert count == changed == 4
    assert edit_words(TEXT, kind, 0.3, 2, 1) == (edited, count)
    assert edit_words(TEXT, kind, 0.3, 2, 2)[0] != edited


def test_a_text_of_few_words_has_all_of_them_edited() -> None:
    assert edit_words("a fine day", "a letter less", 0.15, 3, 1)[1] == 2
    assert edit_words("so be it", "visual", 0.15, 3, 1) == ("so be it", 0)


def test_of_a_pair_both_parts_are_edited_and_stay_parts() -> None:
    edited, count = edit_words((TEXT, TEXT), "a letter less", 1.0, 1, 3)
    assert count == 24
    assert [len(part) for part in edited] == [len(TEXT) - 12] * 2


def test_no_word_is_edited_that_the_model_does_not_see() -> None:
    for kind in KINDS:
        edited, _ = edit_words(TEXT, kind, 1.0, 9, 4, seen=(23,))
        assert isinstance(edited, str)
        assert edited.endswith(TEXT[23:])


def test_letters_stand_for_words_where_no_space_parts_them() -> None:
    edited, count = edit_words("这部电影讲述了一个普通家庭在大城市里的生活故事", "a letter less", 0.3, 2, 1)
    assert count >= 2
    assert len(edited) == 23 - count


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_is_cut_is_joined_as_it_was(first: str, second: str) -> None:
    assert WordsOf.cut(first).joined == first
    assert WordsOf.cut((first, second)).joined == (first, second)


def test_a_letter_is_taken_from_inside() -> None:
    rng = random.Random(0)
    assert {without_a_letter("abcd", rng) for _ in range(40)} == {"acd", "abd"}


def test_people_mistype_in_lower_case() -> None:
    rng = random.Random(0)
    written = [misspelt(word, rng, TYPED) for word in TEXT.split() * 20]
    assert all(one.islower() and one.isascii() for one in written)
    assert sum(one != word for one, word in zip(written, TEXT.split() * 20, strict=True)) > 0.95 * len(written)
    assert any(not misspelt("remarkable", rng).islower() for _ in range(40))
