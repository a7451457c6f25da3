import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from seatrial.statistics.calibration import bin_edges, ece
from tests.certification.instances import best_by_assignments, gains_by_signs, random_instance, reachable
from workers.certification import worst_calibration
from workers.certification.worst_calibration import resampled_errors, worst_calibration_error

EXACT = 1e-12

shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1 / 15, 0.2, 1 / 3, 0.5, 2 / 3, 0.7, 0.8, 1.0]))
examples = st.lists(st.tuples(shares, shares, shares, st.booleans()), min_size=1, max_size=25)


def columns(drawn):
    """Return lower, upper, a confidence between them and correct, from tuples of three shares and a bool."""
    first, second, where, correct = map(np.array, zip(*drawn, strict=True))
    lower, upper = np.minimum(first, second), np.maximum(first, second)
    return lower, upper, np.clip(lower + where * (upper - lower), lower, upper), correct


def error_of(worst, bins) -> float:
    """Return the ECE of a worst case's confidences in the bins it names."""
    sums = [abs(np.sum((worst.confidence - worst.correct)[worst.bins == m])) for m in range(bins)]
    return sum(sums) / len(worst.bins)


@pytest.mark.parametrize("width", [0.2, 1.0], ids=["narrow", "wide"])
def test_agrees_with_every_assignment_of_bins_and_ends(width) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, bins = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        lower, upper, _, correct = random_instance(rng, n, bins, width=width)
        expected = best_by_assignments(lower, upper, correct, bins)
        assert worst_calibration_error(lower, upper, correct, bins).value == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("width", [0.1, 0.4, 1.0], ids=["narrow", "middling", "wide"])
@pytest.mark.parametrize("snapped", [0.0, 0.3, 1.0], ids=["off the edges", "some on edges", "all on edges"])
def test_agrees_with_every_sign_vector(width, snapped) -> None:
    rng = np.random.default_rng(2)
    for _ in range(70):
        n, bins = int(rng.integers(1, 25)), int(rng.integers(1, 9))
        lower, upper, _, correct = random_instance(rng, n, bins, width=width, snapped=snapped)
        expected = gains_by_signs(lower, upper, correct, bins).mean(axis=1).max()
        assert worst_calibration_error(lower, upper, correct, bins).value == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("width", [0.15, 0.5], ids=["narrow", "wide"])
def test_agrees_with_every_sign_vector_of_ten_bins(width) -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        lower, upper, _, correct = random_instance(rng, 200, 10, width=width)
        expected = gains_by_signs(lower, upper, correct, 10).mean(axis=1).max()
        assert worst_calibration_error(lower, upper, correct, 10).value == pytest.approx(expected, abs=EXACT)


def by_integer_programme(lower, upper, correct, bins) -> float:
    """The problem as a mixed-integer linear programme, solved by HiGHS.

    Variables, in this order: a (whether an example is in a bin) and z (its confidence there, 0 elsewhere) for each
    example and bin it meets; per bin whether its error counts as positive, and the error's size.
    """
    pairs = [(i, m, *ends) for i in range(len(lower)) for m, *ends in reachable(lower[i], upper[i], bins)]
    k, n = len(pairs), len(lower)
    a, z, positive, size = np.split(np.eye(2 * k + 2 * bins), [k, 2 * k, 2 * k + bins])
    example, at, least, most = map(np.array, zip(*pairs, strict=True))
    assigned = np.stack([a[example == i].sum(axis=0) for i in range(n)])
    error = np.stack([(z - correct[example, None] * a)[at == m].sum(axis=0) for m in range(bins)])
    found = milp(
        -size.sum(axis=0),
        integrality=np.concatenate([np.ones(k), np.zeros(k), np.ones(bins), np.zeros(bins)]),
        bounds=Bounds(0, np.concatenate([np.ones(2 * k + bins), np.full(bins, n)])),
        constraints=[
            LinearConstraint(assigned, 1, 1),
            LinearConstraint(z - least[:, None] * a, 0, np.inf),
            LinearConstraint(z - most[:, None] * a, -np.inf, 0),
            LinearConstraint(size - error + 2 * n * positive, -np.inf, 2 * n),
            LinearConstraint(size + error - 2 * n * positive, -np.inf, 0),
        ],
    )
    assert found.success
    return -found.fun / n


def test_agrees_with_an_integer_programme() -> None:
    rng = np.random.default_rng(4)
    for _ in range(12):
        n, bins = int(rng.integers(5, 13)), int(rng.integers(2, 6))
        lower, upper, _, correct = random_instance(rng, n, bins, width=0.6)
        expected = by_integer_programme(lower, upper, correct, bins)
        assert worst_calibration_error(lower, upper, correct, bins).value == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@given(examples, st.integers(1, 20))
def test_no_confidences_within_the_intervals_have_a_larger_ece(drawn, bins) -> None:
    lower, upper, within, correct = columns(drawn)
    value = worst_calibration_error(lower, upper, correct, bins).value
    assert all(ece(z, correct, bins) <= value + EXACT for z in (within, lower, upper))


@given(examples, st.integers(1, 20))
def test_the_confidences_returned_are_possible_and_have_the_error_returned(drawn, bins) -> None:
    lower, upper, _, correct = columns(drawn)
    worst = worst_calibration_error(lower, upper, correct, bins)
    edges = bin_edges(bins)
    assert np.all((lower <= worst.confidence) & (worst.confidence <= upper))
    assert np.all((edges[worst.bins] <= worst.confidence) & (worst.confidence <= edges[worst.bins + 1]))
    assert np.array_equal(worst.correct, correct)
    assert worst.value == pytest.approx(error_of(worst, bins), abs=EXACT)
    assert 0 <= worst.value <= 1


@given(examples, st.integers(1, 20))
def test_the_signs_returned_are_those_of_the_errors(drawn, bins) -> None:
    lower, upper, _, correct = columns(drawn)
    worst = worst_calibration_error(lower, upper, correct, bins)
    errors = np.bincount(worst.bins, weights=worst.confidence - correct, minlength=bins)
    assert set(worst.signs.tolist()) <= {-1, 1}
    assert worst.signs @ errors / len(lower) == pytest.approx(worst.value, abs=EXACT)


@given(examples, st.integers(1, 20), st.floats(0, 1))
def test_wider_intervals_have_no_smaller_error(drawn, bins, by) -> None:
    lower, upper, _, correct = columns(drawn)
    value = worst_calibration_error(lower, upper, correct, bins).value
    wider = worst_calibration_error(np.maximum(lower - by, 0), np.minimum(upper + by, 1), correct, bins).value
    assert wider >= value - EXACT


@given(examples, st.integers(1, 20), st.randoms())
def test_the_order_of_examples_does_not_matter(drawn, bins, random) -> None:
    lower, upper, _, correct = columns(drawn)
    order = list(range(len(drawn)))
    random.shuffle(order)
    value = worst_calibration_error(lower, upper, correct, bins).value
    assert worst_calibration_error(lower[order], upper[order], correct[order], bins).value == (
        pytest.approx(value, abs=EXACT)
    )


@pytest.mark.parametrize("bins", [1, 4, 15, 100])
def test_half_open_bins_see_the_error_once_confidences_are_moved_off_the_edges(bins) -> None:
    rng = np.random.default_rng(5)
    nudge = 1e-9
    for _ in range(10):
        lower, upper, _, correct = random_instance(rng, 300, bins, width=0.4, snapped=0, exact=0)
        worst = worst_calibration_error(lower, upper, correct, bins)
        edges = bin_edges(bins)
        least, most = np.maximum(lower, edges[worst.bins]), np.minimum(upper, edges[worst.bins + 1])
        inside = np.clip(worst.confidence, least + nudge, most - nudge)
        assert ece(inside, correct, bins) == pytest.approx(worst.value, abs=1e-6)


@pytest.mark.parametrize("bins", [1, 3, 15])
def test_intervals_of_width_zero_off_the_edges_have_the_plain_ece(bins) -> None:
    rng = np.random.default_rng(6)
    confidence, correct = rng.uniform(0, 1, 50), rng.random(50) < 0.6
    expected = ece(confidence, correct, bins)
    assert worst_calibration_error(confidence, confidence, correct, bins).value == pytest.approx(expected)


def test_a_confidence_on_an_edge_is_counted_where_it_hurts_more() -> None:
    # With 0.5 counted in the upper bin its error of -0.5 would cancel against 0.75.
    assert worst_calibration_error([0.5, 0.75], [0.5, 0.75], [True, False], 2).value == pytest.approx(0.625)
    assert ece([0.5, 0.75], [True, False], 2) == pytest.approx(0.125)


@pytest.mark.parametrize("bins", [3, 6, 7, 15, 49, 100])
def test_an_interval_that_ends_on_an_edge_meets_both_bins(bins) -> None:
    edges = bin_edges(bins)[1:-1]
    ones = np.ones(len(edges), dtype=bool)
    sample = worst_calibration.Intervals.read(edges, edges, ones, bins)
    assert sample.first.tolist() == list(range(bins - 1))
    assert sample.last.tolist() == list(range(1, bins))


@pytest.mark.parametrize("bins", [1, 15])
@pytest.mark.parametrize(
    ("correct", "expected"), [(True, [1.0, 0.0]), (False, [0.0, 1.0])], ids=["all right", "all wrong"]
)
def test_confidences_of_exactly_0_and_1(bins, correct, expected) -> None:
    found = [worst_calibration_error([end] * 3, [end] * 3, [correct] * 3, bins).value for end in (0.0, 1.0)]
    assert found == expected


@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("correct", [True, False], ids=["all right", "all wrong"])
def test_answers_all_right_or_all_wrong_leave_as_much_as_the_far_ends(bins, correct) -> None:
    lower, upper, _, _ = random_instance(np.random.default_rng(7), 40, bins, width=0.3)
    expected = np.mean(1 - lower) if correct else np.mean(upper)
    found = worst_calibration_error(lower, upper, np.full(40, correct), bins)
    assert found.value == pytest.approx(expected)


def test_full_intervals_are_as_bad_as_can_be_from_two_bins_on() -> None:
    zeros, ones, half = np.zeros(10), np.ones(10), np.arange(10) < 5
    assert worst_calibration_error(zeros, ones, half, 2).value == 1
    # One bin sees only the mean: half of the answers are right, and confidence can be 0 or 1 throughout.
    assert worst_calibration_error(zeros, ones, half, 1).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("correct", "expected"),
    [((1, 0), 0.9), ((1, 1), 0.7), ((0, 0), 0.75), ((0, 1), 7 / 15)],
    ids=["right wrong", "both right", "both wrong", "wrong right"],
)
def test_the_example_of_the_paper(correct, expected) -> None:
    # Emde et al., appendix E.2: two examples and three bins, of which each example meets two.
    worst = worst_calibration_error([0.1, 0.5], [0.6, 0.9], correct, 3)
    assert worst.value == pytest.approx(best_by_assignments([0.1, 0.5], [0.6, 0.9], correct, 3), abs=EXACT)
    assert worst.value == pytest.approx(expected)


def test_one_example() -> None:
    assert worst_calibration_error([0.2], [0.7], [True]).value == pytest.approx(0.8)
    assert worst_calibration_error([0.2], [0.7], [False]).value == pytest.approx(0.7)


def test_no_examples_have_no_error() -> None:
    worst = worst_calibration_error([], [], [], 4)
    assert (worst.value, worst.signs.shape, worst.bins.shape, worst.confidence.shape) == (None, (4,), (0,), (0,))
    assert np.isnan(resampled_errors([], [], [], np.ones((3, 0)))).tolist() == [True] * 3


@pytest.mark.parametrize(
    ("lower", "upper", "correct", "bins", "message"),
    [
        ([0.1, 0.6], [0.2, 0.5], [1, 1], 5, r"lower must not exceed upper: 1 are not, the first is number 1"),
        ([-0.1], [0.5], [1], 5, r"within \[0, 1\].*-0.1"),
        ([0.1], [1.5], [1], 5, r"within \[0, 1\].*1.5"),
        ([0.1], [np.nan], [1], 5, r"within \[0, 1\].*nan"),
        ([0.1], [0.2, 0.3], [1], 5, r"one length: their shapes are \(1,\), \(2,\) and \(1,\)"),
        ([[0.1]], [[0.2]], [[1]], 5, r"one length"),
        ([0.1], [0.2], [2], 5, r"correct must hold only 0 and 1"),
        ([0.1], [0.2], [1], 0, r"at least 1 bin: bins=0"),
    ],
    ids=["crossed", "below 0", "above 1", "nan", "lengths", "matrix", "correct", "no bin"],
)
def test_what_is_no_sample_is_refused(lower, upper, correct, bins, message) -> None:
    with pytest.raises(ValueError, match=message):
        worst_calibration_error(lower, upper, correct, bins)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(2), r"shape \(resamples, 2\), not \(2,\)"),
        (np.ones((2, 3)), "not"),
        ([[1.0, np.inf]], "finite"),
    ],
    ids=["vector", "length", "infinite"],
)
def test_weights_that_fit_no_sample_are_refused(weights, message) -> None:
    with pytest.raises(ValueError, match=message):
        resampled_errors([0.1, 0.2], [0.3, 0.4], [1, 0], weights)


@pytest.mark.parametrize("kind", ["counts", "signs", "any"])
def test_resamples_agree_with_every_sign_vector(kind) -> None:
    rng = np.random.default_rng(8)
    for _ in range(80):
        n, bins = int(rng.integers(1, 20)), int(rng.integers(1, 8))
        lower, upper, _, correct = random_instance(rng, n, bins, width=0.6)
        weights = {
            "counts": rng.multinomial(n, np.full(n, 1 / n), 5),
            "signs": rng.choice([-1, 1], (5, n)),
            "any": rng.normal(size=(5, n)),
        }[kind]
        expected = (weights @ gains_by_signs(lower, upper, correct, bins).T).max(axis=1) / n
        assert resampled_errors(lower, upper, correct, weights, bins) == pytest.approx(expected, abs=EXACT)


def test_counts_of_a_draw_give_the_error_of_the_drawn_sample() -> None:
    rng = np.random.default_rng(9)
    lower, upper, _, correct = random_instance(rng, 100, 15, width=0.4)
    drawn = rng.integers(0, 100, (20, 100))
    counts = np.stack([np.bincount(row, minlength=100) for row in drawn])
    expected = [worst_calibration_error(lower[row], upper[row], correct[row]).value for row in drawn]
    assert resampled_errors(lower, upper, correct, counts) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("bins", [1, 15, 40])
def test_weights_of_one_give_the_error(bins) -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(10), 500, bins, width=0.4)
    expected = worst_calibration_error(lower, upper, correct, bins).value
    assert resampled_errors(lower, upper, correct, np.ones((2, 500)), bins) == pytest.approx(expected, abs=EXACT)


def test_resamples_are_the_same_in_one_piece_or_several(monkeypatch) -> None:
    rng = np.random.default_rng(11)
    lower, upper, _, correct = random_instance(rng, 60, 15)
    weights = rng.normal(size=(7, 60))
    whole = resampled_errors(lower, upper, correct, weights)
    monkeypatch.setattr(worst_calibration, "CELLS", 3 * 16**2)
    assert np.array_equal(resampled_errors(lower, upper, correct, weights), whole)


@pytest.mark.parametrize("bins", [1, 15, 31])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_outcomes_by_chance_are_those_of_a_sample_of_both_outcomes_to_the_bit(bins, rows, monkeypatch) -> None:
    """Each example twice, right and wrong, weighed by its gap and the gap turned round, need not be held."""
    rng = np.random.default_rng(12)
    lower, upper, _, correct = random_instance(rng, 80, bins, snapped=0.3)
    gaps = rng.normal(size=(7, 80))
    both = np.tile(lower, 2), np.tile(upper, 2), np.repeat([True, False], 80)
    expected = resampled_errors(*both, np.hstack([gaps, -gaps]), bins) * 160
    monkeypatch.setattr(worst_calibration, "CELLS", rows * max(80, (bins + 1) ** 2))
    sample = worst_calibration.Intervals.read(lower, upper, correct, bins)
    assert np.array_equal(worst_calibration.largest_deviations(sample, gaps), expected)


def test_outcomes_of_nobody_change_nothing() -> None:
    nobody = worst_calibration.Intervals.read([], [], [], 15)
    assert worst_calibration.largest_deviations(nobody, np.ones((3, 0))).tolist() == [0.0] * 3
