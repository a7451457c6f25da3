import itertools

import numpy as np
import pytest

from tests.certification.instances import random_instance
from workers.certification.partial_sums import resampled_ks, worst_ks, worst_kuiper

NEAR = 1e-7


def steps(values, correct):
    """Return the sums of z - c up to every value, from 0 on."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum((values - correct)[order])
    return np.append(0.0, sums[np.append(np.diff(values[order]) > 0, True)]) / len(values)


def ks(values, correct):
    return np.abs(steps(values, correct)).max()


def kuiper(values, correct):
    sums = steps(values, correct)
    return sums.max() - sums.min()


def small_instance(rng):
    n = int(rng.integers(1, 5))
    lower, upper, _, correct = random_instance(rng, n, 5, width=float(rng.choice([0.3, 1.0])))
    return np.round(lower, 2), np.round(upper, 2), correct


def near_ends(lower, upper):
    """Return every choice (m, n) of each example's confidence at, just below or just above an end of any."""
    ends = np.unique(np.concatenate([lower, upper]))
    every = np.unique(np.concatenate([ends, ends - NEAR, ends + NEAR]))
    return itertools.product(*(every[(every >= low) & (every <= high)] for low, high in zip(lower, upper, strict=True)))


@pytest.mark.parametrize(("worst", "error"), [(worst_ks, ks), (worst_kuiper, kuiper)], ids=["KS", "Kuiper"])
def test_agrees_with_every_choice_near_the_ends(worst, error) -> None:
    rng, tried = np.random.default_rng(1), 0
    while tried < 300:
        lower, upper, correct = small_instance(rng)
        choices = np.array(list(itertools.islice(near_ends(lower, upper), 1501)))
        if len(choices) > 1500:
            continue
        tried += 1
        expected = max(error(values, correct) for values in choices)
        found = worst(lower, upper, correct)
        assert found.value == pytest.approx(expected, abs=1e-5)
        assert found.terms.mean() == pytest.approx(found.value)


@pytest.mark.parametrize(("worst", "error"), [(worst_ks, ks), (worst_kuiper, kuiper)], ids=["KS", "Kuiper"])
def test_no_confidences_within_the_intervals_have_more(worst, error) -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        lower, upper, clean, correct = random_instance(rng, int(rng.integers(1, 60)), 5)
        value = worst(lower, upper, correct).value
        for values in [clean, lower, upper, *(lower + (upper - lower) * rng.random((20, len(lower))))]:
            assert error(values, correct) <= value + 1e-12


def test_points_have_their_own_error() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        _, _, values, correct = random_instance(rng, 40, 5)
        assert worst_ks(values, values, correct).value == pytest.approx(ks(values, correct))
        assert worst_kuiper(values, values, correct).value == pytest.approx(kuiper(values, correct))


def test_kuiper_is_between_ks_and_twice_it_and_both_grow_with_the_intervals() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        lower, upper, _, correct = random_instance(rng, 50, 5)
        once, ranges = worst_ks(lower, upper, correct).value, worst_kuiper(lower, upper, correct).value
        assert once <= ranges + 1e-12 <= 2 * once + 2e-12
        assert worst_ks(lower * 0.9, upper, correct).value >= once - 1e-12
        assert worst_kuiper(lower * 0.9, upper, correct).value >= ranges - 1e-12


def test_resampled_ks_is_that_of_the_sample_drawn() -> None:
    rng = np.random.default_rng(5)
    lower, upper, _, correct = random_instance(rng, 30, 5)
    drawn = rng.integers(0, 30, (50, 30))
    weights = np.stack([np.bincount(one, minlength=30) for one in drawn])
    expected = [worst_ks(lower[one], upper[one], correct[one]).value for one in drawn]
    assert resampled_ks(lower, upper, correct, weights).tolist() == pytest.approx(expected)


def test_nobody_has_no_error() -> None:
    assert worst_ks([], [], []).value is None
    assert worst_kuiper([], [], []).value is None
    assert np.isnan(resampled_ks([], [], [], np.ones((2, 0)))).all()
