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


@given(TEXTS, st.sampled_from(ASIDES), st.sampled_from(WHICH), st.integers(0, 99), st.booleans())
def test_stretches_are_within_marks_and_all_else_is_as_it_was(
    text: str, marks: tuple[str, str], which: str, seed: int, is_known: bool
) -> None:
    before, behind = marks
    rng = random.Random(seed)
    gains = {word: rng.uniform(-1, 1) for word in words_of(text)} if is_known else {}
    found = write_stretches(before, behind, which, text, gains, rng)
    assert len(found) - len(text) <= CHARACTERS
    assert "".join(re.findall("[a-z]", re.sub("</?[bi]>", "", found))) == "".join(re.findall("[a-z]", text))
    if not text:
        return
    words = text.split()
    sign = 1 if which.endswith("for") else -1
    told = [sign * gains.get(word, 0.0) for word in words]
    sizes = [size for size in STRETCHES if size <= len(words)] or [len(words)]
    worth = {(start, size): sum(told[start : start + size]) for size in sizes for start in range(len(words) - size + 1)}
    # Between the marks, as often as they are there.
    if which.startswith("the one"):
        inside = found[found.index(before) + len(before) : found.rindex(behind)].split()
        assert sum(sign * gains.get(word, 0.0) for word in inside) == pytest.approx(max(worth.values()))
    if before == "[":
        stretches = [one.split() for one in re.findall(r"\[([^\]]*)\]", found)]
        added = [sum(sign * gains.get(word, 0.0) for word in one) for one in stretches]
        assert max(added) == pytest.approx(max(worth.values()))
        assert not is_known or sum(one < 0 for one in added) <= (max(added) <= 0)
        assert {len(one) for one in stretches} <= {*sizes}
        assert not re.search(r"\] \[", found)


def test_as_many_stretches_are_in_marks_as_speak_for_the_decision() -> None:
    text = " ".join(f"word{number}" for number in range(40))
    gains = {f"word{number}": -1.0 if number % 4 == 3 else 1.0 for number in range(40)}
    found = write_stretches("(", ")", "those most for", text, gains, random.Random(0))
    stretches = [one.split() for one in re.findall(r"\(([^()]*)\)", found)]
    assert len(stretches) >= 4
    # Of three and of six or more: no shorter one says as much.
    assert all(sum(gains[word] for word in one) >= 3.0 for one in stretches[:1])
    against = write_stretches("(", ")", "those most against", text, gains, random.Random(0))
    assert all(sum(gains[word] for word in one.split()) <= 0 for one in re.findall(r"\(([^()]*)\)", against))
    # Where nothing is known they are anywhere, as many as there may be.
    drawn = {write_stretches("(", ")", "those most for", text, {}, random.Random(seed)) for seed in range(9)}
    assert len(drawn) == 9
    assert min(one.count("(") for one in drawn) >= 5
