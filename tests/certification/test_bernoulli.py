import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper
from workers.certification.bernoulli import (
    ABSTAIN,
    ULPS,
    abstains,
    certified_radius,
    certify,
    largest_radius,
    predict,
    probability_needed,
)

ALPHAS = [0.2, 0.05, 0.001, 1e-6]
RADII = [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5]


def grid(trials):
    """All counts of a small sample; the ends and a few between of a large one."""
    if trials <= 40:
        return np.arange(trials + 1)
    ends = np.array([0, 1, 2, 10])
    return np.concatenate([ends, [trials // 3, trials // 2, trials * 99 // 100], trials - ends[::-1]])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("trials", [1, 2, 7, 40, 1000])
def test_bounds_agree_with_binomtest(trials, alpha) -> None:
    for hits in grid(trials).tolist():
        test = stats.binomtest(hits, trials, alternative="greater")
        low = test.proportion_ci(1 - alpha, "exact").low
        assert clopper_pearson_lower(hits, trials, alpha=alpha) == pytest.approx(low, abs=1e-10)
        high = stats.binomtest(hits, trials, alternative="less").proportion_ci(1 - alpha, "exact").high
        assert clopper_pearson_upper(hits, trials, alpha=alpha) == pytest.approx(high, abs=1e-10)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("trials", [1, 13, 1000, 100_000, 10_000_000])
def test_bounds_agree_with_quantiles_of_the_beta_distribution(trials, alpha) -> None:
    hits = grid(trials)
    inner = (hits > 0) & (hits < trials)
    low, high = (bound(hits, trials, alpha=alpha) for bound in (clopper_pearson_lower, clopper_pearson_upper))
    assert low[inner] == pytest.approx(stats.beta.ppf(alpha, hits, trials - hits + 1)[inner], abs=1e-10)
    assert high[inner] == pytest.approx(stats.beta.isf(alpha, hits + 1, trials - hits)[inner], abs=1e-10)
    assert (low[hits == 0].tolist(), high[hits == trials].tolist()) == ([0.0], [1.0])
    assert low[hits == trials] == pytest.approx(alpha ** (1 / trials), abs=1e-14)
    assert high[hits == 0] == pytest.approx(-math.expm1(math.log(alpha) / trials), abs=1e-14)


@pytest.mark.parametrize("alpha", [0.05, 1e-6, 1e-20])
@pytest.mark.parametrize("trials", [1, 5, 30])
def test_at_the_lower_bound_as_many_hits_have_probability_alpha_in_exact_arithmetic(trials, alpha) -> None:
    for hits in range(1, trials + 1):
        p = Fraction(float(clopper_pearson_lower(hits, trials, alpha=alpha)))
        tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1))
        assert float(tail) == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(
    ("successes", "trials", "alpha", "told"),
    [
        (-1, 5, 0.1, "-1 successes in 5 trials"),
        ([0, 6], 5, 0.1, "6 successes in 5 trials"),
        (0, 0, 0.1, "0 successes in 0 trials"),
        (2.5, 5, 0.1, "2.5 successes"),
        (math.nan, 5, 0.1, "nan successes"),
        (1, math.inf, 0.1, "in inf trials"),
        (1, 5, 0, "alpha must be in"),
        (1, 5, 1, "alpha must be in"),
        (1, 5, math.nan, "alpha must be in"),
    ],
    ids=lambda value: str(value),
)
def test_what_is_no_sample_is_refused_with_what_was_wrong(successes, trials, alpha, told) -> None:
    for bound in (clopper_pearson_lower, clopper_pearson_upper):
        with pytest.raises(ValueError, match=told):
            bound(successes, trials, alpha=alpha)


def test_the_bounds_are_vectorised_and_keep_shapes() -> None:
    hits, trials = np.array([[0, 3], [5, 2]], dtype=np.int32), np.array([5, 7])
    found = clopper_pearson_lower(hits, trials, alpha=0.1)
    each = [[float(clopper_pearson_lower(h, t, alpha=0.1)) for h, t in zip(row, trials, strict=True)] for row in hits]
    assert (found.shape, found.dtype, found.tolist()) == ((2, 2), np.float64, each)
    assert clopper_pearson_upper([], [], alpha=0.1).shape == (0,)


@given(st.integers(1, 500), st.data())
def test_bounds_ascend_with_hits_narrow_with_alpha_and_enclose_the_share(trials, data) -> None:
    hits = data.draw(st.integers(0, trials))
    alpha = data.draw(st.floats(1e-12, 0.4))
    low, high = (float(bound(hits, trials, alpha=alpha)) for bound in (clopper_pearson_lower, clopper_pearson_upper))
    assert 0 <= low <= hits / trials <= high <= 1
    assert low <= float(clopper_pearson_lower(hits, trials, alpha=min(0.5, 2 * alpha)))
    assert high >= float(clopper_pearson_upper(hits, trials, alpha=min(0.5, 2 * alpha)))
    assert low < float(clopper_pearson_lower(hits + 1, trials + 1, alpha=alpha))
    assert low <= float(clopper_pearson_lower(min(hits + 1, trials), trials, alpha=alpha))
    # One more draw that misses is no evidence for the class.
    assert low >= float(clopper_pearson_lower(hits, trials + 1, alpha=alpha))


def test_a_probability_of_exactly_one_half_has_radius_0_and_is_no_abstention() -> None:
    edge = [np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1)]
    assert abstains(edge).tolist() == [True, False, False]
    radius = certified_radius(edge, 0.25)
    assert radius[:2].tolist() == [0.0, 0.0]
    assert radius[2] > 0


def test_radii_agree_with_the_normal_distribution_and_scale_with_sigma() -> None:
    p = np.linspace(0.5, 0.999999, 1001)
    assert certified_radius(p, 0.5) == pytest.approx(0.5 * stats.norm.ppf(p), abs=1e-12)
    assert certified_radius(p, 1.0) == pytest.approx(2 * certified_radius(p, 0.5), abs=1e-12)
    assert not certified_radius(np.linspace(0, 0.4999, 50), 0.5).any()


@pytest.mark.parametrize("p_lower", [1.0, -0.1, math.nan, math.inf])
def test_a_bound_no_draws_could_show_has_no_radius(p_lower) -> None:
    with pytest.raises(ValueError, match="must be in"):
        certified_radius([0.7, p_lower], 0.25)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan])
def test_without_noise_there_is_no_radius(sigma) -> None:
    for refuses in (certified_radius, probability_needed):
        with pytest.raises(ValueError, match="sigma must be positive"):
            refuses([0.7], sigma)


@pytest.mark.parametrize("n", [1, 5, 9, 10, 100, 100_000, 10_000_000])
@pytest.mark.parametrize("alpha", [0.2, 0.001, 1e-12])
def test_the_largest_radius_is_its_closed_form_and_is_what_all_hits_get(n, alpha) -> None:
    found = largest_radius(n, alpha=alpha, sigma=0.25)
    assert found == pytest.approx(max(0.0, 0.25 * stats.norm.ppf(alpha ** (1 / n))), abs=1e-9)
    assert found == float(certify(n, n, alpha=alpha, sigma=0.25).radius)


def test_certify_is_the_bound_its_abstention_and_its_radius() -> None:
    hits = np.array([0, 500, 540, 560, 1000])
    found = certify(hits, 1000, alpha=0.001, sigma=2.0)
    assert found.p_lower.tolist() == clopper_pearson_lower(hits, 1000, alpha=0.001).tolist()
    assert found.abstained.tolist() == [True, True, True, False, False]
    assert found.radius.tolist() == certified_radius(found.p_lower, 2.0).tolist()
    assert found.radius[:3].tolist() == [0, 0, 0]
    assert np.all(np.diff(found.radius[2:]) > 0)


def test_a_certified_radius_is_too_large_no_more_often_than_alpha() -> None:
    p, n, alpha, streams = 0.9, 200, 0.05, 20_000
    hits = np.random.default_rng(11).binomial(n, p, streams)
    truth = stats.norm.ppf(p)

    def wrong(level):
        return int(np.sum(certify(hits, n, alpha=level, sigma=1.0).radius > truth))

    limit = stats.binom.ppf(1 - 1e-6, streams, alpha)
    assert wrong(alpha) <= limit
    assert wrong(2 * alpha) > limit


def certifies(p_lower, radius, sigma):
    return ~abstains(p_lower) & (certified_radius(p_lower, sigma) >= radius)


@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5, 1.0, 7.3])
def test_the_probability_needed_is_where_a_radius_becomes_certified_to_the_last_bits(sigma) -> None:
    rng = np.random.default_rng(12)
    radii = np.concatenate([RADII, [1e-300, 1e-17, 1e-4], 8 * sigma * rng.random(2000)])
    needed = probability_needed(radii, sigma)
    assert needed == pytest.approx(stats.norm.cdf(radii / sigma), abs=1e-14)
    spacing = np.spacing(0.5)
    for steps in range(3 * ULPS):
        assert np.all(certifies(np.minimum(needed + steps * spacing, 1 - spacing), radii, sigma) | (needed == 1))
    for steps in range(ULPS + 1, 4 * ULPS):
        assert not np.any(certifies(needed - steps * spacing, radii, sigma))


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_bounds_of_counts_are_certified_at_a_radius_exactly_where_they_reach_what_it_needs(n) -> None:
    p_lower = clopper_pearson_lower(np.unique(np.linspace(0, n, 5000).astype(int)), n, alpha=0.001)
    # Radii that are themselves those of bounds: ties, where rounding could tell the two apart.
    own = np.unique(certified_radius(p_lower, 0.25))[::97]
    radii = np.concatenate([RADII, own])
    by_probability = p_lower[:, None] >= probability_needed(radii, 0.25)
    assert np.array_equal(by_probability, certifies(p_lower[:, None], radii, 0.25))


def test_radius_0_needs_exactly_one_half_and_one_out_of_reach_needs_1() -> None:
    assert probability_needed([0.0, 1e6], 0.25).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("radius", [-0.1, math.inf, math.nan])
def test_a_radius_that_is_none_is_refused(radius) -> None:
    with pytest.raises(ValueError, match="radii must be"):
        probability_needed([0.1, radius], 0.25)


def second_predict(counts, alpha):
    first, second = sorted(range(len(counts)), key=lambda i: -counts[i])[:2]
    total = int(counts[first] + counts[second])
    p_value = stats.binomtest(int(counts[first]), total, 0.5).pvalue if total else 1.0
    return ABSTAIN if p_value > alpha else first


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_predict_agrees_with_binomtest(classes) -> None:
    rng = np.random.default_rng(13)
    shares = rng.dirichlet(np.full(classes, 0.5), 400)
    counts = np.array([rng.multinomial(rng.integers(0, 200), share) for share in shares])
    alphas = rng.choice([0.2, 0.05, 0.001, 1e-6], 400)
    expected = [second_predict(row, alpha) for row, alpha in zip(counts, alphas, strict=True)]
    assert predict(counts, alpha=alphas).tolist() == expected
    assert {ABSTAIN, 0, 1} <= set(expected)


def test_predict_answers_at_a_p_value_of_alpha_and_abstains_just_below_it() -> None:
    # 2 * 2^-10 is exact in floats.
    counts = [[10, 0, 0], [0, 10, 0]]
    assert predict(counts, alpha=2**-9).tolist() == [0, 1]
    assert predict(counts, alpha=np.nextafter(2**-9, 0)).tolist() == [ABSTAIN, ABSTAIN]


def test_predict_abstains_between_classes_that_came_equally_often_and_without_draws() -> None:
    assert predict([[50, 50], [0, 0], [1000, 0]], alpha=0.9).tolist() == [ABSTAIN, ABSTAIN, 0]


def test_predict_is_wrong_no_more_often_than_alpha_where_two_classes_are_nearly_as_likely() -> None:
    counts = np.random.default_rng(14).multinomial(100, [0.34, 0.33, 0.33], 20_000)
    wrong = int(np.sum(predict(counts, alpha=0.05) > 0))
    assert 0 < wrong <= stats.binom.ppf(1 - 1e-6, 20_000, 0.05)


@pytest.mark.parametrize(
    ("counts", "alpha", "told"),
    [
        ([3, 1], 0.1, "batch, classes"),
        ([[3], [1]], 0.1, "classes >= 2"),
        ([[3, -1]], 0.1, "not negative"),
        ([[3, 1]], 0.0, "alpha must be"),
        ([[3, 1]], [0.1, 0.1], "alpha must be"),
    ],
    ids=["no batch", "one class", "negative", "alpha of 0", "alphas of others"],
)
def test_predict_refuses_what_are_no_counts(counts, alpha, told) -> None:
    with pytest.raises(ValueError, match=told):
        predict(counts, alpha=alpha)


@given(st.integers(1, 10_000), st.data())
def test_what_predict_answers_at_a_small_alpha_it_answers_at_a_larger_one(total, data) -> None:
    first = data.draw(st.integers(0, total))
    small, large = sorted(data.draw(st.tuples(st.floats(1e-12, 0.5), st.floats(1e-12, 0.5))))
    counts = [[first, total - first]]
    assert predict(counts, alpha=small)[0] in (ABSTAIN, predict(counts, alpha=large)[0])
