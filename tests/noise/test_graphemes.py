"""No attacker tears a character apart that a reader sees as one."""

import random
from collections import Counter

import pytest

from seatrial.contracts.noise import Noise
from seatrial.noise.attackers import attack
from seatrial.noise.graphemes import graphemes, is_torn
from seatrial.noise.lexicons import Lexicons

ACCENTED = "de\u0301ja\u0300vue\u0301"
THAI = "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48\u0e01\u0e33\u0e25\u0e31\u0e07"
FAMILY = "a\U0001f468\u200d\U0001f469\u200d\U0001f467bcd"
ATTACKERS = ["full_shuffle", "inner_shuffle", "intrude", "disemvowel", "truncate", "keyboard_typo", "visual"]


def test_clusters_are_what_a_reader_sees() -> None:
    assert "".join(graphemes(ACCENTED)) == ACCENTED
    assert [len(cluster) for cluster in graphemes(ACCENTED)] == [1, 2, 1, 2, 1, 1, 2]
    assert [len(cluster) for cluster in graphemes(FAMILY)] == [1, 5, 1, 1, 1]
    assert graphemes("plain") == "plain"


@pytest.mark.parametrize("word", [ACCENTED, THAI, FAMILY])
@pytest.mark.parametrize("variant", ["code", "paper"])
@pytest.mark.parametrize("name", ATTACKERS)
def test_clusters_stay_whole_or_go(name: str, variant: str, word: str) -> None:
    attacker = attack(name, Noise(variant=variant), Lexicons(None))
    composed = Counter(cluster for cluster in graphemes(word) if len(cluster) > 1)
    changed = 0
    for seed in range(40):
        attacked = attacker(word, 0.5, random.Random(seed))
        changed += attacked != word
        found = Counter(cluster for cluster in graphemes(attacked) if len(cluster) > 1)
        assert not found - composed
        assert not is_torn(word, attacked)
        if name != "truncate":
            assert found == composed
    if word != THAI and not (name == "disemvowel" and word == ACCENTED):
        assert changed


@pytest.mark.parametrize(
    ("after", "torn"),
    [
        ("de\u0301ja", True),
        ("dja\u0300", False),
        ("de\u0301j", False),
        ("xe\u0301ja\u0300", False),
        ("e\u0301dja\u0300", False),
    ],
)
def test_what_tears_a_cluster(after: str, torn: bool) -> None:
    assert is_torn("de\u0301ja\u0300", after) == torn
