import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.certification.instances import random_instance
from workers.certification import partial_sums
from workers.certification.partial_sums import least_sums, resampled_ks, worst_ks, worst_kuiper

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


def best_of_all_ranges(side):
    """Return the largest sum of any range, every pair of cuts tried."""
    cuts = range(2 * len(side.values))
    return max(side.terms(low, high).sum() for low in cuts for high in cuts if low < high)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([6, 7.3]),
)
def test_the_best_range_is_the_best_of_all_ranges(given_ends, largest) -> None:
    """Ends on a grid, so that many are equal; most right, most wrong, points, and intervals within each other."""
    ends = np.array([sorted(one[:2]) for one in given_ends]) / largest
    correct = np.array([one[2] for one in given_ends])
    for side in partial_sums._sides(ends[:, 0], ends[:, 1], correct):
        low, high = partial_sums._best_range(side)
        assert low < high
        assert max(0.0, side.terms(low, high).sum()) == pytest.approx(max(0.0, best_of_all_ranges(side)), abs=1e-12)


def test_the_best_range_is_what_trying_every_end_in_turn_finds() -> None:
    """Of drawn ends, no two alike: the same examples in it, so that the value is the same to the last bit."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        lower, upper, _, correct = random_instance(rng, int(rng.integers(1, 300)), 5)
        for side in partial_sums._sides(lower, upper, correct):
            found, tried = side.terms(*partial_sums._best_range(side)), side.terms(*best_by_turns(side))
            assert found.tolist() == tried.tolist() or max(found.sum(), tried.sum()) <= 0


def best_by_turns(side):
    """Return the best range by a sum for every beginning, kept up to date end by end: O(n^2)."""
    many, cut, wrong = 2 * len(side.values), np.repeat(side.values, 2), ~side.correct

    def below(at, amount):
        return np.cumsum(np.bincount(2 * at + 1, weights=amount, minlength=many), dtype=np.float64)

    one = np.ones(int(wrong.sum()))
    ended = below(side.end[wrong], side.upper[wrong])
    gained = ended + cut * (below(side.start[wrong], one) - below(side.end[wrong], one))
    lost = ended.copy()
    order = np.flatnonzero(side.correct)
    order = order[np.argsort(side.end[order], kind="stable")]
    caught, best, where = 0, 0.0, (0, 1)
    for high in range(1, many):
        while caught < len(order) and 2 * side.end[order[caught]] < high:
            one_caught = order[caught]
            lost[: 2 * side.start[one_caught] + 1] += 1 - side.upper[one_caught]
            caught += 1
        low = int(lost[:high].argmin())
        if gained[high] - lost[low] > best:
            best, where = float(gained[high] - lost[low]), (low, high)
    return where


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=12), st.lists(st.integers(0, 9), min_size=6))
def test_least_sums_are_those_of_every_place_in_turn(coming, base) -> None:
    sums, expected = np.array(base, dtype=np.float64), [float(min(base))]
    for place, amount in coming:
        sums[: place + 1] += amount
        expected.append(float(sums.min()))
    places, amounts = (np.array([one[at] for one in coming], dtype=np.int64) for at in (0, 1))
    assert least_sums(np.array(base, dtype=np.float64), places, amounts).tolist() == expected


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
