import random
from collections import Counter
from itertools import accumulate, permutations

import pytest
from scipy.stats import chisquare

from seatrial.noise.draws import by_weight, one_of, shuffled


class Scripted(random.Random):
    """Gives the draws it was given, whatever else a generator may be asked for."""

    def __init__(self, *draws: float) -> None:
        super().__init__(0)
        self._draws = list(draws)

    def random(self) -> float:
        return self._draws.pop(0)

    def getrandbits(self, k: int, /) -> int:
        raise AssertionError("only random() keeps its stream between versions of Python")


LARGEST = 1 - 2**-53


def test_every_order_is_as_likely() -> None:
    rng = random.Random(1)
    counts = Counter("".join(shuffled("abcd", rng)) for _ in range(24_000))
    assert chisquare([counts["".join(order)] for order in permutations("abcd")]).pvalue > 0.001


def test_every_item_is_as_likely() -> None:
    rng = random.Random(2)
    counts = Counter(one_of("abcde", rng) for _ in range(10_000))
    assert chisquare([counts[letter] for letter in "abcde"]).pvalue > 0.001


def test_items_are_drawn_by_their_weights() -> None:
    rng = random.Random(3)
    weights = [1.0, 0.0, 2.5, 0.5]
    counts = Counter(by_weight("abcd", list(accumulate(weights)), rng) for _ in range(10_000))
    assert counts["b"] == 0
    expected = [weight / 4 * 10_000 for weight in (1.0, 2.5, 0.5)]
    assert chisquare([counts[letter] for letter in "acd"], expected).pvalue > 0.001


@pytest.mark.parametrize("items", [1, 2, 3, 5, 7, 1000, 10**6 + 1])
def test_the_largest_draw_gives_the_last_item(items: int) -> None:
    assert one_of(range(items), Scripted(LARGEST)) == items - 1
    assert by_weight(range(items), [0.1 * (place + 1) for place in range(items)], Scripted(LARGEST)) == items - 1


def test_a_shuffle_draws_once_less_than_there_are_items_and_nothing_but_random() -> None:
    assert shuffled("abc", Scripted(LARGEST, LARGEST)) == ["a", "b", "c"]
    assert shuffled("abc", Scripted(0.0, 0.0)) == ["b", "c", "a"]
    assert shuffled("a", Scripted()) == ["a"]
    assert shuffled("", Scripted()) == []
