"""Ranks of models, and the places comparisons of every two leave open."""

import numpy as np
import pytest

from app.leaderboards.ranking import Entry, Place, difference, places
from seatrial.contracts.estimates import Estimate
from seatrial.families.shared.per_example import Values
from tests.gates.audits import check, mean, share

ACCURACY = "uncertainty_span.clean_accuracy"


def entry(right: np.ndarray, *, is_kept: bool = True) -> Entry:
    estimate = share(int(right.sum()), len(right))
    values = Values(np.arange(len(right)), right.astype(np.float64)) if is_kept else None
    return Entry(estimate, check({"clean_accuracy": estimate}), values)


def drawn(*rates: float, n: int = 400, seed: int = 0) -> list[np.ndarray]:
    """Right answers of models that find the same examples hard."""
    hardness = np.random.default_rng(seed).random(n)
    return [hardness < rate for rate in rates]


def test_models_compared_example_by_example_have_their_places() -> None:
    entries = [entry(right) for right in drawn(0.9, 0.95, 0.8)]
    assert places(ACCURACY, entries, "higher") == [Place(2, 2, 2), Place(1, 1, 1), Place(3, 3, 3)]


def test_without_the_records_intervals_leave_more_places_open() -> None:
    kept, lost = ([entry(right, is_kept=is_kept) for right in drawn(0.9, 0.93, 0.5)] for is_kept in (True, False))
    assert places(ACCURACY, kept, "higher") == [Place(2, 2, 2), Place(1, 1, 1), Place(3, 3, 3)]
    assert places(ACCURACY, lost, "higher") == [Place(2, 1, 2), Place(1, 1, 2), Place(3, 3, 3)]
    assert "records are missing" in difference(ACCURACY, lost[0], lost[1]).why


def test_lower_is_better_turns_the_order_and_neither_has_none() -> None:
    spans = [mean(0.2, 0.15, 0.25), mean(0.9, 0.8, 1.0), mean(0.2, 0.15, 0.25)]
    entries = [Entry(one, check({"mus": one}), None) for one in spans]
    assert places("uncertainty_span.mus", entries, "lower") == [Place(1, 1, 2), Place(3, 3, 3), Place(1, 1, 2)]
    assert places("uncertainty_span.mus", entries, "neither") is None


def test_a_difference_is_of_the_first_less_the_second() -> None:
    better, worse = (entry(right) for right in drawn(0.95, 0.8))
    judged = difference(ACCURACY, better, worse).judged
    assert judged.value == pytest.approx(better.estimate.value - worse.estimate.value)  # type: ignore[operator]
    assert judged.low is not None
    assert 0 < judged.low < judged.value  # type: ignore[operator]


def test_ranks_of_models_that_are_alike_are_seldom_decided() -> None:
    """Bonferroni: of eight equal models at most one run in twenty leaves somebody's true place out."""
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        entries = [entry(rng.random(200) < 0.8) for _ in range(8)]
        found = places(ACCURACY, entries, "higher")
        assert found is not None
        wrong += found[0].low > 1 or found[0].high < 8
    assert wrong <= 8


def test_one_model_is_the_first_and_undefined_intervals_decide_nothing() -> None:
    (alone,) = places(ACCURACY, [entry(drawn(0.5)[0])], "higher") or []
    assert alone == Place(1, 1, 1)
    open_ended = [Entry(Estimate(value=v, low=None, high=None, n=9, method="none"), check({}), None) for v in (0.1, 2)]
    assert places("uncertainty_span.mus", open_ended, "lower") == [Place(1, 1, 2), Place(2, 1, 2)]
