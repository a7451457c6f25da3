"""Scores of conformal sets against the definitions, class by class, and their coverage where it is known."""

import math

import numpy as np
import pytest

from seatrial.statistics.prediction_sets import label_ranks, ranked_scores, scores_at
from seatrial.statistics.selective import conformal_threshold


def score_by_definition(row, label, score, penalty, free):
    """Return the score of one class: of adaptive sets, the mass of all classes before it in order, and its own."""
    order = sorted(range(len(row)), key=lambda k: (-row[k], k))
    place = order.index(label)
    if score == "lac":
        return 1 - row[label]
    mass = math.fsum(row[k] for k in order[: place + 1])
    return mass + (penalty * max(0, place + 1 - free) if score == "raps" else 0)


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_scores_and_sets_are_those_of_the_definitions(score) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        k, n = int(rng.integers(2, 8)), int(rng.integers(1, 6))
        # Sixteenths: ties, zeros, and sums without rounding.
        rows = rng.multinomial(16, rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 5.0]))), size=n) / 16
        labels = rng.integers(0, k, n)
        penalty, free = float(rng.choice([0.0, 0.125, 0.5])), int(rng.integers(0, 4))
        ranked = ranked_scores(rows, score, penalty=penalty, free=free)
        wanted = [
            score_by_definition(row, label, score, penalty, free) for row, label in zip(rows, labels, strict=True)
        ]
        assert scores_at(ranked, label_ranks(rows, labels)).tolist() == wanted
        assert (np.diff(ranked, axis=1) >= 0).all()
        threshold = float(rng.choice([*wanted, 0.5, 1.0, math.inf]))
        sizes = (ranked <= threshold).sum(1)
        for row, size in zip(rows, sizes, strict=True):
            held = [one for one in range(k) if score_by_definition(row, one, score, penalty, free) <= threshold]
            assert size == len(held)


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_a_new_example_s_label_is_held_as_often_as_its_exact_chance(score) -> None:
    """Calibrated on one draw of n, scores without ties: the coverage is Beta(k, n + 1 - k), k of n + 1 on average."""
    rng = np.random.default_rng(2)
    n, held = 39, []
    for _ in range(3000):
        probabilities = rng.dirichlet(np.ones(4), size=n + 1)
        labels = (rng.random((n + 1, 1)) > np.cumsum(probabilities, axis=1)[:, :-1]).sum(1)
        # Scores of a last rank all are 1: the labels' own are made to differ by less than matters.
        ranked = ranked_scores(probabilities, score, penalty=0.1, free=1)
        scores = scores_at(ranked, label_ranks(probabilities, labels)) + 1e-9 * rng.random(n + 1)
        held.append(scores[-1] <= conformal_threshold(scores[:-1], 0.1))
    # k = ceil(40 * 0.9) = 36 of 40: 0.9 exactly.
    assert np.mean(held) == pytest.approx(0.9, abs=0.018)


def test_sets_of_a_known_law_have_its_coverage() -> None:
    """Of two classes with p = u, 1 - u, u uniform on (.5, 1), and a label of that law.

    Plain sets at threshold q < 1/2 hold the likelier class where 1 - u <= q: coverage 2 int_{1-q}^1 u du = q (2 - q).
    """
    rng = np.random.default_rng(3)
    u = rng.uniform(0.5, 1, 200_000)
    labels = (rng.random(len(u)) > u).astype(int)
    rows = np.stack([u, 1 - u], axis=1)
    held = scores_at(ranked_scores(rows, "lac"), label_ranks(rows, labels)) <= 0.3
    assert held.mean() == pytest.approx(0.3 * 1.7, abs=0.005)


def test_a_label_that_is_no_class_is_in_no_set() -> None:
    rows = np.array([[0.5, 0.5]])
    assert scores_at(ranked_scores(rows, "aps"), label_ranks(rows, np.array([7])))[0] == math.inf
