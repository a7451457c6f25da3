"""The band that is narrow in the tails: against a slow direct one, its coverage, and what it saves."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta

from tests.certification.test_confidence import CLOSE, SHAPES, SHIFTS, histogram_of, moved
from workers.certification.band import RATIO, ranks, tail_exact
from workers.certification.confidence import LEVELS, cdf_bounds, dkw_bounds, slack

ALPHA = 0.001


def written_out(cells: np.ndarray, alpha: float, distance: float, shift: float) -> tuple[float, float]:
    """The bounds of scores that are known by cell, cell by cell, rank by rank, from the definition."""
    n, half = len(cells), alpha / 2
    ordered, chosen = np.sort(cells)[::-1], ranks(n).tolist()
    each, eps = half / (2 * len(chosen)), math.sqrt(math.log(2 / half) / (2 * n))
    least_of = {k: float(beta.ppf(each, k, n - k + 1)) for k in chosen}
    most_of = {k: float(beta.isf(each, k, n - k + 1)) for k in chosen}
    lower = upper = 0.0
    ends = sorted({-1, LEVELS - 1, *cells.tolist()})
    # Of t from one cell's end to the next, as low as scores may be and as high.
    for below, cell in pairwise(ends):
        above = int((cells > below).sum())
        least = max([above / n - eps, 0.0, *(least_of[k] for k in chosen if ordered[k - 1] >= cell)])
        least_after = max(least - distance, 0.0)
        lower += (cell - max(below, 0)) / LEVELS * moved(least_after, -shift)
        most = min([above / n + eps, 1.0, *(most_of[k] for k in chosen if ordered[k - 1] <= below)])
        upper += (cell - below) / LEVELS * moved(min(most + distance, 1.0), shift)
    return lower, upper


few_cells = st.lists(st.integers(0, LEVELS - 1) | st.sampled_from([0, LEVELS - 1, 9000]), min_size=1, max_size=40)


@given(few_cells, st.sampled_from([0.2, ALPHA]), st.sampled_from([0.0, 1e-3]), st.sampled_from([0.0, 0.7, 2.0]))
def test_agrees_with_the_definition_written_out(cells, alpha, distance, shift) -> None:
    counts = np.bincount(cells, minlength=LEVELS)[None]
    lower, upper = cdf_bounds(counts, alpha, np.array([shift]), distance=distance)
    expected = written_out(np.array(cells), alpha, distance, shift)
    assert (lower[0, 0], upper[0, 0]) == pytest.approx(expected, abs=2 * CLOSE)


@pytest.mark.parametrize("draws", [1, 2, 3, 10, 57, 10_000, 100_000, 10_000_000])
def test_ranks_lie_between_one_and_all_draws_as_dense_as_their_ratio_says(draws: int) -> None:
    found = ranks(draws)
    assert (found[0], found[-1]) == (1, draws)
    assert (np.diff(found) > 0).all()
    near = found[found <= draws // 2]
    assert (near[1:] <= np.maximum(RATIO * near[:-1] + 1, near[:-1] + 1)).all()
    # The middle one has no other.
    assert set(draws + 1 - near[:-1]) <= set(found)


@pytest.mark.parametrize("draws", [10, 1000, 10_000_000])
def test_all_draws_and_none_have_the_quantiles_of_their_closed_form(draws: int) -> None:
    each = ALPHA / (2 * len(ranks(draws)))
    least, most = tail_exact(np.array([0, draws]), draws, ALPHA)
    assert least[0] == 0
    assert most[1] == 1
    # To far less than ROUNDING allows: 1 / (2 d) times the error, d the distance from 1.
    assert least[1] == pytest.approx(each ** (1 / draws), abs=3e-16 if draws > 10 else 1e-12)
    assert most[0] == pytest.approx(-math.expm1(math.log(each) / draws), abs=3e-16 if draws > 10 else 1e-12)


def test_a_share_is_bounded_the_better_the_more_draws_are_above() -> None:
    for draws in (7, 1000):
        least, most = tail_exact(np.arange(draws + 1), draws, ALPHA)
        assert (np.diff(least) >= 0).all()
        assert (np.diff(most) >= 0).all()
        shares = np.arange(draws + 1) / draws
        assert ((least <= shares) & (shares <= most)).all()


@pytest.mark.parametrize("values", [None, 4], ids=["continuous", "ties"])
def test_all_of_it_holds_as_often_as_promised_and_is_not_needlessly_wide(values: int | None) -> None:
    """Misses of the whole band at a harsh alpha; a uniform law is the worst of all continuous ones."""
    alpha, draws, runs = 0.1, 500, 2000
    drawn = np.random.default_rng(0).random((runs, draws))
    if values is not None:
        drawn = np.floor(drawn * values) / values
    at = np.arange(0, 1, 1 / values) if values else None
    missed = 0
    for row in np.sort(drawn, axis=1):
        # P(X > t) just above and just below each draw, or at each tie.
        points = row if at is None else at
        above = draws - np.searchsorted(row, points, side="right")
        from_it = draws - np.searchsorted(row, points, side="left")
        beyond = 1 - points - (0 if at is None else 1 / len(at))
        _, most = tail_exact(above, draws, alpha)
        least, _ = tail_exact(from_it, draws, alpha)
        missed += bool((beyond > most).any() or (1 - points < least).any())
    assert missed / runs < alpha
    if at is None:
        assert missed / runs > alpha / 4


@pytest.mark.parametrize("name", list(SHAPES))
def test_cut_with_dkw_it_is_never_wider_than_dkw_at_half_of_alpha(name: str) -> None:
    histogram = histogram_of(SHAPES[name])
    lower, upper = cdf_bounds(histogram, ALPHA, SHIFTS)
    loose_lower, loose_upper = dkw_bounds(histogram, slack(histogram.sum(), ALPHA / 2), SHIFTS)
    assert (lower >= loose_lower).all()
    assert (upper <= loose_upper).all()
    assert (np.diff(lower) <= 0).all()
    assert (np.diff(upper) >= 0).all()
    mean = SHAPES[name].mean()
    assert ((lower <= mean) & (mean <= upper)).all()


def widths(law: tuple[float, float], shift: float) -> dict[str, float]:
    """Widths at 100,000 draws by both bands, and by ours at a tenth of them; logits are normal."""
    found = {}
    for name, draws in (("tenth", 10_000), ("same", 100_000)):
        scores = expit(np.random.default_rng(1).normal(*law, draws))
        histogram = histogram_of(scores)
        lower, upper = cdf_bounds(histogram, ALPHA, np.array([shift]))
        found[name] = float(upper[0, 0] - lower[0, 0])
    lower, upper = dkw_bounds(histogram, slack(draws, ALPHA), np.array([shift]))
    return {**found, "dkw": float(upper[0, 0] - lower[0, 0])}


def test_saturated_scores_need_a_tenth_of_the_draws() -> None:
    found = widths((7, 2), 1.0)
    assert found == pytest.approx({"dkw": 0.088, "tenth": 0.056, "same": 0.040}, abs=0.003)


@pytest.mark.parametrize("shift", [0.0, 0.25, 1.0])
def test_unsure_scores_gain_little_and_lose_next_to_nothing(shift: float) -> None:
    found = widths((0.5, 1), shift)
    assert 0.85 < found["same"] / found["dkw"] < 1.02


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan, np.array([0.1, 0.1, 0.1])])
def test_an_alpha_that_is_none_is_refused(alpha) -> None:
    with pytest.raises(ValueError, match="alpha must be"):
        cdf_bounds(np.ones((2, LEVELS), dtype=np.int64), alpha, SHIFTS)


def test_examples_have_an_alpha_each() -> None:
    histogram = histogram_of(SHAPES["ten"], SHAPES["saturated"])
    together = cdf_bounds(histogram, np.array([0.1, 0.001]), SHIFTS)
    for row, alpha in enumerate((0.1, 0.001)):
        alone = cdf_bounds(histogram[row : row + 1], alpha, SHIFTS)
        assert [ends[row].tolist() for ends in together] == [ends[0].tolist() for ends in alone]
