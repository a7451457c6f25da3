"""How often certified intervals hold, on one-dimensional models whose smoothed confidence is known everywhere."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import kstwo

from workers.certification.confidence import (
    LEVELS,
    cdf_bounds,
    dkw_bounds,
    dkw_bounds_of_scores,
    slack,
    standard_bounds,
)

SIGMA = 0.5
ALPHA = 0.05
DRAWS = 200
REPETITIONS = 300
RADII = np.array([0.0, 0.25, 0.6])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(180)

MODELS = {"flat": (0.8, 0.3), "sloped": (4.0, 1.0), "steep": (10.0, 4.0), "sure": (3.0, 6.0)}
"""Score = sigmoid(a x + b): every event {score > t} is a half-line, for which the certificate is tight."""


def confidence(model: str, x: np.ndarray) -> np.ndarray:
    """The smoothed model's, by Gauss-Hermite quadrature: E sigmoid(a (x + sigma Z) + b)."""
    a, b = MODELS[model]
    return expit(a * (x[:, None] + SIGMA * NODES) + b) @ WEIGHTS / WEIGHTS.sum()


def intervals(bound: str, scores: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(repetitions, radii), from scores (repetitions, draws)."""
    shifts, margins = RADII / SIGMA, np.full(len(scores), eps)
    if bound == "standard":
        return standard_bounds(scores.mean(1), margins, shifts)
    if bound == "scores":
        ends = [dkw_bounds_of_scores(row, eps, shifts) for row in scores]
        return np.array([lower for lower, _ in ends]), np.array([upper for _, upper in ends])
    histogram = np.zeros((len(scores), LEVELS), dtype=np.int32)
    cells = np.minimum(np.floor(scores * LEVELS).astype(int), LEVELS - 1)
    np.add.at(histogram, (np.arange(len(scores))[:, None], cells), 1)
    if bound == "cdf":
        return cdf_bounds(histogram, ALPHA, shifts)
    return dkw_bounds(histogram, margins, shifts)


def coverage(bound: str, model: str, *, share_of_slack: float = 1.0) -> np.ndarray:
    """Share of repetitions in which the truth is inside at every point within the radius (radii,), and at all radii."""
    a, b = MODELS[model]
    noise = SIGMA * np.random.default_rng(0).standard_normal((REPETITIONS, DRAWS))
    lower, upper = intervals(bound, expit(a * noise + b), float(slack(DRAWS, ALPHA)) * share_of_slack)
    holds = np.empty((REPETITIONS, len(RADII)), dtype=bool)
    for column, radius in enumerate(RADII):
        truth = confidence(model, np.linspace(-radius, radius, 41))
        inside = (lower[:, column, None] <= truth) & (truth <= upper[:, column, None])
        holds[:, column] = inside.all(1)
    return np.append(holds.mean(0), holds.all(1).mean())


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("bound", ["cdf", "histogram", "scores", "standard"])
def test_every_confidence_within_the_radius_is_inside_as_often_as_promised(bound, model) -> None:
    assert np.all(coverage(bound, model) >= 1 - ALPHA)


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("bound", ["histogram", "scores"])
def test_a_tenth_of_the_slack_is_not_enough_for_all_radii(bound, model) -> None:
    assert coverage(bound, model, share_of_slack=0.1)[-1] < 0.85


@pytest.mark.parametrize("model", ["sloped", "steep"])
@pytest.mark.parametrize("bound", ["histogram", "scores"])
def test_a_tenth_of_the_slack_is_not_enough_at_any_radius_where_scores_are_everywhere(bound, model) -> None:
    # Where they leave much of [0, 1] empty, any slack at all is given a weight there that grows with the radius.
    assert np.all(coverage(bound, model, share_of_slack=0.1) < 0.5)


def test_a_tenth_of_the_slack_is_not_enough_for_the_mean() -> None:
    assert coverage("standard", "steep", share_of_slack=0.1)[-1] < 0.5


@pytest.mark.parametrize("model", list(MODELS))
def test_quadrature_agrees_with_a_million_draws(model) -> None:
    a, b = MODELS[model]
    drawn = expit(a * (0.2 + SIGMA * np.random.default_rng(1).standard_normal(1_000_000)) + b)
    error = 5 * drawn.std() / 1000
    assert confidence(model, np.array([0.2]))[0] == pytest.approx(drawn.mean(), abs=error)


@pytest.mark.parametrize("model", list(MODELS))
def test_with_many_draws_the_interval_of_scores_meets_the_extremes(model) -> None:
    a, b = MODELS[model]
    scores = expit(a * SIGMA * np.random.default_rng(2).standard_normal((1, 100_000)) + b)
    lower, upper = intervals("histogram", scores, 0.0)
    for column, radius in enumerate(RADII):
        ends = confidence(model, np.array([-radius, radius]))
        assert (lower[0, column], upper[0, column]) == pytest.approx(tuple(ends), abs=0.02)


@pytest.mark.parametrize("draws", [1, 2, 10, 200, 100_000])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
def test_a_distribution_function_is_off_by_more_than_the_slack_no_more_often_than_alpha(draws, alpha) -> None:
    assert kstwo.sf(float(slack(draws, alpha)), draws) <= alpha
