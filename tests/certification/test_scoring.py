import itertools

import numpy as np
import pytest

from seatrial.statistics.calibration import ece
from tests.certification.boxes import random_box, vertices
from workers.certification.scoring import (
    FLOOR,
    resampled_classwise,
    worst_brier,
    worst_classwise,
    worst_log_loss,
)
from workers.certification.simplex_box import SimplexBox
from workers.certification.worst_calibration import resampled_errors, worst_calibration_error


def by_all_signs(lower, upper, correct, edges):
    """Return the largest error in closed bins of any edges, over all signs of the bins."""
    floor, top = np.maximum(lower[:, None], edges[:-1]), np.minimum(upper[:, None], edges[1:])
    best = 0.0
    for signs in itertools.product((1, -1), repeat=len(edges) - 1):
        added = np.where(np.array(signs) > 0, top - correct[:, None], correct[:, None] - floor)
        best = max(best, np.where(floor <= top, added, -np.inf).max(1).mean())
    return best


def test_any_fixed_edges_are_solved_exactly() -> None:
    """Quantiles among them: edges that are equal, and edges that intervals begin and end on."""
    rng = np.random.default_rng(1)
    for _ in range(400):
        n, bins = int(rng.integers(1, 12)), int(rng.integers(1, 7))
        ends = np.sort(rng.random((2, n)), axis=0)
        ends = np.round(ends, 1) if rng.random() < 0.5 else ends
        ends[1] = np.where(rng.random(n) < 0.2, ends[0], ends[1])
        inner = np.quantile(ends[0], np.linspace(0, 1, bins + 1)[1:-1]) if rng.random() < 0.5 else rng.random(bins - 1)
        edges = np.concatenate([[0.0], np.sort(np.round(inner, 1)), [1.0]])
        correct = rng.random(n) < rng.random()
        worst = worst_calibration_error(*ends, correct, edges)
        assert worst.value == pytest.approx(by_all_signs(*ends, correct, edges), abs=1e-12)
        assert resampled_errors(*ends, correct, np.ones((1, n)), edges)[0] == pytest.approx(worst.value)


@pytest.mark.parametrize("edges", [[0.0], [0.0, 0.5], [0.1, 1.0], [0.0, 0.6, 0.4, 1.0], [[0.0, 1.0]]])
def test_edges_that_are_none_are_refused(edges) -> None:
    with pytest.raises(ValueError, match="edges must ascend"):
        worst_calibration_error([0.5], [0.6], [True], np.array(edges))


def test_the_worst_brier_score_is_that_of_a_vertex() -> None:
    rng = np.random.default_rng(2)
    for _ in range(350):
        k = int(rng.integers(2, 7))
        lower, upper = random_box(rng, k)
        label = int(rng.integers(k))
        found = worst_brier(SimplexBox.read([lower], [upper]), np.array([label]))[0]
        every = ((vertices(lower, upper) - np.eye(k)[label]) ** 2).sum(1)
        assert found == pytest.approx(every.max(), abs=1e-8)


def test_several_classes_in_one_column_are_worst_in_one_of_them() -> None:
    box = SimplexBox.read([[0.5, 0.0]], [[1.0, 0.5]], rest=3)
    assert worst_brier(box, np.array([0])) == pytest.approx([0.5])
    with pytest.raises(ValueError, match="column of its own"):
        worst_brier(box, np.array([1]))


def test_the_worst_log_loss_is_that_of_the_lower_end() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        ends = random_box(rng, int(rng.integers(2, 6)))
        box = SimplexBox.read(*([one] for one in ends))
        losses = -np.log(np.maximum(vertices(*ends)[:, 0], FLOOR))
        assert worst_log_loss(box.lower[:, 0])[0] == pytest.approx(losses.max(), abs=1e-6)
    lower = np.array([0.9, 0.25, 1e-9])
    assert worst_log_loss(lower).tolist() == pytest.approx([-np.log(0.9), -np.log(0.25), -np.log(1e-6)])
    with pytest.raises(ValueError, match="lower ends"):
        worst_log_loss([1.5])


def test_classwise_is_the_mean_of_one_worst_case_a_class() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        n, classes, bins = int(rng.integers(1, 8)), int(rng.integers(2, 4)), int(rng.integers(1, 5))
        ends = np.sort(np.round(rng.random((2, n, classes)), 1), axis=0)
        labels = rng.integers(0, classes, n)
        worst = worst_classwise(*ends, labels, bins)
        edges = np.arange(bins + 1) / bins
        each = [by_all_signs(*ends[:, :, k], labels == k, edges) for k in range(classes)]
        assert worst.errors.tolist() == pytest.approx(each)
        assert worst.value == pytest.approx(np.mean(each))
        assert worst.terms.mean() == pytest.approx(worst.value)
        once = np.ones((1, n))
        assert resampled_classwise(*ends, labels, once, bins)[0] == pytest.approx(worst.value)


def test_no_scores_of_the_simplex_have_a_larger_classwise_error() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        scores = rng.dirichlet(np.ones(4), 50)
        width = 0.2 * rng.random()
        ends = np.clip(scores - width, 0, 1), np.clip(scores + width, 0, 1)
        labels = rng.integers(0, 4, 50)
        worst = worst_classwise(*ends, labels, 10)
        mixed = scores + (rng.dirichlet(np.ones(4), 50) - scores) * width
        assert np.mean([ece(mixed[:, k], labels == k, 10) for k in range(4)]) <= worst.value + 1e-12
    assert worst_classwise(np.empty((0, 3)), np.empty((0, 3)), []).value is None
