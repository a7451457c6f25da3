"""Means and ratios with an example not seen: against the beta distribution, drawn weights, and by their laws."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from seatrial.statistics.bounded import chance_above_zero, mean_interval, ratio_interval, typical_size
from seatrial.statistics.exact import clopper_pearson

SHARES = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=40)
LEVELS = st.sampled_from([0.5, 0.1, 0.05, 0.01, 0.001])


@pytest.mark.parametrize("n", [1, 5, 50, 1000])
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.001])
def test_of_zeros_and_ones_it_is_clopper_and_pearson_s_or_a_little_wider(n: int, alpha: float) -> None:
    for hits in sorted({0, 1, n // 3, n - 1, n}):
        found = mean_interval(np.arange(n) < hits, 0, 1, alpha=alpha)
        exact = clopper_pearson(hits, n, alpha=alpha)
        # The level each end has is the asked one but for the approximation of a tail.
        tails = beta.cdf(found[0], hits, n - hits + 1) if hits else 0, beta.sf(found[1], hits + 1, n - hits)
        for tail, end, wanted in zip(tails, found, exact, strict=True):
            assert end == wanted if wanted in (0, 1) else 0.88 * alpha / 2 <= tail <= 1.001 * alpha / 2


@pytest.mark.parametrize("power", [0.2, 1, 4])
def test_its_ends_are_those_of_drawn_weights(power: float) -> None:
    rng = np.random.default_rng(0)
    values = rng.random(30) ** power
    found = mean_interval(values, -0.5, 1.5, alpha=0.1)
    weights = rng.standard_exponential((60_000, 31))
    below, above = (weights @ np.append(values, end) / weights.sum(axis=1) for end in (-0.5, 1.5))
    assert (below < found[0]).mean() == pytest.approx(0.05, abs=0.004)
    assert (above > found[1]).mean() == pytest.approx(0.05, abs=0.004)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_the_chance_of_a_sum_and_of_its_opposite_add_up(values: list[float]) -> None:
    assume(max(values) > 1e-6 and min(values) < -1e-6)
    found = chance_above_zero(values) + chance_above_zero([-one for one in values])
    assert found == pytest.approx(1, abs=1e-6)


@given(SHARES, LEVELS)
def test_an_interval_holds_the_mean_and_stays_in_the_range(values: list[float], alpha: float) -> None:
    low, high = mean_interval(values, 0, 1, alpha=alpha)
    assert 0 <= low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= high <= 1


@given(SHARES, LEVELS, LEVELS)
def test_a_surer_interval_is_no_narrower(values: list[float], one: float, other: float) -> None:
    narrow, wide = (mean_interval(values, 0, 1, alpha=alpha) for alpha in (max(one, other), min(one, other)))
    assert wide[0] <= narrow[0] + 1e-9
    assert narrow[1] <= wide[1] + 1e-9


@given(SHARES, st.data())
def test_a_value_that_rises_raises_both_ends(values: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    higher = [*values]
    higher[at] = data.draw(st.floats(values[at], 1))
    before, after = mean_interval(values, 0, 1), mean_interval(higher, 0, 1)
    assert before[0] <= after[0] + 1e-7
    assert before[1] <= after[1] + 1e-7


@given(SHARES, st.floats(0, 1), st.floats(0, 1))
def test_a_wider_range_gives_no_narrower_interval(values: list[float], below: float, above: float) -> None:
    near, far = mean_interval(values, 0, 1), mean_interval(values, -below, 1 + above)
    assert far[0] <= near[0] + 1e-7
    assert near[1] <= far[1] + 1e-7


@given(SHARES, st.floats(-5, 5), st.floats(0.01, 100))
def test_units_do_not_matter(values: list[float], shift: float, scale: float) -> None:
    ends = np.array(mean_interval(values, 0, 1))
    moved = mean_interval(shift + scale * np.array(values), shift, shift + scale)
    assert moved == pytest.approx(shift + scale * ends, abs=1e-6 * scale)


def test_all_alike_leaves_room_for_what_was_not_seen() -> None:
    low, high = mean_interval(np.full(100, 0.25), 0, 1)
    missed = 1 - 0.025**0.01
    assert (low, high) == pytest.approx((0.25 * (1 - missed), 0.25 + 0.75 * missed), rel=5e-3)


def test_a_ratio_of_ones_is_a_mean_and_one_of_equal_sizes_too() -> None:
    values = np.random.default_rng(1).random(40)
    mean = mean_interval(values, 0, 1)
    for size in (1.0, 7.0):
        found = ratio_interval(size * values, np.full(40, size), (0, size), (size, size))
        assert found == pytest.approx(mean, abs=1e-8)


def test_a_ratio_without_an_upper_end_of_its_range_has_an_end_all_the_same() -> None:
    # Nine of ten texts kept: one more may have been right under noise alone.
    low, high = ratio_interval([1.0] * 9 + [0.0], [1.0] * 10, (0, 1), (1, 0)) or (0, 0)
    assert low == pytest.approx(clopper_pearson(9, 10)[0], rel=0.01)
    assert 1 < high < 2
    assert ratio_interval([1.0, 1.0], [0.0, 0.0], (0, 1), (1, 0)) is None


def test_a_ratio_is_where_the_mean_of_its_differences_turns() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 20, 60).astype(float)
    hits = rng.binomial(sizes.astype(int), 0.9).astype(float)
    size = typical_size(sizes)
    low, high = ratio_interval(hits, sizes, (0, size), (size, size)) or (0, 0)
    assert chance_above_zero(np.append(hits - high * sizes, size - high * size)) == pytest.approx(0.025, abs=1e-6)
    assert chance_above_zero(np.append(low * sizes - hits, low * size)) == pytest.approx(0.025, abs=1e-6)


@pytest.mark.parametrize(
    "sample",
    [([], [], 0.05), ([1.0], [1.0, 1.0], 0.05), ([np.nan], [1.0], 0.05), ([1.0], [-1.0], 0.05), ([1.0], [1.0], 0)],
)
def test_what_is_no_sample_is_refused(sample) -> None:
    values, sizes, alpha = sample
    if not values:
        with pytest.raises(ValueError, match="value"):
            mean_interval(values, 0, 1)
        return
    with pytest.raises(ValueError, match=r"sample|finite"):
        ratio_interval(values, sizes, (0, 1), (1, 1), alpha=alpha)


POPULATIONS = {
    "even": (lambda rng, size: rng.random(size), 0.5),
    "lopsided": (lambda rng, size: rng.beta(0.3, 3, size), 0.3 / 3.3),
    "rare and wide": (lambda rng, size: np.where(rng.random(size) < 0.02, 0.99, 0.01), 0.0296),
}


@pytest.mark.parametrize("population", POPULATIONS)
def test_its_ends_are_wrong_no_more_often_than_they_may_be(population: str) -> None:
    """A few hundred samples; ``benchmarks/coverage.py`` draws thousands of every metric."""
    draw, truth = POPULATIONS[population]
    rng, times = np.random.default_rng(5), 300
    ends = np.array([mean_interval(draw(rng, 50), 0, 1) for _ in range(times)])
    most = binom.ppf(0.999, times, 0.025)
    assert (ends[:, 0] > truth).sum() <= most
    assert (ends[:, 1] < truth).sum() <= most


def test_a_range_of_next_to_nothing_is_the_interval() -> None:
    assert mean_interval([0.0, 5e-324], 0.0, 1e-323) == (0.0, 1e-323)


@example([(1, 1), (1, 1), (1, 0), (0, 1), (0, 0), (1, 1), (1, 1), (1, 1)], 0.0, 1)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20),
    st.sampled_from([0.0, 1.0, 4.0]),
    st.integers(1, 4),
)
def test_the_chance_at_the_end_of_a_ratio_is_the_asked_one(
    pairs: list[tuple[int, int]], weight: float, size: int
) -> None:
    # By a search that begins anew at each ratio, where that for an end begins next to the last one.
    above, below = np.array(pairs, dtype=float).T
    found = ratio_interval(above, below, (0, size), (size, weight))
    assume(found is not None)
    high = found[1]
    assume(high > above.sum() / below.sum() + 1e-9 and (not weight or high < size / weight - 1e-9))
    assert chance_above_zero(np.append(above - high * below, size - high * weight)) == pytest.approx(0.025, abs=1e-6)


def test_numbers_without_digits_count_as_none() -> None:
    """Subnormal values sent the search for the lower end round for ever."""
    assert mean_interval([1.1e-320] * 40, 0.0, 1.0) == mean_interval([0.0] * 40, 0.0, 1.0)
