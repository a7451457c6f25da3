import random
import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from seatrial.noise.keys import BESIDE, keyboard_typo_code, keyboard_typo_paper

# The rows of the keyboard and how far each is moved to the right of the one above, in keys.
ROWS = (("1234567890-", 0.0), ("qwertyuiop[", 0.5), ("asdfghjkl;'", 0.75), ("zxcvbnm,.", 1.25))
PLACES = {key: (moved + at, row) for row, (keys, moved) in enumerate(ROWS) for at, key in enumerate(keys)}

# Letters that list one below and to their right that does not list them back.
ONE_SIDED = {"qs", "wd", "ef", "rg", "th", "yj", "uk", "il", "ax", "sc", "dv"}

# A second transcription of the 26 rows, neighbours among letters apart from the others.
LETTERS_BESIDE = {
    "a": {"q", "w", "s", "x", "z"},
    "b": {"v", "g", "h", "n"},
    "c": {"x", "d", "f", "v"},
    "d": {"s", "e", "r", "f", "v", "c", "x"},
    "e": {"w", "r", "f", "d", "s"},
    "f": {"d", "r", "t", "g", "v", "c"},
    "g": {"f", "t", "y", "h", "b", "v"},
    "h": {"g", "y", "u", "j", "n", "b"},
    "i": {"j", "u", "o", "l", "k"},
    "j": {"h", "u", "i", "k", "m", "n"},
    "k": {"j", "i", "o", "l", "m"},
    "l": {"k", "o", "p"},
    "m": {"n", "j", "k"},
    "n": {"b", "h", "j", "m"},
    "o": {"i", "p", "l", "k"},
    "p": {"o", "l"},
    "q": {"w", "s", "a"},
    "r": {"e", "t", "g", "f", "d"},
    "s": {"a", "w", "e", "d", "c", "x", "z"},
    "t": {"r", "y", "h", "g", "f"},
    "u": {"y", "i", "k", "j", "h"},
    "v": {"c", "f", "g", "b"},
    "w": {"q", "e", "d", "s", "a"},
    "x": {"z", "s", "d", "c"},
    "y": {"g", "t", "u", "j", "h"},
    "z": {"a", "s", "x"},
}
OTHERS_BESIDE = {
    "q": "12",
    "w": "23",
    "e": "34",
    "r": "45",
    "t": "56",
    "y": "67",
    "u": "78",
    "i": "89",
    "o": "90;",
    "p": "0-[';",
    "k": ".,",
    "l": ";.,",
    "m": ",",
}


def test_the_map_has_a_row_for_each_letter_as_transcribed_once_more() -> None:
    assert {letter: set(beside) for letter, beside in BESIDE.items()} == {
        letter: LETTERS_BESIDE[letter] | set(OTHERS_BESIDE.get(letter, "")) for letter in LETTERS_BESIDE
    }
    assert "".join(sorted(BESIDE)) == "abcdefghijklmnopqrstuvwxyz"


def test_neighbours_keep_their_order_so_that_a_seed_keeps_its_typos() -> None:
    assert zlib.crc32(" ".join(key + beside for key, beside in sorted(BESIDE.items())).encode()) == 3166925771


def test_no_row_names_a_key_twice() -> None:
    assert [letter for letter, beside in BESIDE.items() if len(set(beside)) != len(beside) or letter in beside] == []


def test_the_map_is_one_sided_where_it_is_known_to_be() -> None:
    assert {a + b for a in BESIDE for b in BESIDE[a] if b in BESIDE and a not in BESIDE[b]} == ONE_SIDED


def test_every_neighbour_lies_within_two_keys() -> None:
    for letter, beside in BESIDE.items():
        x, y = PLACES[letter]
        assert all((PLACES[key][0] - x) ** 2 + (PLACES[key][1] - y) ** 2 < 4 for key in beside)


WORDS = st.text(min_size=1, max_size=12)
SEEDS = st.integers(0, 2**32)


@given(WORDS, SEEDS)
def test_the_code_strikes_one_position_at_most_and_a_neighbour_there(word: str, seed: int) -> None:
    attacked = keyboard_typo_code(word, 0.8, random.Random(seed))
    assert len(attacked) == len(word)
    struck = [(one, other) for one, other in zip(word, attacked, strict=True) if one != other]
    assert len(struck) <= 1
    assert all(other in BESIDE[one] for one, other in struck)


@pytest.mark.parametrize("word", ["", "USA", "2024", "É", "море", "'", "🧑\u200d🚀"])
def test_the_code_never_strikes_capitals_digits_or_what_the_map_has_not(word: str) -> None:
    assert {keyboard_typo_code(word, 1.0, random.Random(seed)) for seed in range(30)} == {word}


def test_the_code_draws_the_position_from_all_the_words_and_the_key_from_the_row() -> None:
    rng = random.Random(1)
    draws = 24_000
    counts = Counter(keyboard_typo_code("Zao", 0.2, rng) for _ in range(draws))
    unchanged = counts.pop("Zao")
    expected = {f"Z{key}o": draws / 3 / 5 for key in "qwsxz"} | {f"Za{key}": draws / 3 / 7 for key in "i90p;lk"}
    assert set(counts) == set(expected)
    found = [unchanged, *(counts[word] for word in expected)]
    assert chisquare(found, [draws / 3, *expected.values()]).pvalue > 0.001


@given(WORDS, SEEDS, st.sampled_from([0.2, 1.0]))
def test_the_paper_keeps_case_and_strikes_neighbours_only(word: str, seed: int, level: float) -> None:
    attacked = keyboard_typo_paper(word, level, random.Random(seed))
    assert len(attacked) == len(word)
    for one, other in zip(word, attacked, strict=True):
        if one != other:
            assert other.lower() in BESIDE[one.lower()]
            assert other.isupper() == (one.isupper() and other.isalpha())
        if level == 1:
            assert (one != other) == (one.lower() in BESIDE)


def test_keys_of_the_paper_are_independent_coins() -> None:
    rng = random.Random(2)
    draws = 20_000
    counts = Counter(
        sum(one != other for one, other in zip("Sea 2x", keyboard_typo_paper("Sea 2x", 0.3, rng), strict=True))
        for _ in range(draws)
    )
    expected = [draws * share for share in (0.2401, 0.4116, 0.2646, 0.0756, 0.0081)]
    assert chisquare([counts[struck] for struck in range(5)], expected).pvalue > 0.001
