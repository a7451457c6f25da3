import random
import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from seatrial.noise.segmentation import segment

SEEDS = st.integers(0, 2**32)
TEXTS = st.text(st.sampled_from("ab.\t\n  \u00a0é"), max_size=30)
LEVELS = [0.2, 0.5, 0.8]
LONG = " ".join(["sea"] * 40_001)


def merges_of_chunks(text: str) -> list[int]:
    """Return how often each chunk of a text of seas was merged, the last left out: its end cut it off."""
    return [len(chunk) // 3 - 1 for chunk in text.split(" ")][:-1]


@given(TEXTS, st.sampled_from([0.2, 1.0]), SEEDS, st.booleans())
def test_only_white_space_between_words_goes(text: str, level: float, seed: int, fades: bool) -> None:
    found = segment(text, level, random.Random(seed), phi=level, fades=fades)
    assert "".join(found.text.split()) == "".join(text.split())
    assert found.words == len(text.split())
    assert found.merged == found.words - len(found.text.split())
    start, end = re.match(r"\s*", text), re.search(r"\s*\Z", text)
    assert start is not None
    assert end is not None
    assert found.text.startswith(start[0])
    assert found.text.endswith(end[0])
    if level == 1:
        assert len(found.text.split()) == min(1, found.words)


@given(TEXTS, SEEDS)
def test_runs_of_white_space_that_stay_stay_as_they_are(text: str, seed: int) -> None:
    found = segment(text, 0.5, random.Random(seed), phi=0.5, fades=False)
    runs = iter(re.findall(r"\s+", text))
    assert all(run in runs for run in re.findall(r"\s+", found.text))


@given(TEXTS, SEEDS, st.booleans())
def test_nothing_goes_at_level_0(text: str, seed: int, fades: bool) -> None:
    assert segment(text, 0.0, random.Random(seed), phi=0.0, fades=fades) == (text, len(text.split()), 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("words", [2, 12])
def test_the_code_leaves_as_many_words_as_the_law_says(level: float, words: int) -> None:
    rng = random.Random(1)
    draws = 4_000
    text = " ".join(["sea"] * words)
    left = [len(segment(text, level, rng, phi=level, fades=False).text.split()) for _ in range(draws)]
    error = ((words - 1) * level * (1 - level) / draws) ** 0.5
    assert sum(left) / draws == pytest.approx(words - (words - 1) * level, abs=4 * error)


@pytest.mark.parametrize("level", LEVELS)
def test_merges_of_a_chunk_are_geometric_in_the_code(level: float) -> None:
    chunks = merges_of_chunks(segment(LONG, level, random.Random(2), phi=level, fades=False).text)
    counts = Counter(min(merges, 6) for merges in chunks)
    expected = [len(chunks) * level**k * (1 - level) for k in range(6)] + [len(chunks) * level**6]
    found = [counts[k] for k in range(7)]
    # At 0.2 the longest are too few to tell apart.
    assert chisquare([*found[:4], sum(found[4:])], [*expected[:4], sum(expected[4:])]).pvalue > 0.001


@pytest.mark.parametrize("level", LEVELS)
def test_a_chunk_of_the_paper_has_k_merges_with_the_product_of_the_powers(level: float) -> None:
    chunks = merges_of_chunks(segment(LONG, level, random.Random(3), phi=level, fades=True).text)
    for k in range(1, 7):
        law = level ** (k * (k + 1) / 2)
        found = sum(merges >= k for merges in chunks) / len(chunks)
        assert found == pytest.approx(law, abs=4 * (law * (1 - law) / len(chunks)) ** 0.5 + 1 / len(chunks))


@pytest.mark.parametrize("fades", [False, True], ids=["code", "paper"])
def test_phi_apart_from_the_level_is_of_further_merges(fades: bool) -> None:
    level, phi = 0.7, 0.5
    chunks = merges_of_chunks(segment(LONG, level, random.Random(4), phi=phi, fades=fades).text)
    steps = [level, *(phi**k if fades else phi for k in (2, 3))]
    for k, chance in enumerate(steps):
        reached = [merges for merges in chunks if merges >= k]
        further = sum(merges > k for merges in reached) / len(reached)
        assert further == pytest.approx(chance, abs=4 * (chance * (1 - chance) / len(reached)) ** 0.5)


@pytest.mark.parametrize("fades", [False, True], ids=["code", "paper"])
def test_every_way_to_join_four_words_has_its_probability(fades: bool) -> None:
    rng = random.Random(5)
    draws, phi = 20_000, 0.6
    counts = Counter(segment("a b c d", phi, rng, phi=phi, fades=fades).text for _ in range(draws))
    expected = {}
    for joins in product([False, True], repeat=3):
        text, share, merges = "a", 1.0, 0
        for letter, join in zip("bcd", joins, strict=True):
            chance = phi ** (merges + 1) if fades else phi
            share *= chance if join else 1 - chance
            merges = merges + 1 if join else 0
            text += letter if join else f" {letter}"
        expected[text] = draws * share
    assert sum(expected.values()) == pytest.approx(draws)
    assert chisquare([counts[text] for text in expected], list(expected.values())).pvalue > 0.001


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "word", " word\n"])
def test_texts_of_one_word_or_none_stay(text: str) -> None:
    assert segment(text, 1.0, random.Random(0), phi=1.0, fades=False) == (text, len(text.split()), 0)
