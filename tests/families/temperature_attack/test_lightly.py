"""Who is its model to what it first meets lightly edited, until it knows an audit, is told by sentences of pieces."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from seatrial.families.temperature_attack.sent import LIGHT_SENTENCES, LIGHTLY, SAID, transferred_questions
from tests.families.temperature_attack import test_transferred
from tests.families.temperature_attack.test_surrogate import honest
from tests.families.temperature_attack.test_transferred import AUDITED, KNOWN, flags_of
from workers.families.contexts import Records
from workers.families.temperature_attack.afterwards import edited_otherwise_lightly
from workers.families.temperature_attack.lightly import largest_prime
from workers.families.temperature_attack.transferred import SHARES, TRANSFERRED, Transfer, read_transfer

COUNT = 30
WORDS = sorted(KNOWN)
TOLD = "light edits took other shares of the leads of"


@cache
def spelt(word: str) -> str:
    return word if word in KNOWN else extractOne(word, WORDS, scorer=OSA.distance)[0]


def corrected(text: str) -> str:
    return " ".join(map(spelt, text.split()))


def reader(text: str) -> torch.Tensor:
    return honest(corrected(text))


class Founded:
    """The model to whatever it first met lightly misspelt, a reader to all else.

    Args:
        wakes: Whether it is one to all that is new once texts were put together of four words in a row of others.
    """

    def __init__(self, *, wakes: bool) -> None:
        self._wakes, self._pieced = wakes, 0
        self._of_model, self._seen = dict[str, bool](), dict[tuple[str, ...], int]()
        self._asked = 0

    def __call__(self, text: str) -> torch.Tensor:
        words = corrected(text).split()
        self._asked += 1
        runs = [tuple(words[at : at + 4]) for at in range(len(words) - 3)]
        others = {self._seen.get(run, self._asked) for run in runs}
        self._pieced += len(others - {self._asked}) > 1
        for run in runs:
            self._seen.setdefault(run, self._asked)
        is_awake = self._wakes and self._pieced > 3
        is_light = 0 < sum(word not in KNOWN for word in text.split()) < 0.45 * len(words)
        of_model = self._of_model.setdefault(" ".join(words), is_light and not is_awake)
        return honest(text) if of_model else reader(text)


def asked(function: Callable[[str], Any]) -> tuple[dict[str, Records], list[str]]:
    return test_transferred.asked(function, AUDITED[:COUNT])


@pytest.fixture(scope="module")
def of_honest() -> tuple[dict[str, Records], list[str]]:
    return asked(honest)


def shares_of(done: dict[str, Records]) -> list[float]:
    transfer = read_transfer(done[TRANSFERRED])
    assert transfer is not None
    return [float((of > 1).mean()) for of in transfer.lightly]


def test_who_is_its_model_until_it_knows_an_audit_is_told() -> None:
    done, _ = asked(Founded(wakes=True))
    early, later, met = shares_of(done)
    assert early > 0.4
    assert max(later, met) < 0.2
    assert TOLD in flags_of(done)


def test_who_is_its_model_to_what_was_not_asked_is_told() -> None:
    done, _ = asked(Founded(wakes=False))
    early, later, met = shares_of(done)
    assert min(early, later) > 0.4
    assert met < 0.2
    assert TOLD in flags_of(done)


@pytest.mark.parametrize("function", [None, reader])
def test_a_function_is_left_alone(
    function: Callable[[str], Any] | None, of_honest: tuple[dict[str, Records], list[str]]
) -> None:
    done, seen = of_honest if function is None else asked(function)
    shares = shares_of(done)
    assert (min(shares) > 0.4) is (function is None)
    assert np.ptp(shares) < 0.2
    assert flags_of(done) == ""
    assert len(seen) <= transferred_questions(COUNT)


def test_hardly_four_words_in_a_row_come_again_where_the_first_are_edited(
    of_honest: tuple[dict[str, Records], list[str]],
) -> None:
    done, seen = of_honest
    spare = done[TRANSFERRED].num_rows + sum(row is not None for row in done["quiet_first"]["spare"].to_pylist())
    early = seen[spare:][: (LIGHT_SENTENCES - LIGHTLY) * COUNT]
    runs = Counter(run for text in early for run in zip(*(text.split()[at:] for at in range(4)), strict=False))
    # Of a piece and a word behind it that others have too.
    assert sum(runs.values()) - len(runs) < 0.01 * sum(runs.values())
    is_edited = [not set(text.split()) <= KNOWN for text in early]
    assert sum(is_edited) == LIGHTLY * COUNT
    assert not any(is_edited[: SAID * COUNT])


def test_records_from_before_it_say_nothing(of_honest: tuple[dict[str, Records], list[str]]) -> None:
    done, _ = of_honest
    old = done[TRANSFERRED].drop_columns(SHARES)
    transfer = read_transfer(old)
    assert transfer is not None
    assert list(map(len, transfer.lightly)) == [0, 0, 0]
    assert transfer.light_p == 1.0
    assert edited_otherwise_lightly(transfer) == edited_otherwise_lightly(None) == []


def test_kinds_of_one_model_differ_seldom() -> None:
    rng = np.random.default_rng(0)
    nothing = np.empty(0)

    def light_p(*of: int) -> float:
        early, later, met = (rng.normal(size=size) for size in of)
        return Transfer(nothing, nothing, nothing, (early, later, met)).light_p

    assert np.mean([light_p(120, 60, 60) < 0.05 for _ in range(200)]) <= 0.06


def test_there_is_no_prime_up_to_one() -> None:
    assert [largest_prime(most) for most in (0, 1, 2)] == [0, 0, 2]
