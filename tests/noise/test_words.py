import random
import string
from collections import Counter
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from seatrial.noise.words import disemvowel, full_shuffle, inner_shuffle, intrude_code, intrude_paper, truncate

WORDS = st.text(min_size=1, max_size=15)
SEEDS = st.integers(0, 2**32)
LEVELS = st.sampled_from([1e-6, 0.2, 0.5, 0.8, 1.0])
DRAWS = 10_000


@given(WORDS, SEEDS, st.sampled_from([(3, 10), (2, 1)]))
def test_a_full_shuffle_keeps_the_letters(word: str, seed: int, reading: tuple[int, int]) -> None:
    shortest, tries = reading
    attacked = full_shuffle(word, 0.5, random.Random(seed), shortest=shortest, tries=tries)
    assert sorted(attacked) == sorted(word)
    if len(word) < shortest:
        assert attacked == word


@given(WORDS, SEEDS, st.sampled_from([(4, 10), (3, 1)]))
def test_an_inner_shuffle_keeps_the_letters_and_both_ends(word: str, seed: int, reading: tuple[int, int]) -> None:
    shortest, tries = reading
    attacked = inner_shuffle(word, 0.5, random.Random(seed), shortest=shortest, tries=tries)
    assert sorted(attacked) == sorted(word)
    assert (attacked[0], attacked[-1]) == (word[0], word[-1])
    if len(word) < shortest:
        assert attacked == word


@pytest.mark.parametrize(
    ("shuffle", "word", "changes"),
    [
        (partial(full_shuffle, shortest=3), "ab", False),
        (partial(full_shuffle, shortest=3), "abc", True),
        (partial(full_shuffle, shortest=3), "aaaa", False),
        (partial(inner_shuffle, shortest=4), "abc", False),
        (partial(inner_shuffle, shortest=4), "abcd", True),
        (partial(inner_shuffle, shortest=4), "abbc", False),
    ],
    ids=["full-two", "full-three", "full-all-alike", "inner-three", "inner-four", "inner-middle-alike"],
)
def test_the_codes_shuffles_try_until_the_word_is_another(shuffle, word: str, changes: bool) -> None:
    attacked = [shuffle(word, 0.5, random.Random(seed), tries=10) for seed in range(100)]
    # Ten tries of a word with two inner letters all fail once in 1,024.
    assert sum(one != word for one in attacked) >= 99 if changes else set(attacked) == {word}


def test_the_papers_shuffle_is_a_uniform_permutation_the_word_itself_among_them() -> None:
    rng = random.Random(1)
    counts = Counter(full_shuffle("abc", 0.5, rng, shortest=2, tries=1) for _ in range(DRAWS))
    assert len(counts) == 6
    assert chisquare(list(counts.values())).pvalue > 0.001
    inner = Counter(inner_shuffle("xaby", 0.5, rng, shortest=3, tries=1) for _ in range(DRAWS))
    assert set(inner) == {"xaby", "xbay"}
    assert chisquare(list(inner.values())).pvalue > 0.001


def test_the_codes_shuffle_is_uniform_among_the_other_orders() -> None:
    rng = random.Random(2)
    counts = Counter(full_shuffle("abc", 0.5, rng, shortest=3, tries=10) for _ in range(DRAWS))
    assert counts.pop("abc", 0) == 0
    assert len(counts) == 5
    assert chisquare(list(counts.values())).pvalue > 0.001


def intruder(word: str, attacked: str) -> tuple[str, list[int]]:
    """Return the symbol, and the gaps it stands in; fails unless the letters are there in order."""
    symbols, gaps, at = set(), [], 0
    for character in attacked:
        if at < len(word) and character == word[at]:
            at += 1
        else:
            symbols.add(character)
            gaps.append(at - 1)
    assert at == len(word)
    assert len(symbols) <= 1
    return "".join(symbols), gaps


LETTERS = st.text(st.characters(categories=["L"]), min_size=2, max_size=12)


@given(LETTERS, LEVELS, SEEDS)
def test_the_code_puts_one_symbol_into_inner_gaps_once_at_least(word: str, level: float, seed: int) -> None:
    symbol, gaps = intruder(word, intrude_code(word, level, random.Random(seed)))
    assert symbol in string.punctuation
    assert 1 <= len(gaps) == len(set(gaps))
    assert set(gaps) <= set(range(len(word) - 1))
    if level == 1:
        assert len(gaps) == len(word) - 1


@given(LETTERS, LEVELS, SEEDS)
def test_the_paper_puts_one_symbol_into_inner_gaps_or_none(word: str, level: float, seed: int) -> None:
    attacked = intrude_paper(word, level, random.Random(seed))
    symbol, gaps = intruder(word, attacked)
    assert symbol in string.punctuation + " "
    assert len(gaps) == len(set(gaps))
    assert set(gaps) <= set(range(len(word) - 1))
    if len(word) < 3:
        assert attacked == word


@pytest.mark.parametrize("level", [1e-6, 0.2, 0.5, 0.8])
def test_symbols_of_the_code_are_as_many_as_a_binomial_without_zero_says(level: float) -> None:
    rng = random.Random(3)
    counts = Counter(len(intrude_code("vandalism", level, rng)) - 9 for _ in range(DRAWS))
    shares = binom.pmf(range(1, 9), 8, level) / binom.sf(0, 8, level)
    assert sum(counts[symbols] for symbols in range(1, 9)) == DRAWS
    # Classes of fewer than five expected are one class: the approximation is of large counts.
    tail = next((at for at in range(8) if shares[at:].sum() * DRAWS < 5), 8)
    found = [counts[symbols] for symbols in range(1, tail + 1)]
    expected = [share * DRAWS for share in shares[:tail]]
    expected[-1] += DRAWS - sum(expected)
    found[-1] += DRAWS - sum(found)
    assert chisquare(found, expected).pvalue > 0.001 if tail > 1 else found == [DRAWS]


@pytest.mark.parametrize("level", [0.2, 0.5, 0.8])
def test_every_set_of_gaps_is_as_likely_as_coins_redrawn_until_one_falls_make_it(level: float) -> None:
    rng = random.Random(4)
    counts = Counter(tuple(intruder("word", intrude_code("word", level, rng))[1]) for _ in range(DRAWS))
    found, expected = [], []
    for coins in product([0, 1], repeat=3):
        if any(coins):
            heads = sum(coins)
            found.append(counts[tuple(gap for gap in range(3) if coins[gap])])
            expected.append(DRAWS * level**heads * (1 - level) ** (3 - heads) / (1 - (1 - level) ** 3))
    assert chisquare(found, expected).pvalue > 0.001


def test_gaps_of_the_paper_are_independent_coins() -> None:
    rng = random.Random(5)
    counts = Counter(len(intrude_paper("word", 0.3, rng)) - 4 for _ in range(DRAWS))
    assert chisquare([counts[k] for k in range(4)], binom.pmf(range(4), 3, 0.3) * DRAWS).pvalue > 0.001


@pytest.mark.parametrize(
    ("intrude", "symbols"),
    [(intrude_code, string.punctuation), (intrude_paper, string.punctuation + " ")],
    ids=["code", "paper"],
)
def test_every_symbol_is_as_likely(intrude, symbols: str) -> None:
    rng = random.Random(6)
    counts = Counter(intrude("abc", 1.0, rng)[1] for _ in range(DRAWS))
    assert len(symbols) == 32 + (intrude is intrude_paper)
    assert chisquare([counts[symbol] for symbol in symbols]).pvalue > 0.001


@pytest.mark.parametrize("word", ["", "a", ".", ",-", "./:", "[\\]^_`"])
def test_the_code_leaves_one_letter_and_what_stands_in_the_punctuation_alone(word: str) -> None:
    assert intrude_code(word, 1.0, random.Random(0)) == word


def test_the_code_intrudes_into_two_letters_and_into_other_punctuation() -> None:
    assert len(intrude_code("ab", 1e-6, random.Random(0))) == 3
    assert len(intrude_code("...", 1.0, random.Random(0))) == 5


@pytest.mark.parametrize(
    ("word", "code", "paper"),
    [
        ("are", "r", "are"),
        ("is", "is", "is"),
        ("sea", "s", "sea"),
        ("ocean", "cn", "cn"),
        ("trial", "trl", "trl"),
        ("Every", "vry", "vry"),
        ("ÉTUDE", "ÉTD", "ÉTD"),
        ("naïve", "nïv", "nïv"),
        ("rhythm", "rhythm", "rhythm"),
        ("eau", "eau", "eau"),
        ("AEIOU", "AEIOU", "AEIOU"),
        ("queue", "q", "q"),
        ("n't", "n't", "n't"),
        ("море", "море", "море"),
        ("", "", ""),
    ],
)
def test_disemvowel(word: str, code: str, paper: str) -> None:
    assert disemvowel(word, 0.2, random.Random(), shortest=3) == code
    assert disemvowel(word, 0.2, random.Random(), shortest=4) == paper


@pytest.mark.parametrize(
    ("word", "code", "paper"),
    [
        ("", "", ""),
        ("a", "a", "a"),
        ("is", "is", "is"),
        ("are", "are", "ar"),
        ("ship", "shi", "shi"),
        ("vandalism", "vandalis", "vandalis"),
        ("1999", "199", "199"),
        ("море", "мор", "мор"),
    ],
)
def test_truncate(word: str, code: str, paper: str) -> None:
    assert truncate(word, 0.2, random.Random(), shortest=4) == code
    assert truncate(word, 0.2, random.Random(), shortest=3) == paper


@given(WORDS, LEVELS, SEEDS)
def test_no_word_is_left_empty(word: str, level: float, seed: int) -> None:
    for shortest in (3, 4):
        assert disemvowel(word, level, random.Random(seed), shortest=shortest)
        assert truncate(word, level, random.Random(seed), shortest=shortest)
