import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.statistics.calibration import bin_edges, ece
from tests.certification.instances import best_by_assignments, gains_by_signs, random_instance
from workers.certification import worst_calibration
from workers.certification.system_calibration import resampled_system_errors, system_calibration_error
from workers.certification.worst_calibration import resampled_errors, worst_calibration_error

EXACT = 1e-12


def random_system(rng, *, most, most_free, most_bins, width=0.6):
    """Return lower, upper, correct, and free, least and bins as keywords."""
    bins, n, free = int(rng.integers(1, most_bins + 1)), int(rng.integers(0, most + 1)), int(rng.integers(1, most_free))
    lower, upper, _, correct = random_instance(rng, n, bins, width=width)
    # On an edge and off it, 0 and 1 among them; 1/K is what a classifier has.
    least = float(rng.choice([0.0, 0.1, 0.5, 1.0, rng.random(), rng.integers(0, bins + 1) / bins]))
    return lower, upper, correct, {"free": free, "least": least, "bins": bins}


def test_agrees_with_every_assignment_and_every_correctness() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        lower, upper, correct, system = random_system(rng, most=2, most_free=3, most_bins=4)
        expected = best_by_assignments(lower, upper, correct, **system)
        assert system_calibration_error(lower, upper, correct, **system).value == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("width", [0.1, 0.4, 1.0], ids=["narrow", "middling", "wide"])
def test_agrees_with_every_sign_vector(width) -> None:
    rng = np.random.default_rng(2)
    for _ in range(180):
        lower, upper, correct, system = random_system(rng, most=15, most_free=12, most_bins=8, width=width)
        expected = gains_by_signs(lower, upper, correct, **system).mean(axis=1).max()
        assert system_calibration_error(lower, upper, correct, **system).value == pytest.approx(expected, abs=EXACT)


def test_agrees_with_every_sign_vector_of_ten_bins() -> None:
    rng = np.random.default_rng(3)
    for least in (0.1, 0.5):
        lower, upper, _, correct = random_instance(rng, 150, 10, width=0.3)
        expected = gains_by_signs(lower, upper, correct, 10, free=40, least=least).mean(axis=1).max()
        worst = system_calibration_error(lower, upper, correct, free=40, least=least, bins=10)
        assert worst.value == pytest.approx(expected, abs=EXACT)


seeds = st.integers(0, 2**32 - 1)


def drawn_system(seed):
    """Return a system, and a generator to go on with."""
    rng = np.random.default_rng(seed)
    return *random_system(rng, most=20, most_free=20, most_bins=20), rng


@given(seeds)
def test_what_is_returned_is_possible_and_has_the_error_returned(seed) -> None:
    lower, upper, correct, system, _ = drawn_system(seed)
    worst = system_calibration_error(lower, upper, correct, **system)
    n, bins, edges = len(lower), system["bins"], bin_edges(system["bins"])
    low, high = np.append(lower, [system["least"]] * system["free"]), np.append(upper, np.ones(system["free"]))
    assert np.all((low <= worst.confidence) & (worst.confidence <= high))
    assert np.all((edges[worst.bins] <= worst.confidence) & (worst.confidence <= edges[worst.bins + 1]))
    assert np.array_equal(worst.correct[:n], correct)
    errors = [abs(np.sum((worst.confidence - worst.correct)[worst.bins == m])) for m in range(bins)]
    assert worst.value == pytest.approx(sum(errors) / len(low), abs=EXACT)


@given(seeds)
def test_no_outcome_of_the_free_examples_has_a_larger_error(seed) -> None:
    lower, upper, correct, system, rng = drawn_system(seed)
    value = system_calibration_error(lower, upper, correct, **system).value
    free, least, bins = system.values()
    confidence = np.where(rng.random(free) < 0.3, least, rng.uniform(least, 1, free))
    joined = np.append(lower, confidence), np.append(upper, confidence), np.append(correct, rng.random(free) < 0.5)
    assert worst_calibration_error(*joined, bins).value <= value + EXACT
    assert ece(joined[1], joined[2], bins) <= value + EXACT


@given(seeds)
def test_free_examples_are_worse_than_calibrated_ones_and_no_worse_than_an_error_of_1(seed) -> None:
    lower, upper, correct, system, _ = drawn_system(seed)
    n, free = len(lower), system["free"]
    certified = n * (worst_calibration_error(lower, upper, correct, system["bins"]).value or 0.0)
    value = system_calibration_error(lower, upper, correct, **system).value
    # Whatever the signs, a plus bin's top or a minus bin's bottom leaves a free example an error of half, if it may
    # fall as low as half.
    surely = 0.5 if system["least"] <= 0.5 else 0.0
    assert (certified + surely * free) / (n + free) - EXACT <= value
    assert value <= (certified + free) / (n + free) + EXACT


@given(seeds, st.floats(0, 1))
def test_the_error_falls_as_the_least_confidence_rises(seed, by) -> None:
    lower, upper, correct, system, _ = drawn_system(seed)
    value = system_calibration_error(lower, upper, correct, **system).value
    higher = system | {"least": min(1.0, system["least"] + by)}
    assert system_calibration_error(lower, upper, correct, **higher).value <= value + EXACT


@given(seeds)
def test_without_free_examples_it_is_the_plain_error(seed) -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(seed), 30, 15)
    plain = worst_calibration_error(lower, upper, correct)
    assert system_calibration_error(lower, upper, correct, free=0, least=0.1).value == plain.value


def test_free_examples_alone_are_all_wrong_and_sure_of_it() -> None:
    worst = system_calibration_error([], [], [], free=3, least=0.1)
    assert worst.value == 1
    assert (worst.confidence.tolist(), worst.correct.tolist()) == ([1.0] * 3, [False] * 3)


def test_free_examples_become_right_where_that_is_worse() -> None:
    # Nine right answers at 0.05 in the only bin: a wrong one would cancel, a right one at 0 adds 1.
    worst = system_calibration_error([0.05] * 9, [0.05] * 9, [True] * 9, free=1, least=0.0, bins=1)
    assert worst.value == pytest.approx((9 * 0.95 + 1) / 10)
    assert (worst.confidence[-1], worst.correct[-1]) == (0.0, True)


def test_nothing_has_no_error() -> None:
    assert system_calibration_error([], [], [], free=0, least=0.1).value is None
    assert np.isnan(resampled_system_errors([], [], [], np.ones((2, 0)), free=0, least=0.1)).tolist() == [True] * 2


@pytest.mark.parametrize(("free", "least"), [(-1, 0.1), (1, -0.1), (1, 1.1), (1, np.nan)])
def test_what_is_no_system_is_refused(free, least) -> None:
    with pytest.raises(ValueError, match="free must be at least 0 and least in"):
        system_calibration_error([0.1], [0.2], [True], free=free, least=least)


def test_weights_cover_the_free_examples_too() -> None:
    with pytest.raises(ValueError, match=r"shape \(resamples, 3\), not \(4, 1\)"):
        resampled_system_errors([0.1], [0.2], [True], np.ones((4, 1)), free=2, least=0.1)


@pytest.mark.parametrize("kind", ["counts", "signs", "any", "free turned round"])
def test_resamples_agree_with_every_sign_vector(kind) -> None:
    rng = np.random.default_rng(4)
    for _ in range(120):
        lower, upper, correct, system = random_system(rng, most=10, most_free=6, most_bins=8)
        n = len(lower) + system["free"]
        weights = {
            "counts": rng.multinomial(n, np.full(n, 1 / n), 4).astype(float),
            "signs": rng.choice([-1.0, 1.0], (4, n)),
            "any": rng.normal(size=(4, n)),
            "free turned round": np.where(np.arange(n) < len(lower), 1.0, -rng.uniform(0, 2, (4, 1))) * np.ones((4, n)),
        }[kind]
        expected = (weights @ gains_by_signs(lower, upper, correct, **system).T).max(axis=1) / n
        found = resampled_system_errors(lower, upper, correct, weights, **system)
        assert found == pytest.approx(expected, abs=1e-10)


def test_weights_of_one_give_the_error() -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(5), 300, 15, width=0.4)
    expected = system_calibration_error(lower, upper, correct, free=100, least=0.1).value
    found = resampled_system_errors(lower, upper, correct, np.ones((2, 400)), free=100, least=0.1)
    assert found == pytest.approx(expected, abs=EXACT)


def test_resamples_without_free_examples_are_the_plain_ones() -> None:
    rng = np.random.default_rng(6)
    lower, upper, _, correct = random_instance(rng, 50, 15)
    weights = rng.normal(size=(4, 50))
    expected = resampled_errors(lower, upper, correct, weights)
    assert np.array_equal(resampled_system_errors(lower, upper, correct, weights, free=0, least=0.1), expected)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("free_weights", ["gained", "lost", "either"])
def test_resamples_are_the_same_to_the_bit_in_pieces_and_with_the_free_example_among_the_others(
    rows, free_weights, monkeypatch
) -> None:
    rng = np.random.default_rng(8)
    lower, upper, _, correct = random_instance(rng, 60, 15, width=0.4)
    weights = rng.normal(size=(7, 70))
    if free_weights != "either":
        weights[:, 60:] = np.abs(weights[:, 60:]) * (1 if free_weights == "gained" else -1)
    whole = resampled_system_errors(lower, upper, correct, weights, free=10, least=0.1)
    merged = np.column_stack([weights[:, :60], weights[:, 60:].sum(1)])
    cases = [
        resampled_errors(np.append(lower, 0.1), np.append(upper, 1.0), np.append(correct, hit), merged)
        for hit in (False, True)
    ]
    is_gain = merged[:, -1] >= 0
    assert np.array_equal(whole[is_gain], (np.maximum(*cases) * 61 / 70)[is_gain])
    monkeypatch.setattr(worst_calibration, "CELLS", rows * 16**2)
    assert np.array_equal(resampled_system_errors(lower, upper, correct, weights, free=10, least=0.1), whole)
