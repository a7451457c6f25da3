"""Layouts of a text: its words stay, in their order, and what is put around stretches of it."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.attacks.text.layouts import ASIDES, LINES, SPELT, STRETCHES, WHICH, write_stretches
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.unreadable import words_of

TEXT = 'the film is long , warm and funny ( of sorts ) , is n\'t it ? a tedious and mediocre thriller -- " not bad " .'
TEXTS = st.lists(st.sampled_from(words_of(TEXT)), max_size=25).map(" ".join)


@pytest.mark.parametrize("name", SPELT)
def test_the_words_stay_in_their_order(name: str) -> None:
    text = f"{TEXT} Really, a film."
    found = SPELT[name](text)
    assert found != text
    plain, kept = (re.findall(r"[a-z]+", one.lower().replace("&", "and")) for one in (text, found))
    # "n't" is a word where it stands by itself.
    assert "".join(kept) == "".join(plain)


@pytest.mark.parametrize("words", LINES)
def test_lines_have_as_many_words(words: int) -> None:
    lines = SPELT[f"lines of {words} words"](" ".join("abcdefghijklmnopqrst")).split("\n")
    assert {len(line.split()) for line in lines[:-1]} == {words}
    assert 0 < len(lines[-1].split()) <= words


def test_what_is_printed_has_its_marks_at_words() -> None:
    printed = 'the film is long, warm and funny (of sorts), isn\'t it? a tedious and mediocre thriller--"not bad".'
    assert SPELT["as it is printed"](TEXT) == printed
    assert SPELT["as it is printed, with a capital and a full stop"]("a film") == "A film."


@given(TEXTS, st.sampled_from(ASIDES), st.sampled_from(WHICH), st.integers(0, 99))
def test_stretches_are_within_marks_and_all_else_is_as_it_was(
    text: str, marks: tuple[str, str], which: str, seed: int
) -> None:
    before, behind = marks
    ranked = random.Random(seed).sample(words_of(text), len(words_of(text)))
    found = write_stretches(before, behind, which, text, ranked, random.Random(seed))
    assert len(found) - len(text) <= CHARACTERS
    assert "".join(re.findall("[a-z]", re.sub("</?[bi]>", "", found))) == "".join(re.findall("[a-z]", text))
    if which != "all" and text:
        inside = found[found.index(before) + len(before) : found.rindex(behind)]
        assert 1 <= len(inside.split()) <= max(STRETCHES)
        assert not ranked or ranked[0 if which == "the one most for" else -1] in inside.split()


def test_all_stretches_of_a_text_leave_words_between_them() -> None:
    text = " ".join(f"word{number}" for number in range(40))
    for seed in range(20):
        found = write_stretches("(", ")", "all", text, None, random.Random(seed))
        stretches = re.findall(r"\(([^()]*)\)", found)
        assert len({len(one.split()) for one in stretches}) == 1
        assert len(stretches) >= min(40 // 7, CHARACTERS // 2) - 1
        assert not re.search(r"\) \(", found)
