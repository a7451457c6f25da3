"""Certified confidences against closed forms, the formula written out, 50 digits, and what must hold of any scores."""

import math
from itertools import pairwise
from statistics import NormalDist

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from workers.certification.confidence import (
    LEVELS,
    ROUNDING,
    dkw_bounds,
    dkw_bounds_of_scores,
    slack,
    standard_bounds,
)

PHI = NormalDist()
SHIFTS = np.array([0.0, 0.2, 0.5, 1.0, 1.7, 3.0, 8.0])
CLOSE = 2 * ROUNDING

score_sets = st.lists(st.sampled_from([0.0, 1.0, 0.5, 1 / LEVELS]) | st.floats(0, 1), min_size=1, max_size=60).map(
    lambda scores: np.array(scores)
)
slacks = st.floats(0.0, 0.2) | st.sampled_from([0.0, 1e-4, 1.3])


def moved(probability: float, shift: float) -> float:
    """Phi(Phi^-1(p) + shift)."""
    return probability if probability in (0, 1) else PHI.cdf(PHI.inv_cdf(probability) + shift)


def histogram_of(*score_sets: np.ndarray) -> np.ndarray:
    histogram = np.zeros((len(score_sets), LEVELS), dtype=np.int64)
    for row, scores in enumerate(score_sets):
        np.add.at(histogram[row], np.minimum(np.floor(scores * LEVELS).astype(int), LEVELS - 1), 1)
    return histogram


def written_out(scores: np.ndarray, eps: float, shift: float) -> tuple[float, float]:
    """The sums over order statistics, one term after the other."""
    ordered, n = sorted(scores.tolist()), len(scores)
    below, lower = 0.0, 0.0
    for i, score in enumerate(ordered, start=1):
        lower += (score - below) * moved(max((n - i + 1) / n - eps, 0), -shift)
        below = score
    upper = ordered[0]
    for i, (score, following) in enumerate(pairwise([*ordered, 1.0]), start=1):
        upper += (following - score) * moved(min((n - i) / n + eps, 1), shift)
    return lower, upper


def random_scores() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "all-zero": np.zeros(10),
        "all-one": np.ones(10),
        "one-draw": np.array([0.3141]),
        "ten": rng.random(10),
        "ties": np.round(rng.random(1000), 1),
        "on-edges": rng.integers(0, LEVELS + 1, 500) / LEVELS,
        "below-edges": np.nextafter(rng.integers(1, LEVELS + 1, 500) / LEVELS, 0),
        "one-cell": 0.7 + rng.random(200) / LEVELS / 10,
        "saturated": np.clip(rng.normal(0.9, 0.3, 5000), 0, 1),
        "u-shaped": rng.beta(0.05, 0.05, 2000),
        "float32": rng.beta(9, 1, 3000).astype(np.float32),
        "uniform-100000": rng.random(100_000),
        "peaked-100000": rng.beta(200, 3, 100_000),
    }


SHAPES = random_scores()


def test_slack_at_the_defaults() -> None:
    assert slack(100_000, 0.001) == pytest.approx(0.006165, abs=5e-7)


def test_slack_is_taken_example_by_example() -> None:
    several = slack(np.array([10, 1000]), np.array([0.05, 0.001]))
    assert several == pytest.approx([math.sqrt(math.log(40) / 20), math.sqrt(math.log(2000) / 2000)], rel=1e-14)


@pytest.mark.parametrize(("draws", "alpha"), [(0, 0.1), (10, 0.0), (10, 1.0), (10, float("nan"))])
def test_slack_refuses_what_is_no_level(draws, alpha) -> None:
    with pytest.raises(ValueError, match="alpha in"):
        slack(draws, alpha)


@pytest.mark.parametrize("score", [0.0, 0.25, 0.8, 1.0])
def test_constant_scores(score) -> None:
    lower, upper = dkw_bounds_of_scores(np.full(50, score), 0.1, SHIFTS)
    assert lower == pytest.approx([score * moved(0.9, -shift) for shift in SHIFTS], abs=CLOSE)
    assert upper == pytest.approx([score + (1 - score) * moved(0.1, shift) for shift in SHIFTS], abs=CLOSE)


def test_two_scores() -> None:
    lower, upper = dkw_bounds_of_scores(np.repeat([0.2, 0.9], [30, 70]), 0.05, SHIFTS)
    assert lower == pytest.approx([0.2 * moved(0.95, -s) + 0.7 * moved(0.65, -s) for s in SHIFTS], abs=CLOSE)
    assert upper == pytest.approx([0.2 + 0.7 * moved(0.75, s) + 0.1 * moved(0.05, s) for s in SHIFTS], abs=CLOSE)


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_uniform_scores_by_quadrature(shift) -> None:
    draws = 20_000
    lower, upper = dkw_bounds_of_scores((np.arange(draws) + 0.5) / draws, 0.02, np.array([shift]))
    # The corners at 1 - eps and eps are given to quad, so that it does not have to find them.
    below = quad(lambda t: moved(max(1 - t - 0.02, 0), -shift), 0, 1, points=[0.98])[0]
    above = quad(lambda t: moved(min(1 - t + 0.02, 1), shift), 0, 1, points=[0.02])[0]
    assert (lower[0], upper[0]) == pytest.approx((below, above), abs=1 / draws)


def test_standard_bounds_by_hand() -> None:
    lower, upper = standard_bounds(np.array([0.9, 0.02]), np.array([0.05, 0.1]), SHIFTS)
    assert lower[0] == pytest.approx([moved(0.85, -shift) for shift in SHIFTS], abs=CLOSE)
    assert upper[0] == pytest.approx([moved(0.95, shift) for shift in SHIFTS], abs=CLOSE)
    assert lower[1].tolist() == [0.0] * len(SHIFTS)
    assert upper[1] == pytest.approx([moved(0.12, shift) for shift in SHIFTS], abs=CLOSE)


def test_certain_means_stay_certain_without_slack() -> None:
    lower, upper = standard_bounds(np.array([0.0, 1.0]), np.zeros(2), SHIFTS)
    assert upper[0] == pytest.approx(np.zeros(len(SHIFTS)), abs=CLOSE)
    assert lower[1] == pytest.approx(np.ones(len(SHIFTS)), abs=CLOSE)
    assert (lower[0] == 0).all()
    assert (upper[1] == 1).all()


@pytest.mark.parametrize("mean", [0.0, 1e-9, 0.3, 0.9999, 1.0])
@pytest.mark.parametrize("eps", [3.4e-4, 6e-3, 0.2])
def test_rounding_never_narrows_an_interval(mean, eps) -> None:
    lower, upper = standard_bounds(np.array([mean]), np.array([eps]), SHIFTS)
    with mpmath.workdps(50):
        for shift, below, above in zip(SHIFTS, lower[0], upper[0], strict=True):
            least, most = max(mpmath.mpf(mean) - mpmath.mpf(eps), 0), min(mpmath.mpf(mean) + mpmath.mpf(eps), 1)
            exact = [
                mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1) + sign * mpmath.mpf(shift)) if 0 < p < 1 else p
                for p, sign in ((least, -1), (most, 1))
            ]
            assert below <= exact[0] <= below + CLOSE
            assert above - CLOSE <= exact[1] <= above


def test_certified_at_a_radius_of_0_without_slack_is_the_mean() -> None:
    scores = SHAPES["u-shaped"]
    lower, upper = dkw_bounds_of_scores(scores, 0.0, np.zeros(1))
    assert (lower[0], upper[0]) == pytest.approx((scores.mean(), scores.mean()), abs=CLOSE)


@given(score_sets, slacks, st.floats(0, 6))
def test_order_statistics_agree_with_the_formula_written_out(scores, eps, shift) -> None:
    lower, upper = dkw_bounds_of_scores(scores, eps, np.array([shift]))
    assert (lower[0], upper[0]) == pytest.approx(written_out(scores, eps, shift), abs=1e-8)


@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("eps", [0.0, 0.006, 0.3])
def test_histogram_contains_the_order_statistics_and_is_within_a_cell_of_them(name, eps) -> None:
    lower, upper = dkw_bounds_of_scores(SHAPES[name], eps, SHIFTS)
    coarse_lower, coarse_upper = (ends[0] for ends in dkw_bounds(histogram_of(SHAPES[name]), np.array([eps]), SHIFTS))
    rounding = 1e-12
    assert np.all((lower - 1 / LEVELS - rounding <= coarse_lower) & (coarse_lower <= lower + rounding))
    assert np.all((upper - rounding <= coarse_upper) & (coarse_upper <= upper + 1 / LEVELS + rounding))


@given(score_sets, slacks)
def test_histogram_is_as_tight_as_the_scores_it_may_have_come_from(scores, eps) -> None:
    cells = np.minimum(np.floor(scores * LEVELS), LEVELS - 1)
    lower, upper = dkw_bounds(histogram_of(scores), np.array([eps]), SHIFTS)
    assert lower[0] == pytest.approx(dkw_bounds_of_scores(cells / LEVELS, eps, SHIFTS)[0], abs=1e-12)
    assert upper[0] == pytest.approx(dkw_bounds_of_scores((cells + 1) / LEVELS, eps, SHIFTS)[1], abs=1e-12)


def published_lower(scores: np.ndarray, thresholds: int) -> float:
    """The published estimate of the lower bound at radius 0, before the slack is taken off."""
    kept = np.sort(scores)[:: math.ceil(len(scores) / thresholds)]
    shares = 1 - np.arange(len(kept)) / len(kept)
    return float(np.sum(np.diff(kept, prepend=0) * shares))


def test_published_estimate_exceeds_true_counts_where_the_gap_does_not_divide() -> None:
    # 25 draws, every third kept: nine thresholds; the i-th is taken for reached by 1 - i/9 where 1 - 3i/25 is true.
    scores = np.append(np.repeat(np.linspace(0.1, 0.8, 8), 3), 0.9)
    lower, _ = dkw_bounds_of_scores(scores, 0.0, np.zeros(1))
    coarse, _ = dkw_bounds(histogram_of(scores), np.zeros(1), np.zeros(1))
    assert published_lower(scores, 10) > scores.mean() + 0.02
    assert coarse[0, 0] <= lower[0] <= scores.mean()


def test_published_estimate_is_a_true_count_where_the_gap_divides() -> None:
    scores = np.repeat(np.linspace(0.1, 0.8, 8), 3)
    assert published_lower(scores, 8) == pytest.approx(scores.mean(), abs=1e-12)


def both(scores: np.ndarray, eps: float, shifts: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """CDF intervals from order statistics, from a histogram, and the Standard one."""
    of_histogram = dkw_bounds(histogram_of(scores), np.array([eps]), shifts)
    standard = standard_bounds(np.array([scores.mean()]), np.array([eps]), shifts)
    rest = [(lower[0], upper[0]) for lower, upper in (of_histogram, standard)]
    return [dkw_bounds_of_scores(scores, eps, shifts), *rest]


@given(score_sets, slacks, st.lists(st.floats(0, 10), min_size=2, max_size=6))
def test_an_interval_contains_those_of_smaller_radii_in_any_order(scores, eps, shifts) -> None:
    order = np.argsort(shifts)
    for lower, upper in both(scores, eps, np.array(shifts)):
        assert np.all(np.diff(lower[order]) <= 0)
        assert np.all(np.diff(upper[order]) >= 0)


def test_intervals_are_nested_to_the_last_bit() -> None:
    # Of neighbouring floats, ndtr may take the larger one to the smaller value.
    neighbours = 1 + np.arange(8) * np.spacing(1.0)
    lower, upper = standard_bounds(np.random.default_rng(3).random(5000), np.full(5000, 0.01), neighbours)
    assert np.all(np.diff(lower) <= 0)
    assert np.all(np.diff(upper) >= 0)


@given(score_sets, slacks)
def test_an_interval_is_one_in_0_to_1_and_contains_the_mean(scores, eps) -> None:
    for lower, upper in both(scores, eps, SHIFTS):
        assert np.all((lower >= 0) & (lower <= scores.mean()) & (scores.mean() <= upper) & (upper <= 1))


@given(score_sets, slacks)
def test_the_distribution_is_never_looser_than_the_mean(scores, eps) -> None:
    exact, coarse, standard = both(scores, eps, SHIFTS)
    for (lower, upper), allowed in ((exact, 1e-9), (coarse, 1 / LEVELS + 1e-9)):
        assert np.all(lower >= standard[0] - allowed)
        assert np.all(upper <= standard[1] + allowed)


def test_the_distribution_is_much_tighter_than_the_mean_of_a_constant() -> None:
    (lower, upper), _, (loose_lower, loose_upper) = both(np.full(1000, 0.5), 0.01, np.ones(1))
    assert upper[0] - lower[0] < (loose_upper[0] - loose_lower[0]) / 5


@given(score_sets, st.floats(0, 0.2))
def test_at_radius_0_the_slack_acts_only_where_there_are_scores(scores, eps) -> None:
    (lower, upper), _, _ = both(scores, eps, np.zeros(1))
    assert lower[0] >= scores.mean() - eps * scores.max() - CLOSE
    assert upper[0] <= scores.mean() + eps * (1 - scores.min()) + CLOSE


@given(score_sets)
def test_far_away_anything_can_happen(scores) -> None:
    for lower, upper in both(scores, 1e-3, np.array([1e7])):
        assert (lower[0], upper[0]) == (0, 1)


@given(score_sets)
def test_far_away_without_slack_nothing_outside_the_scores_can(scores) -> None:
    exact, coarse, _ = both(scores, 0.0, np.array([1e7]))
    ends = (scores.min(), scores.max())
    assert (exact[0][0], exact[1][0]) == pytest.approx(ends, abs=CLOSE)
    assert (coarse[0][0], coarse[1][0]) == pytest.approx(ends, abs=1 / LEVELS + CLOSE)


def test_examples_do_not_see_each_other() -> None:
    sets = [SHAPES["ten"], SHAPES["all-one"], SHAPES["saturated"]]
    eps = np.array([0.4, 0.3, 0.02])
    together = dkw_bounds(histogram_of(*sets), eps, SHIFTS)
    for row, scores in enumerate(sets):
        alone = dkw_bounds(histogram_of(scores).astype(np.int32), eps[row : row + 1], SHIFTS)
        assert [ends[row].tolist() for ends in together] == [ends[0].tolist() for ends in alone]


@pytest.mark.parametrize(
    ("histogram", "words"),
    [
        (np.ones((2, LEVELS - 1), dtype=np.int64), "histogram must be"),
        (np.ones(LEVELS, dtype=np.int64), "histogram must be"),
        (np.ones((2, LEVELS)), "histogram must be"),
        (np.full((2, LEVELS), -1), "less than 0 times"),
        (np.ones((3, LEVELS), dtype=np.int64), "for each of 3 examples"),
    ],
    ids=["cells", "vector", "floats", "negative", "another-batch"],
)
def test_refuses_what_is_no_histogram(histogram, words) -> None:
    with pytest.raises(ValueError, match=words):
        dkw_bounds(histogram, np.full(2, 0.1), SHIFTS)


@pytest.mark.parametrize("scores", [[0.5, -0.1], [0.5, 1.1], [0.5, float("nan")], []])
def test_refuses_what_are_no_scores(scores) -> None:
    with pytest.raises(ValueError, match="scores must be"):
        dkw_bounds_of_scores(np.array(scores), 0.1, SHIFTS)


@pytest.mark.parametrize("mean", [-0.1, 1.1, float("inf")])
def test_refuses_means_outside_0_to_1(mean) -> None:
    with pytest.raises(ValueError, match="means must be"):
        standard_bounds(np.array([0.5, mean]), np.full(2, 0.1), SHIFTS)


def test_where_nothing_is_known_nothing_is_certified_and_the_rest_of_the_batch_is() -> None:
    known, eps = SHAPES["ten"], np.full(2, 0.1)
    histogram = histogram_of(known, known)
    histogram[0] = 0
    of_means = standard_bounds(np.array([float("nan"), known.mean()]), eps, SHIFTS)
    for (lower, upper), (sound_lower, sound_upper) in zip(
        (dkw_bounds(histogram, eps, SHIFTS), of_means), both(known, 0.1, SHIFTS)[1:], strict=True
    ):
        assert (lower[0].tolist(), upper[0].tolist()) == ([0.0] * len(SHIFTS), [1.0] * len(SHIFTS))
        assert (lower[1].tolist(), upper[1].tolist()) == (sound_lower.tolist(), sound_upper.tolist())


@pytest.mark.parametrize("shift", [-0.1, float("inf"), float("nan")])
def test_refuses_radii_that_are_none(shift) -> None:
    with pytest.raises(ValueError, match="shifts must be"):
        standard_bounds(np.array([0.5]), np.full(1, 0.1), np.array([0.0, shift]))


@pytest.mark.parametrize("eps", [-0.1, float("nan")])
def test_refuses_a_slack_that_is_none(eps) -> None:
    with pytest.raises(ValueError, match="eps must be"):
        dkw_bounds_of_scores(np.array([0.5]), eps, SHIFTS)
