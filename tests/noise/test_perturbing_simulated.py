"""Perturbed texts are distributed as a naive program makes them."""

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
from scipy.stats import chi2_contingency

from tests.noise.test_perturbing import perturber


def naive(words: list[str], level: float, rng: random.Random, attack: Callable[[str], str], coin: bool) -> str:
    """Section 3.1 and the released program as they read, on a list of words."""
    words, left, changed = list(words), list(range(len(words))), 0
    while left and changed < level * len(words):
        at = left.pop(rng.randrange(len(left)))
        if not coin or rng.random() < level:
            attacked = attack(words[at])
            changed += attacked != words[at]
            words[at] = attacked
    return " ".join(words)


def another_order(word: str, rng: random.Random) -> str:
    mixed = word
    while len(word) > 2 and mixed == word:
        mixed = "".join(rng.sample(word, len(word)))
    return mixed


def struck(word: str, rng: random.Random) -> str:
    at = rng.randrange(2)
    beside = {"o": "i90p;lk", "p": "o0-[';l"}.get(word[at], word[at])
    return word[:at] + rng.choice(beside) + word[at + 1 :]


@pytest.mark.parametrize("selection", ["code", "paper"])
@pytest.mark.parametrize(
    ("name", "words", "attack"),
    [
        ("truncate", ["ships", "saw", "a", "great"], lambda word, _: word[:-1] if len(word) > 3 else word),
        ("disemvowel", ["ships", "saw", "eau", "a"], lambda word, _: re.sub("[aeiou]", "", word) or word),
        ("full_shuffle", ["abc", "no", "def"], another_order),
        ("keyboard_typo", ["op", "IT"], struck),
    ],
    ids=["truncate", "disemvowel", "full_shuffle", "keyboard_typo"],
)
def test_texts_are_distributed_as_a_naive_program_makes_them(name: str, words: list[str], attack, selection) -> None:
    ours, theirs, draws = random.Random(3), random.Random(4), 6_000
    attacker = perturber(name, selection=selection)
    found = Counter(attacker.perturb(" ".join(words), 0.6, ours).text for _ in range(draws))
    expected = Counter(
        naive(words, 0.6, theirs, lambda word: attack(word, theirs), selection == "paper") for _ in range(draws)
    )
    outcomes = sorted(found | expected)
    assert chi2_contingency([[found[o] for o in outcomes], [expected[o] for o in outcomes]]).pvalue > 0.001
