"""Decisions that cling to what was decided first, and answers that wake up late; and functions, which do neither."""

import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from scipy.stats import binom

from seatrial.contracts.estimates import Flag
from tests.families.temperature_attack.fabricated import records
from tests.families.temperature_attack.test_probe import PARAMS, SAMPLE, Cache, Context, likely
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.crossing import Crossing, clinging, crossing_order, grown
from workers.families.temperature_attack.probe import run_probe
from workers.families.temperature_attack.score_flags import _clings

LONG = [
    replace(example, text=f"{example.text} {other.text}")
    for example, other in zip(SAMPLE, SAMPLE[1:] + SAMPLE[:1], strict=True)
]
"""Of some twenty words, as reviews are: each has a path of its own to another decision."""


def confidence(text: str) -> float:
    """Return a score to which every word, as it is written, adds a number of its own."""
    return 1 / (1 + math.exp(-sum(zlib.crc32(word.encode()) / 2**31 - 1 for word in text.split())))


def honest(text: str) -> torch.Tensor:
    return likely(confidence(text))


class Sticky:
    """Keeps the decision of similar texts asked before, with a confidence of its own."""

    def __init__(self, edits: int) -> None:
        self._edits = edits
        self._said: dict[str, bool] = {}

    def __call__(self, text: str) -> torch.Tensor:
        chance = confidence(text)
        near = (side for before, side in reversed(self._said.items()) if self._is_near(text, before))
        side = self._said.setdefault(text, next(near, chance > 0.5))
        return likely(max(chance, 1 - chance) if side else min(chance, 1 - chance))

    def _is_near(self, text: str, before: str) -> bool:
        return Levenshtein.distance(text, before, score_cutoff=self._edits) <= self._edits


class Waking:
    """Is a function until it has been asked often enough."""

    def __init__(self, later: Callable[[str], torch.Tensor], questions: int) -> None:
        self._later, self._questions = later, questions

    def __call__(self, text: str) -> torch.Tensor:
        self._questions -= 1
        return honest(text) if self._questions >= 0 else self._later(text)


def flags(function: Callable[[str], torch.Tensor], attacks: int = 0) -> dict[str, Flag]:
    """Return the flags after a probe, questions near every text as an attack has them, and another probe."""
    context = Context(function)
    opening = run_probe(context, LONG)
    for example in LONG:
        context.scoring().ask_anew(
            [example.text, *(f"{example.text[:at]}{example.text[at + 1 :]}" for at in range(attacks))]
        )
    closing = run_probe(context, LONG, "closing")
    done = records(PARAMS, label_only=0.5) | {"probe": opening, "closing": closing}
    return {flag.code: flag for flag in estimates.reduce(PARAMS, done, 0).flags}


@pytest.mark.parametrize("edits", [1, 3])
def test_decisions_of_similar_texts_asked_before_are_seen_though_scores_move(edits: int) -> None:
    flag = flags(Sticky(edits))["answers_depend_on_history"]
    assert flag.severity == "error"
    assert "persists for longer" in flag.message
    assert "one answer on average" not in flag.message


@pytest.mark.parametrize(
    ("later", "cause"),
    [
        (Cache(4), "fewer one-letter edits move a score"),
        (Sticky(6), "persists for longer"),
        (Sticky(25), "changed the decision on"),
    ],
)
def test_what_wakes_up_after_the_first_probe_is_seen_by_the_last(
    later: Callable[[str], torch.Tensor], cause: str
) -> None:
    found = flags(Waking(later, 64 * 40), attacks=12)
    assert cause in found["answers_depend_on_history"].message


def test_a_function_is_left_alone_however_often_it_is_asked() -> None:
    assert "answers_depend_on_history" not in flags(honest, attacks=12)
    assert "answers_depend_on_history" not in flags(lambda text: likely(round(confidence(text), 2)))


def test_a_path_is_asked_ends_first_and_every_text_once() -> None:
    for steps in range(1, 9):
        for from_start in (True, False):
            order = crossing_order(steps, from_start=from_start)
            assert sorted(order) == list(range(steps))
            assert set(order[:2]) == {0, steps - 1}
            assert order[0] == (0 if from_start else steps - 1)


def test_the_p_of_clinging_is_the_binomials_and_functions_seldom_reach_it() -> None:
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(300):
        crossings = []
        for _ in range(40):
            turn, steps = rng.integers(1, 16), 16
            answers = np.array([[0.0, -1.0] if step < turn else [-1.0, 0.0] for step in range(steps)])
            crossings.append(Crossing(answers, bool(rng.integers(2))))
        longer, shorter, p = clinging(crossings)
        assert p == pytest.approx(binom.sf(longer - 1, longer + shorter, 0.5))
        reached += p < 0.05
    assert reached <= binom.ppf(0.999, 300, 0.05)
    # Paths that are decided alike say nothing.
    assert clinging([Crossing(np.zeros((5, 2)), from_start=True)]) == (0, 0, 1.0)


def test_paths_of_both_probes_are_looked_at_together() -> None:
    def of(longer: int, shorter: int) -> Any:
        steps = {True: 12, False: 4}
        answers = {long: np.array([[0.0, -1.0]] * turn + [[-1.0, 0.0]] * (16 - turn)) for long, turn in steps.items()}
        crossings = [Crossing(answers[at < longer], from_start=True) for at in range(longer + shorter)]
        return SimpleNamespace(crossings=dict(enumerate(crossings)))

    # By themselves p of .011, together of 2e-4; and as many of either.
    assert not _clings(of(9, 1))
    (told,) = _clings(of(9, 1), of(9, 1))
    assert "longer on 18 paths of edits and the other's on 2, from whichever end (p = 0.0002)" in told
    assert not _clings(of(9, 1), of(1, 9))


def test_growth_compares_the_same_examples() -> None:
    assert grown({1: 0.0, 2: 0.0, 3: 0.5, 9: 0.0}, {1: 1.0, 2: 1.0, 3: 0.5, 4: 1.0}) == (2, 0, 0.25)
    assert grown({}, {}) == (0, 0, 1.0)
