"""Diffs of texts: exact to the character, as short as another implementation finds them, bounded."""

import difflib
import itertools
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reports.diffs import MOST_TOKENS, Segment, _runs, of_side, shorten, word_diff

WORDS = st.lists(
    st.sampled_from(["film", "flim", "fi lm", "ok", ",", "a", "\n", "é", "e\u0301", "\u202e"]), max_size=12
)
TEXTS = st.one_of(WORDS.map(" ".join), st.text(max_size=40))


def joined(segments: list[Segment]) -> tuple[str, str]:
    before, after = (of_side(segments, side) for side in ("before", "after"))
    return "".join(one.text for one in before), "".join(one.text for one in after)


def changed(segments: list[Segment]) -> list[tuple[str, list[str]]]:
    """Return the kind of each changed segment and the letters in it that changed."""
    return [
        (one.kind, [piece.text for piece in one.pieces if piece.is_changed]) for one in segments if one.kind != "equal"
    ]


@given(TEXTS, TEXTS)
def test_a_diff_holds_both_texts_to_the_character(before: str, after: str) -> None:
    assert joined(word_diff(before, after)) == (before, after)


@given(TEXTS, TEXTS, st.integers(0, 5), st.integers(1, 8), st.integers(1, 30))
def test_so_does_a_shortened_one(before: str, after: str, context: int, longest: int, most: int) -> None:
    before, after = before * 9, after * 9
    short = shorten(word_diff(before, after), context=context, longest=longest, most=most)
    assert joined(short) == (before, after)


@given(TEXTS)
def test_a_text_beside_itself_has_no_change(text: str) -> None:
    assert changed(word_diff(text, text)) == []


@given(st.lists(st.sampled_from("abc"), max_size=14), st.lists(st.sampled_from("abc"), max_size=14))
def test_the_diff_is_the_shortest(old: list[str], new: list[str]) -> None:
    """The longest common subsequence by its recurrence: a second implementation."""
    longest = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            longest[i + 1][j + 1] = longest[i][j] + 1 if one == other else max(longest[i][j + 1], longest[i + 1][j])
    runs = list(_runs(old, new))
    assert sum(len(first) for kind, first, _ in runs if kind == "equal") == longest[-1][-1]
    assert all(first == second for kind, first, second in runs if kind == "equal")
    assert all(one[0] != other[0] for one, other in itertools.pairwise(runs))
    assert [[token for run in runs for token in run[side]] for side in (1, 2)] == [old, new]


def test_one_letter_of_a_word_is_what_changed() -> None:
    assert changed(word_diff("a wonderful film", "a wnderful film")) == [("removed", ["o"]), ("added", [])]
    assert changed(word_diff("a film, yes", "a fi1m, yes")) == [("removed", ["l"]), ("added", ["1"])]


def test_a_synonym_is_replaced_whole() -> None:
    assert changed(word_diff("a good film", "a fine film")) == [("removed", ["good"]), ("added", ["fine"])]


@pytest.mark.parametrize(
    ("before", "after", "letters"),
    [
        ("a wonderful day", "a wonder ful day", [("removed", []), ("added", [" "])]),
        ("a wonder ful day", "a wonderful day", [("removed", [" "]), ("added", [])]),
        ("a wonderful film", "a wonder ful flim", [("removed", ["l"]), ("added", [" ", "l"])]),
    ],
)
def test_a_space_put_into_a_word_is_one_letter(before: str, after: str, letters: list[tuple[str, list[str]]]) -> None:
    assert changed(word_diff(before, after)) == letters


def test_an_accent_stays_with_its_letter() -> None:
    assert changed(word_diff("cafe\u0301s", "cafes")) == [("removed", ["e\u0301"]), ("added", ["e"])]


def test_what_did_not_change_far_from_a_change_is_left_out() -> None:
    text = " ".join(f"word{n}" for n in range(400))
    short = shorten(word_diff(text, text.replace("word200", "wrd200")), context=50)
    shown = [one.text for one in short if not one.is_elided]
    assert sum(map(len, shown)) < 300
    assert any("wrd200" in one for one in shown)
    assert [one.text.endswith((" ", "wrd200")) or one.text.startswith(" ") for one in short if one.is_elided] == [
        True
    ] * 2


def test_a_short_text_is_shown_whole() -> None:
    text = "one two three " * 10
    assert not any(one.is_elided for one in shorten(word_diff(text, text + "four")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a " * 5_000, "a b " * 5_000),
        ("x" * 1_000_000, "y" * 1_000_000),
        (" ".join(f"word{n}" for n in range(5_000)), " ".join(f"ward{n}" for n in range(5_000))),
        ("ab " * (MOST_TOKENS // 2), "ba " * (MOST_TOKENS // 2 - 100)),
        ("ab " * MOST_TOKENS, "ba " * (MOST_TOKENS + 200)),
        ("\u0301" * MOST_TOKENS + " x" * 9_000, "y " * 9_000 + "\u0301\u0300" * MOST_TOKENS),
    ],
)
def test_a_hostile_text_costs_little_and_shows_little(before: str, after: str) -> None:
    start = time.process_time()
    short = shorten(word_diff(before, after))
    assert time.process_time() - start < 5
    assert joined(short) == (before, after)
    assert sum(len(one.text) for one in short if not one.is_elided) < 20_000


def test_replaced_words_line_up_even_beyond_the_limit() -> None:
    old = [f"word{n}" for n in range(2 * MOST_TOKENS)]
    new = [f"other{n}" if n % 3 == 0 else word for n, word in enumerate(old)]
    equal = sum(len(one.text.split()) for one in word_diff(" ".join(old), " ".join(new)) if one.kind == "equal")
    assert equal == sum(a == b for a, b in zip(old, new, strict=True))


def test_unchanged_words_are_those_the_standard_library_finds() -> None:
    old = ["the", "film", "is", "a", "triumph", "of", "style", "and", "of", "patience", "over", "plot"]
    new = ["the", "flim", "is", "triumph", "of", "stile", "and", "patience", "over", "the", "plot"]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    segments = word_diff(" ".join(old), " ".join(new))
    kept = [word for one in segments if one.kind == "equal" for word in one.text.split()]
    assert kept == [word for block in blocks for word in old[block.a : block.a + block.size]]


def kept(before: str, after: str) -> str:
    """Return the letters before that the diff finds again."""
    segments = of_side(word_diff(before, after), "before")
    return "".join(piece.text for one in segments for piece in one.pieces if not piece.is_changed)


TEXT = "This movie, which I saw twice, was one of the best films I have seen in years. " * 12


@pytest.mark.parametrize("words", [TEXT, TEXT[:80]], ids=["long", "short"])
def test_marks_put_into_every_word_leave_all_letters(words: str) -> None:
    intruded = " ".join(",".join(word) for word in words.split(" "))
    assert kept(words, intruded) == words
    added = [one for one in word_diff(words, intruded) if one.kind == "added"]
    assert {piece.text for one in added for piece in one.pieces if piece.is_changed} == {","}


@pytest.mark.parametrize("every", [2, 3, 10**6])
def test_words_run_together_lose_spaces_alone(every: int) -> None:
    words = TEXT.split(" ")
    merged = "".join(word + (" " if at % every == every - 1 else "") for at, word in enumerate(words))
    segments = word_diff(TEXT, merged)
    assert joined(segments) == (TEXT, merged)
    assert {text for _, letters in changed(segments) for text in letters} == {" "}


def test_letters_that_look_alike_are_marked_each_at_its_place() -> None:
    alike = TEXT.replace("o", "\u043e").replace("a", "\u0430")
    assert kept(TEXT, alike) == TEXT.replace("o", "").replace("a", "")


def test_spaces_put_between_letters_leave_the_letters() -> None:
    before, after = "fox jumps over the lazy dog", "fox ju m p s o:v:e:r t;h;e lazy dog"
    assert kept(before, after) == before


def test_marks_around_a_word_stay_where_the_word_is_replaced() -> None:
    segments = word_diff('He said: "good," twice', 'He said: "fine," twice')
    assert [(one.kind, one.text) for one in segments] == [
        ("equal", 'He said: "'),
        ("removed", "good"),
        ("added", "fine"),
        ("equal", '," twice'),
    ]


def test_words_that_moved_are_found_though_the_spaces_stayed() -> None:
    before, after = "one two three four five six", "two three four five six seven"
    assert kept(before, after).split() == ["two", "three", "four", "five", "six"]


def test_words_run_together_are_never_told_as_replaced() -> None:
    before = "we've seen the hippie-turned-yuppie plot before , but there's an enthusiastic charm in <i ? fire that"
    after = "we'veseen thehippie-turned-yuppie plotbefore, but there's anenthusiasticcharm in<i?fire that"
    assert {text for _, letters in changed(word_diff(before, after)) for text in letters} == {" "}


@pytest.mark.slow
def test_a_letter_with_many_marks_is_copied_once_and_not_for_each_of_them() -> None:
    """300,000 marks are read within a deadline that copying them over and over, 45 GB, cannot keep."""
    code = "from app.reports.diffs import word_diff; m = 'a' + chr(0x301) * 300_000; word_diff(m, m[:-3] + 'b')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=6)
