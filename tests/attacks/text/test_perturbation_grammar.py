"""Ways that a grammar draws: as many as are asked for, the same for a seed, short, and only where they may."""

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from seatrial.families.temperature_attack.params import DRAWN_WAYS
from workers.attacks.text import perturbation_grammar
from workers.attacks.text.insertions import HESITATIONS, LABELS, STRESSES
from workers.attacks.text.layouts import ASIDES, SPELT, WHICH, WHOLE
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.perturbation_grammar import (
    BEFORE,
    GAPS,
    MARKS,
    NEIGHBOURS,
    SCOPES,
    WORDS,
    Way,
    draw_ways,
)
from workers.attacks.text.spellings import WORD

TEXT = "The film is long, warm and funny, a tedious and mediocre thriller that hardly ever finds its footing."
NEGATING = ("a", "an", "anti", "de", "dis", "il", "im", "in", "ir", "mis", "non", "non-", "no", "not", "un", "under")
WAYS = draw_ways(DRAWN_WAYS, random.Random(0))
NAMED = {way.name: way for way in WAYS}


def edited(way: Way, text: str = TEXT, allowed: set[str] | None = None, seed: int = 0) -> str:
    return way.edit(text, allowed, random.Random(seed))


def named(name: str) -> Way:
    """Return a way that is drawn, some time or other, by its name."""
    return next(way for way in draw_ways(8000, random.Random(1)) if way.name == name)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_so_many_are_drawn_as_were_asked_for_and_no_two_have_a_name(count: int) -> None:
    ways = draw_ways(count, random.Random(3))
    assert len(ways) == len({way.name for way in ways}) == count


def test_a_seed_draws_the_same_ways_and_another_seed_others() -> None:
    again, other = draw_ways(DRAWN_WAYS, random.Random(0)), draw_ways(DRAWN_WAYS, random.Random(1))
    assert [(way.name, way.kind, edited(way)) for way in again] == [(way.name, way.kind, edited(way)) for way in WAYS]
    # Who saw the ways of one audit knows few of another.
    assert len({way.name for way in other} & NAMED.keys()) < DRAWN_WAYS / 2


def test_most_ways_write_words_and_nearly_all_change_a_text() -> None:
    kinds = Counter(way.kind for way in WAYS)
    # What puts whole words into a text is a few ways of their own.
    few = {"hesitations": len(HESITATIONS), "stresses": len(STRESSES), "again": len(LABELS) + 1}
    assert {kind: kinds.pop(kind) for kind in few} == few
    assert kinds.keys() == {"words", "gaps", "stretches", "whole", "marks"}
    assert kinds["words"] > 2 * (kinds["gaps"] + kinds["whole"] + kinds["stretches"])
    assert min(kinds.values()) >= len(ASIDES) * len(WHICH)
    assert sum(edited(way) != TEXT for way in WAYS) > 0.9 * DRAWN_WAYS


@given(st.sampled_from(WAYS), st.text(alphabet="abcdeilnorstuABER ,.-\n", max_size=300), st.integers(0, 99))
def test_no_more_characters_are_edited_than_a_recipe_may(way: Way, text: str, seed: int) -> None:
    if way.kind != "whole":
        assert Levenshtein.distance(text, edited(way, text, seed=seed)) <= CHARACTERS


@given(
    st.sampled_from([way for way in WAYS if way.kind == "words"]),
    st.sets(st.sampled_from(re.findall(WORD, TEXT.lower()))),
    st.integers(0, 99),
)
def test_words_that_may_not_be_touched_are_not(way: Way, allowed: set[str], seed: int) -> None:
    # What is between the words that may be is still there, in its order.
    found = edited(way, TEXT, allowed, seed)
    kept = [re.escape(part) for part in re.split("|".join(map(_whole, allowed)), TEXT, flags=re.IGNORECASE)]
    assert re.fullmatch(".*".join(kept) if allowed else re.escape(TEXT), found, flags=re.DOTALL)


@pytest.mark.parametrize("way", [way for way in WAYS if way.kind == MARKS], ids=lambda way: way.name)
def test_words_that_signs_are_put_to_stay_whole_and_the_first_ones_have_them(way: Way) -> None:
    ranked = ["thriller", "tedious", "mediocre", "funny", "footing", "warm", "finds", "hardly", "ever", "long"]
    text = " and ".join(sorted(ranked))
    found = way.edit(text, ranked, random.Random(0))
    touched = [word for word in ranked if word not in found.split(" ")]
    added = len(found) - len(text)
    each = added // len(touched)
    # As many as thirty characters allow.
    assert added == each * len(touched)
    assert touched == ranked[: CHARACTERS // each]
    assert all(word in found for word in ranked)


def _whole(word: str) -> str:
    return rf"(?<!\w){word}(?!\w)"


@pytest.mark.parametrize(
    "way",
    [way for way in WAYS if way.kind == "gaps" and not way.name.startswith("' '")][::10],
    ids=lambda way: way.name,
)
def test_neighbours_that_may_not_be_touched_are_not(way: Way) -> None:
    assert edited(way, "warm colour, dull thriller", set()) == "warm colour, dull thriller"
    found = edited(way, "warm colour, dull thriller", {"dull thriller"})
    assert found.startswith("warm colour, ")
    assert found != "warm colour, dull thriller"


def test_each_drawer_is_drawn_and_writes_a_word_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, changed = Counter[str](), Counter[str]()

    def watched(drawer: Callable) -> Callable:
        def draw(rng: random.Random):
            name, change = drawer(rng)
            drawn[drawer.__name__] += 1
            changed[drawer.__name__] += change("thriller", random.Random(0)) != "thriller"
            return name, change

        return draw

    monkeypatch.setattr(perturbation_grammar, "WORDS", tuple(map(watched, WORDS)))
    draw_ways(DRAWN_WAYS, random.Random(2))
    assert drawn.keys() == {drawer.__name__ for drawer in WORDS}
    # A sound or a letter that the word does not have is written in no other way.
    assert all(changed[name] > count / 10 for name, count in drawn.items())


def test_every_kind_of_gap_and_of_whole_text_is_drawn() -> None:
    names = "\n".join(way.name for way in draw_ways(4000, random.Random(1)))
    assert all(name in names for name in [*NEIGHBOURS, *SPELT, *WHOLE])
    assert all(f"{sign!r} for" in names for sign in GAPS)
    assert all(f"({scope})" in names for scope in SCOPES)


def test_no_word_is_negated() -> None:
    assert not {*NEGATING} & {*BEFORE}
    for way in WAYS:
        if way.kind == "words":
            words = re.findall(r"[a-z-]+", edited(way, "happy", seed=1).lower())
            assert not {f"{prefix}happy" for prefix in NEGATING} & {*words}, way.name
    added = {word for way in WAYS for word in re.findall(r"\w+", edited(way).lower())} - set(re.findall(r"\w+", TEXT))
    assert not added & {"not", "no", "never", "nor", "without", "neither"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("case as in AAaaa (words)", "a dull film", "a DUll FIlm"),
        ("case as in aaaAA at the end (words)", "a dull film", "a duLL fiLM"),
        ("'w' for rl (words)", "rural brilliant", "wuwal bwiwliant"),
        ("first letters of neighbours exchanged", "dull film", "full dilm"),
        ("backwards (words)", "a dull film", "a llud mlif"),
        ("parted in the middle by '/' (words)", "dull", "du/ll"),
        ("no marks", "dull, film.", "dull film"),
    ],
)
def test_a_way_writes_what_its_name_says(name: str, text: str, expected: str) -> None:
    assert edited(named(name), text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "x", "film", "\n\n", "!!!", "12 345", "a b c d"),
        *("\u96fb\u5f71\u5f88\u60b6", "\u0444\u0438\u043b\u044c\u043c \u0441\u043a\u0443\u0447\u043d\u044b\u0439"),
        *("\u1e9e\u00df \u0130\u0131 \ufb01lm", "e\u0301te\u0301 \U0001f600\U0001f600", "\ud800 film"),
    ],
    ids=repr,
)
def test_texts_of_any_script_and_length_are_written(text: str) -> None:
    for way in WAYS:
        for allowed in (None, set[str]()):
            assert isinstance(edited(way, text, allowed), str)


@given(st.sampled_from(WAYS), st.text(max_size=40))
def test_no_text_stops_a_way(way: Way, text: str) -> None:
    found = edited(way, text)
    assert way.kind == "whole" or Levenshtein.distance(text, found) <= CHARACTERS
