import random
from collections import Counter
from itertools import permutations

import pytest
from scipy.stats import binom, chisquare

from seatrial.noise.selection import attempts


def test_the_code_goes_through_all_places_in_an_order_drawn_uniformly() -> None:
    rng = random.Random(1)
    counts = Counter(tuple(attempts(4, 0.2, rng, how="code")) for _ in range(24_000))
    assert chisquare([counts[order] for order in permutations(range(4))]).pvalue > 0.001


def test_the_paper_throws_a_coin_for_each_place() -> None:
    rng = random.Random(2)
    drawn = [attempts(5, 0.3, rng, how="paper") for _ in range(20_000)]
    counts = Counter(map(len, drawn))
    assert chisquare([counts[k] for k in range(6)], binom.pmf(range(6), 5, 0.3) * 20_000).pvalue > 0.001
    first = Counter(places[0] for places in drawn if places)
    assert chisquare([first[place] for place in range(5)]).pvalue > 0.001
    assert all(len(set(places)) == len(places) for places in drawn)


@pytest.mark.parametrize("words", [0, 1])
def test_texts_of_one_word_or_none(words: int) -> None:
    assert attempts(words, 1.0, random.Random(0), how="code") == list(range(words))
    assert attempts(words, 1.0, random.Random(0), how="paper") == list(range(words))
