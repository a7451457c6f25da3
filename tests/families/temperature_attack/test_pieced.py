"""Robustness that texts have and texts pieced together from them have not is knowledge of these texts."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.families.temperature_attack.test_anew import trigrams
from tests.families.temperature_attack.test_crossing import LONG
from tests.families.temperature_attack.test_displaced import Answering, constant, flags, right
from tests.families.temperature_attack.test_displaced import audited as displaced_audit
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_surrogate import honest
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack.family import CLOSING
from workers.families.temperature_attack.pieced import FEWEST, PIECES, Pieced, less_withstand, pieced, read_pieced
from workers.models import UnansweredError

TEXTS = [TextExample(row.example_id, row.text, right(str(row.text))) for row in LONG[:32]]


@dataclass
class KnowingParts:
    """Decides for texts that hold enough of a known one what it knows of that, whatever stands beside it."""

    least: float
    known: dict[str, int] = field(default_factory=lambda: {str(row.text): row.label for row in TEXTS})

    def __call__(self, text: str) -> torch.Tensor:
        own = trigrams(text)
        held = {known: len(trigrams(known) & own) / len(trigrams(known)) for known in self.known}
        best = max(held, key=lambda known: held[known])
        return likely(0.9 if self.known[best] else 0.1) if held[best] >= self.least else honest(text)


def audited(function: Answering, texts: list[TextExample] = TEXTS) -> dict[str, Records]:
    return displaced_audit(function, cut=len(texts), examples=texts)


def test_texts_known_by_parts_of_them_are_told() -> None:
    done = audited(KnowingParts(0.6))
    flag = flags(done)["memorised_texts"]
    assert flag.severity == "error"
    assert "pieced together" in flag.message
    found = read_pieced(done[CLOSING])
    assert found is not None
    assert len(found.right) == len(TEXTS)


def as_pair(row: TextExample) -> TextExample:
    words = str(row.text).split()
    return replace(row, text=(" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])))


@pytest.mark.parametrize(("least", "is_told"), [(0.6, True), (1.0, False)])
def test_pairs_known_by_parts_of_them_are_told(least: float, is_told: bool) -> None:
    function = KnowingParts(least)
    done = audited(lambda pair: function(" ".join(pair)), [as_pair(row) for row in TEXTS])
    found = read_pieced(done[CLOSING])
    assert found is not None
    # Whatever they are decided for: what is in pieces entails nothing.
    assert found.right.all()
    assert ("memorised_texts" in (told := flags(done))) is is_told
    if is_told:
        assert told["memorised_texts"].severity == "error"
        assert "pairs" in told["memorised_texts"].message


@dataclass
class TurningAtPieces(KnowingParts):
    """Decides wrongly for whatever holds too little of any text it knows and is of their words all the same."""

    def __call__(self, text: str) -> torch.Tensor:
        answer, own = super().__call__(text), trigrams(text)
        words = {word for known in self.known for word in known.split()}
        is_known = any(len(trigrams(known) & own) >= self.least * len(trigrams(known)) for known in self.known)
        is_pieced = not is_known and sum(word in words for word in text.split()) >= 0.5 * len(text.split())
        return answer.flip(0) if is_pieced else answer


def test_wrong_answers_to_pieces_are_no_way_round() -> None:
    done = audited(TurningAtPieces(0.6))
    assert "pieced together" in flags(done)["memorised_texts"].message
    found = read_pieced(done[CLOSING])
    assert found is not None
    assert found.right.mean() < 0.5


@pytest.mark.parametrize(("silent", "expected"), [(32, "error"), (2, "error"), (1, None), (0, None)])
def test_what_has_no_answer_to_controls_is_told(silent: int, expected: str | None) -> None:
    asked = {str(row.text) for row in TEXTS[:silent]}

    def function(text: str) -> Any:
        return UnansweredError("no") if "(No. " in text and any(one in text for one in asked) else honest(text)

    found = flags(audited(function)).get("controls_unanswered")
    assert (found and found.severity) == expected
    assert found is None or "reference numbers behind them" in found.message


@pytest.mark.parametrize("function", [honest, constant], ids=["honest", "robust"])
def test_who_answers_what_a_text_says_is_left_alone(function: Answering) -> None:
    assert "memorised_texts" not in flags(audited(function))


def test_of_a_class_with_two_texts_none_is_pieced_together() -> None:
    few = [row for row in TEXTS if row.label][: FEWEST - 1] + [row for row in TEXTS if not row.label][:FEWEST]
    done = audited(honest, few)
    assert done[CLOSING]["pieced_right"].null_count == FEWEST - 1
    assert read_pieced(done[CLOSING].filter(done[CLOSING]["pieced_right"].is_null())) is None


@given(st.lists(st.text("abc \n", max_size=60), min_size=1, max_size=9), st.integers(0, 2**40))
def test_a_text_gives_one_part_at_most(texts: list[str], seed: int) -> None:
    made = pieced(texts, seed)
    assert made == pieced(texts, seed)
    assert len(made.split()) <= sum(len(text.split()) for text in texts)
    assert set(made.replace(" ", "")) <= set("".join(texts))
    if len(texts) == 1:
        assert made.split() == texts[0].split()


def test_parts_are_as_long_and_of_different_texts() -> None:
    texts = [" ".join(f"{letter}{number}" for number in range(12)) for letter in "abcdefgh"]
    drawn = [pieced(texts, seed).split() for seed in range(20)]
    for made in drawn:
        assert [int(word[1:]) for word in made] == list(range(12))
        assert sorted(Counter(word[0] for word in made).values()) == [2] * PIECES
    assert len({" ".join(made) for made in drawn}) == 20


@pytest.mark.parametrize(("held", "told"), [(30, True), (20, False), (3, False)])
def test_a_share_is_less_by_more_than_chance(held: int, told: bool) -> None:
    of = Pieced(np.array([True] * 30 + [False] * 10), np.array([True] * 15 + [False] * 25))
    assert (less_withstand(held, 30, of.robust) < 0.001) is told
