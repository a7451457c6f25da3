import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from seatrial.statistics.exact import mcnemar
from seatrial.statistics.paired import discordant, gap_to_lowest
from seatrial.statistics.proportions import score_interval


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (0, 6), (5, 5), (9, 1), (30, 12), (400, 350)])
def test_mcnemar_agrees_with_scipy(b, c) -> None:
    theirs = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(theirs, rel=1e-10)
    assert mcnemar(b, c) == mcnemar(c, b)


def score(b: int, c: int, n: int, difference: float) -> float:
    """The score statistic, corrected for continuity, its nuisance rate found by maximising the likelihood."""

    def loss(rate: float) -> float:
        cells = [(b, rate + difference), (c, rate), (n - b - c, 1 - 2 * rate - difference)]
        return -sum(count * math.log(share) for count, share in cells if count)

    lowest, highest = max(0.0, -difference), (1 - difference) / 2
    found = minimize_scalar(loss, bounds=(lowest, highest), method="bounded", options={"xatol": 1e-13})
    spread = math.sqrt(n * (2 * found.x + difference * (1 - difference)))
    return (abs(b - c - n * difference) - 1) / spread


@pytest.mark.parametrize(("b", "c", "n"), [(9, 1, 20), (5, 3, 40), (30, 12, 100), (1, 2, 50), (40, 40, 90)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_ends_are_where_the_score_test_turns(b, c, n, alpha) -> None:
    critical = stats.norm.isf(alpha / 2)
    for end in score_interval(b, c, n, alpha=alpha):
        assert score(b, c, n, end) == pytest.approx(critical, rel=1e-4)


@pytest.mark.parametrize(("b", "c", "n"), [(0, 0, 1), (1, 0, 1), (0, 0, 50), (50, 0, 50), (0, 50, 50), (25, 25, 50)])
def test_edges_hold_their_value_and_mirror(b, c, n) -> None:
    low, high = score_interval(b, c, n)
    assert -1 <= low <= (b - c) / n <= high <= 1
    assert low < high
    assert score_interval(c, b, n) == pytest.approx((-high, -low))


def test_no_discordant_pair_says_as_much_as_the_sample_is_large() -> None:
    widths = [score_interval(0, 0, n)[1] for n in (10, 100, 1000)]
    # Where nothing differed in n examples, up to about (1.96^2 + 2) / n may differ.
    assert widths == pytest.approx([0.4, 0.056, 0.0058], rel=0.15)


def test_no_end_is_wrong_too_often() -> None:
    rates = [(0, 0), (0.02, 0), (0.02, 0.02), (0.05, 0), (0.1, 0.1), (0.2, 0.05), (0.3, 0.3), (0.6, 0), (0.9, 0.05)]
    for n in (20, 60):
        cells = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
        ends = np.array([score_interval(b, c, n) for b, c in cells])
        table = np.array([(b, c, n - b - c) for b, c in cells])
        for b, c in rates:
            chance = stats.multinomial.pmf(table, n, [b, c, 1 - b - c])
            assert chance[ends[:, 0] > b - c + 1e-9].sum() <= 0.025
            assert chance[ends[:, 1] < b - c - 1e-9].sum() <= 0.025


@pytest.mark.parametrize(("b", "c", "n"), [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_refuses_what_is_no_sample(b, c, n) -> None:
    with pytest.raises(ValueError, match="not a valid sample"):
        score_interval(b, c, n)
    with pytest.raises(ValueError, match="not counts"):
        mcnemar(-1, 3)
    with pytest.raises(ValueError, match="one length"):
        discordant([True], [True, False])


def test_one_other_has_the_plain_interval() -> None:
    rng = np.random.default_rng(0)
    reference, other = rng.random(80) < 0.6, rng.random(80) < 0.4
    gap = gap_to_lowest(reference, [other])
    b, c, n = discordant(reference, other)
    assert gap.interval == score_interval(b, c, n)
    assert (gap.value, gap.p, gap.lowest) == ((b - c) / n, mcnemar(b, c), 0)


def test_the_lowest_is_named_the_first_of_equals_and_a_negative_gap_stays() -> None:
    reference = np.arange(10) < 5
    higher, lower, equal = np.arange(10) < 7, np.arange(10) < 2, np.arange(10) >= 8
    assert gap_to_lowest(reference, [higher, lower, equal]).lowest == 1
    assert gap_to_lowest(reference, [higher]).value == pytest.approx(-0.2)
    assert gap_to_lowest(reference, []) is None
    assert gap_to_lowest([], [[]]) is None


# Accuracies of the others where the reference has 0.5, and how far each example's difficulty is shared.
TRUTHS = {
    "no illusion": ([0.5, 0.5, 0.5], 0.8),
    "no illusion, unrelated": ([0.5, 0.5, 0.5], 0.0),
    "one clear": ([0.5, 0.2, 0.5], 0.6),
    "ties": ([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], 0.6),
    "nearly ties": ([0.32, 0.3, 0.31], 0.9),
    "reference lowest": ([0.6, 0.65], 0.8),
}


def draw(rng: np.random.Generator, truth: str, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
    accuracies, shared = TRUTHS[truth]
    common = rng.normal(size=n)

    def successes(accuracy: float) -> np.ndarray:
        own = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.normal(size=n)
        return own < stats.norm.ppf(accuracy)

    return successes(0.5), [successes(accuracy) for accuracy in accuracies]


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_interval_of_a_gap_knows_that_the_lowest_was_chosen(truth) -> None:
    rng = np.random.default_rng(1)
    gap = 0.5 - min(TRUTHS[truth][0])
    above = below = 0
    for _ in range(300):
        low, high = gap_to_lowest(*draw(rng, truth, 100)).interval
        above += low > gap + 1e-12
        below += high < gap - 1e-12
    # 2.5 % of 300 is 7.5; 16 and more come once in 300 times.
    assert above <= 15
    assert below <= 15
