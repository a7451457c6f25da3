import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from seatrial.noise.lexical import LookAlikes, natural_typo, phonetic, visual
from seatrial.noise.lexicons import stopwords

DRAWS = 10_000
SEEDS = st.integers(0, 2**32)
TYPOS = {"their": ("thier", "their", "ther"), "Friday": ("Firday",), "friday": ("fryday",), "IT": ("TI",), "of": ()}
RESPELLINGS = {"people": (("peepel", 2.0), ("peaple", 1.0)), "their": (("there", 1.0),), "x2": (("ecks2", 1.0),)}
GLYPHS = {"e": (("3", 3.0), ("é", 2.0), ("е", 1.0)), "m": (("rn", 1.0),), "-": ()}  # noqa: RUF001 - one is Cyrillic


def typo(word: str, seed: int = 0, *, any_case: bool = False) -> str:
    return natural_typo(word, 0.8, random.Random(seed), typos=TYPOS, any_case=any_case)


def respelling(word: str, seed: int = 0, spared: frozenset[str] = frozenset()) -> str:
    return phonetic(word, 0.8, random.Random(seed), respellings=RESPELLINGS, stopwords=spared)


def test_the_code_looks_a_word_up_as_it_stands() -> None:
    assert [typo(word) for word in ("Friday", "friday", "FRIDAY", "Their", "of")] == [
        "Firday",
        "fryday",
        "FRIDAY",
        "Their",
        "of",
    ]


def test_the_paper_looks_a_word_up_in_lower_case_first_and_keeps_its_capital() -> None:
    assert typo("Friday", any_case=True) == "Fryday"
    assert typo("FRIDAY", any_case=True) == "Fryday"
    assert typo("IT", any_case=True) == "TI"
    assert {typo("Their", seed, any_case=True) for seed in range(30)} == {"Thier", "Their", "Ther"}
    assert typo("Of", any_case=True) == "Of"


def test_each_misspelling_listed_is_as_likely_and_the_word_may_be_one() -> None:
    rng = random.Random(1)
    counts = Counter(natural_typo("their", 0.2, rng, typos=TYPOS, any_case=False) for _ in range(DRAWS))
    assert set(counts) == set(TYPOS["their"])
    assert chisquare(list(counts.values())).pvalue > 0.001


@given(st.text(max_size=8), SEEDS, st.booleans())
def test_words_that_are_not_listed_stay(word: str, seed: int, any_case: bool) -> None:
    if word.lower() not in TYPOS and word not in TYPOS:
        assert typo(word, seed, any_case=any_case) == word
    if word.lower() not in RESPELLINGS:
        assert respelling(word, seed) == word


def test_respellings_are_drawn_by_weight_and_begin_as_the_word_does() -> None:
    rng = random.Random(2)
    counts = Counter(phonetic("People", 0.2, rng, respellings=RESPELLINGS, stopwords=frozenset()) for _ in range(DRAWS))
    assert set(counts) == {"Peepel", "Peaple"}
    assert chisquare([counts["Peepel"], counts["Peaple"]], [DRAWS * 2 / 3, DRAWS / 3]).pvalue > 0.001
    assert respelling("people") in {"peepel", "peaple"}


@pytest.mark.parametrize("word", ["their", "Their", "THEIR"])
def test_stopwords_are_spared_in_any_case(word: str) -> None:
    assert respelling(word).lower() == "there"
    assert respelling(word, spared=stopwords()) == word


@pytest.mark.parametrize("word", ["x2", "peo-ple", "", "!", "n't"])
def test_only_words_of_letters_are_respelt(word: str) -> None:
    assert respelling(word) == word


def test_every_character_that_has_look_alikes_is_an_independent_coin() -> None:
    rng = random.Random(3)
    look_alikes = LookAlikes(GLYPHS, even=False)
    words = [visual("be-e me", 0.3, rng, look_alikes=look_alikes) for _ in range(DRAWS)]
    changed = Counter(3 - word.count("e") for word in words)
    assert chisquare([changed[k] for k in range(4)], binom.pmf(range(4), 3, 0.3) * DRAWS).pvalue > 0.001
    found = [sum(word.startswith("be", 0) for word in words), sum("rn" in word for word in words)]
    spread = (DRAWS * 0.21) ** 0.5
    assert found == pytest.approx([0.7 * DRAWS, 0.3 * DRAWS], abs=4 * spread)


@pytest.mark.parametrize(("even", "weights"), [(False, (3, 2, 1)), (True, (2, 2, 2))], ids=["code", "paper"])
def test_look_alikes_go_by_weight_in_the_code_and_evenly_in_the_paper(even: bool, weights: tuple[int, ...]) -> None:
    rng = random.Random(4)
    look_alikes = LookAlikes(GLYPHS, even=even)
    counts = Counter(visual("e", 1.0, rng, look_alikes=look_alikes) for _ in range(DRAWS))
    expected = [weight / 6 * DRAWS for weight in weights]
    assert chisquare([counts[other] for other, _ in GLYPHS["e"]], expected).pvalue > 0.001


@given(st.text(max_size=12), SEEDS)
def test_characters_without_look_alikes_stay_in_their_places(word: str, seed: int) -> None:
    attacked = visual(word, 1.0, random.Random(seed), look_alikes=LookAlikes(GLYPHS, even=False))
    kept = [character for character in word if character not in "em"]
    assert [character for character in attacked if character not in "3éеrn"] == [  # noqa: RUF001
        character
        for character in kept
        if character not in "3éеrn"  # noqa: RUF001
    ]
    assert not set(attacked) & {"e", "m"}
