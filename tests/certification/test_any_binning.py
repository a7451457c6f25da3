import itertools

import numpy as np
import pytest

from tests.certification.instances import random_instance
from workers.certification.any_binning import worst_over_binnings
from workers.certification.worst_calibration import worst_calibration_error

GRID = 10


def by_all_binnings(lower, upper, correct, bins):
    """Return the largest sum over every binning by edges among the ends, and every sign of each bin."""
    cuts, best = np.unique(np.concatenate([[0.0, 1.0], lower, upper])), 0.0
    for many in range(1, bins + 1):
        for inner in itertools.combinations_with_replacement(cuts, many - 1):
            edges = np.array([0.0, *inner, 1.0])
            floor, top = np.maximum(lower[:, None], edges[:-1]), np.minimum(upper[:, None], edges[1:])
            for signs in itertools.product((1, -1), repeat=many):
                added = np.where(np.array(signs) > 0, top - correct[:, None], correct[:, None] - floor)
                best = max(best, np.where(floor <= top, added, -np.inf).max(1).mean())
    return best


def on_grid(rng, n, **how):
    lower, upper, clean, correct = random_instance(rng, n, 5, **how)
    return np.round(lower * GRID) / GRID, np.round(upper * GRID) / GRID, clean, correct


def equal_mass_error(values, correct, bins):
    order = np.argsort(values, kind="stable")
    return sum(abs((values - correct)[part].sum()) for part in np.array_split(order, bins)) / len(values)


def test_it_is_the_largest_over_every_binning() -> None:
    rng = np.random.default_rng(1)
    for trial in range(320):
        n, bins = int(rng.integers(1, 6)), 1 + trial % 4
        lower, upper, _, correct = on_grid(rng, n, width=float(rng.choice([0.2, 1.0])))
        worst = worst_over_binnings(lower, upper, correct, bins, GRID)
        assert worst.value == pytest.approx(by_all_binnings(lower, upper, correct, bins), abs=1e-9)
        assert worst.terms.mean() == pytest.approx(worst.value)


def test_no_confidences_cut_into_equal_masses_have_more() -> None:
    rng = np.random.default_rng(2)
    for _ in range(25):
        n, bins = int(rng.integers(2, 30)), int(rng.integers(1, 7))
        lower, upper, clean, correct = random_instance(rng, n, bins)
        value = worst_over_binnings(lower, upper, correct, bins, 40).value
        for values in [clean, *(lower + (upper - lower) * rng.random((30, n)))]:
            assert equal_mass_error(values, correct, bins) <= value + 1e-9


def test_it_is_no_less_than_equal_widths_and_within_a_cell_of_the_truth() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        lower, upper, _, correct = random_instance(rng, 80, 5, width=0.2)
        fine = worst_over_binnings(lower, upper, correct, 5, 100).value
        assert fine >= worst_calibration_error(lower, upper, correct, 5).value - 1e-9
        assert fine <= worst_over_binnings(lower, upper, correct, 5, 10).value + 1e-9 <= fine + 0.1 + 1e-9


def test_it_grows_with_the_bins_up_to_its_end() -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(4), 60, 5)
    values = [worst_over_binnings(lower, upper, correct, bins, 30).value for bins in range(1, 20)]
    assert np.all(np.diff(values) >= -1e-12)
    assert values[-1] <= 1 + 1e-12


def test_nobody_has_no_error_and_a_grid_without_cells_is_refused() -> None:
    assert worst_over_binnings([], [], []).value is None
    with pytest.raises(ValueError, match="grid"):
        worst_over_binnings([0.1], [0.2], [True], grid=0)
