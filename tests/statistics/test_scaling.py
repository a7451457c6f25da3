import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from workers.calibration.scaling import (
    Scaling,
    fit_platt,
    fit_temperature,
    fit_temperature_lbfgs,
    negative_log_likelihood,
    temperature_interval,
)


def sample(seed: int, n: int = 300, classes: int = 3, scale: float = 3.0):
    """Logits that are right about as often as their softmax at temperature ``scale`` says."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, scale, (n, classes))
    labels = (softmax(logits / scale, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return logits, labels


@pytest.mark.parametrize(("right", "wrong", "margin"), [(3, 1, 2.0), (9, 1, 0.5), (51, 49, 7.0), (999, 1, 1e-3)])
def test_two_classes_of_one_margin_have_a_closed_form(right, wrong, margin) -> None:
    # The likelihood is largest where the confidence is the accuracy: margin / T = log(right / wrong).
    logits = np.tile([margin, 0.0], (right + wrong, 1))
    labels = np.array([0] * right + [1] * wrong)
    fitted = fit_temperature(logits, labels)
    assert fitted.degenerate is None
    assert fitted.temperature == pytest.approx(margin / math.log(right / wrong), rel=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_fit_agrees_with_a_direct_minimisation(seed) -> None:
    logits, labels = sample(seed, classes=2 + seed)

    def loss(log_temperature: float) -> float:
        scaled = torch.from_numpy(logits / math.exp(log_temperature))
        return float(torch.nn.functional.cross_entropy(scaled, torch.from_numpy(labels)))

    theirs = minimize_scalar(loss, bounds=(-5, 8), method="bounded", options={"xatol": 1e-9})
    assert fit_temperature(logits, labels).temperature == pytest.approx(math.exp(theirs.x), rel=1e-5)


@given(seed=st.integers(0, 1000), decades=st.floats(-9, 9))
def test_dividing_the_logits_divides_the_temperature(seed, decades) -> None:
    logits, labels = sample(seed, n=60)
    limits = (0.0, math.inf)
    plain, divided = (fit_temperature(logits / c, labels, limits=limits) for c in (1.0, 10**decades))
    assert divided.degenerate == plain.degenerate
    if plain.degenerate is None:
        assert divided.temperature == pytest.approx(plain.temperature / 10**decades, rel=1e-9)


@given(seed=st.integers(0, 1000))
def test_more_errors_mean_a_higher_temperature(seed) -> None:
    logits, labels = sample(seed, n=80)
    spoiled = np.where(np.arange(80) < 8, logits.argmin(axis=1), labels)
    # Each spoiled label has a logit no larger than before, so the likelihood's slope in 1/T only falls.
    assert fit_temperature(logits, spoiled).temperature >= fit_temperature(logits, labels).temperature


def test_nothing_to_fit_is_said() -> None:
    right, wrong = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[2.0, 0.0], [0.0, 2.0]])
    cases = {
        "no_examples": (np.empty((0, 2)), np.empty(0, int), 1.0),
        "constant_logits": (np.full((4, 3), 7.0), np.array([0, 1, 2, 0]), 1.0),
        "no_errors": (right, np.array([0, 1]), 1e-10),
        "no_signal": (wrong, np.array([1, 0]), 1e6),
    }
    for reason, (logits, labels, temperature) in cases.items():
        fitted = fit_temperature(logits, labels)
        assert (fitted.degenerate, fitted.temperature) == (reason, temperature)
    # As many right as wrong, by the same margin: chance itself, and no finite temperature.
    assert fit_temperature(wrong, np.array([0, 0])).degenerate == "no_signal"
    # Right, but by a tie: still likelier the colder it gets.
    assert fit_temperature(np.array([[1.0, 1.0], [3.0, 0.0]]), np.array([0, 0])).degenerate == "no_errors"
    # Right and wrong by margins that are rounding beside the largest one.
    tiny = np.array([[1e-300, 0.0], [5e-310, 0.0], [0.0, 1.0]])
    assert fit_temperature(tiny, np.array([0, 1, 1])).degenerate == "no_errors"
    # One class alone is no obstacle.
    assert fit_temperature(np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 0])).degenerate is None


def test_a_temperature_outside_the_range_is_cut_and_said() -> None:
    logits, labels = sample(1)
    fitted = fit_temperature(logits * 1e9, labels)
    assert (fitted.temperature, fitted.degenerate) == (1e6, "beyond_range")
    assert fit_temperature(logits * 1e9, labels, limits=(1e-10, 1e15)).degenerate is None


@pytest.mark.parametrize(
    ("logits", "labels", "said"),
    [
        ([[0.0, 1.0]], [2], "below 2"),
        ([[0.0, 1.0]], [-1], "below 2"),
        ([[0.0, math.nan]], [0], "finite"),
        ([0.0, 1.0], [0, 1], "shape|classes"),
        ([[0.0, 1.0]], [0, 1], "classes"),
    ],
)
@pytest.mark.parametrize("fit", [fit_temperature, fit_temperature_lbfgs, lambda x, y: fit_platt(x, y, "vector")])
def test_refuses_what_is_no_sample(fit, logits, labels, said) -> None:
    with pytest.raises(ValueError, match=said):
        fit(np.array(logits), np.array(labels))


@pytest.mark.drill
@pytest.mark.slow
def test_the_papers_optimiser_comes_near_on_overconfident_logits() -> None:
    logits, labels = sample(2, n=400, classes=2, scale=1.0)
    fitted, best = fit_temperature_lbfgs(logits / 0.01, labels), fit_temperature(logits / 0.01, labels)
    assert fitted.degenerate is None
    # float32 and a small learning rate: half a per cent short of it, as on real models.
    assert fitted.temperature == pytest.approx(best.temperature, rel=0.02)
    assert fitted.temperature != pytest.approx(best.temperature, rel=1e-6)


@pytest.mark.parametrize("design", [1e4, 1e6, 1e9])
def test_the_papers_optimiser_never_leaves_its_start_on_underconfident_logits(design) -> None:
    logits, labels = sample(3, classes=2)
    fitted, best = fit_temperature_lbfgs(logits / design, labels), fit_temperature(logits / design, labels)
    assert fitted.degenerate == "vanishing_gradient"
    assert fitted.temperature == pytest.approx(1.5, rel=1e-3)
    assert best.degenerate is None
    assert best.temperature < 0.01


def test_staying_at_the_start_is_right_where_the_best_is() -> None:
    logits, labels = sample(4)
    at_start = logits * 1.5 / fit_temperature(logits, labels).temperature
    fitted = fit_temperature_lbfgs(at_start, labels)
    assert fitted.degenerate is None
    assert fitted.temperature == pytest.approx(1.5, rel=5e-3)


def test_the_papers_optimiser_is_stopped_before_zero() -> None:
    # Without an error the likelihood pulls T down for ever, and steps in T do not know that 0 is the end.
    margins = np.geomspace(1e-3, 1, 200)
    logits, labels = np.stack([margins, np.zeros(200)], axis=1), np.zeros(200, int)
    fitted = fit_temperature_lbfgs(logits, labels)
    assert fitted.degenerate == "crossed_zero"
    assert 0 < fitted.temperature < 0.1


@pytest.mark.slow
def test_the_papers_optimiser_says_where_there_is_nothing_to_find() -> None:
    sure = np.tile([0.4, 0.0], (50, 1))
    assert fit_temperature_lbfgs(sure, np.zeros(50, int)).degenerate == "no_errors"
    assert fit_temperature_lbfgs(np.full((5, 2), 3.0), np.zeros(5, int)).degenerate == "constant_logits"
    assert fit_temperature_lbfgs(np.empty((0, 2)), np.empty(0, int)).degenerate == "no_examples"


def test_the_papers_optimiser_says_that_its_iterations_did_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    # It needs 1350 of 5000 here. Where 5000 do not suffice, rounding in float32 decides how it ends.
    logits, labels = sample(2, n=400, classes=2, scale=1.0)
    monkeypatch.setattr("workers.calibration.scaling.ITERATIONS", 20)
    fitted = fit_temperature_lbfgs(logits / 0.01, labels)
    assert fitted.degenerate == "not_converged"
    assert 1.5 < fitted.temperature < fit_temperature(logits / 0.01, labels).temperature


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("design", [1.0, 0.01, 1e6, 1e-9, 1e9])
def test_more_parameters_fit_no_worse(seed, design) -> None:
    logits, labels = sample(seed, n=200, classes=2 + seed % 3)
    logits = logits / design
    temperature = fit_temperature(logits, labels, limits=(0, math.inf)).temperature
    losses = [negative_log_likelihood(logits / temperature, labels)]
    for kind in ("vector", "matrix"):
        fitted = fit_platt(logits, labels, kind)
        assert (fitted.degenerate, fitted.ridge) == (None, 0.0)
        scaling = Scaling(weights=as_tuple(fitted.weights), bias=tuple(fitted.bias))
        scaled = scaling.logits(torch.from_numpy(logits)).numpy()
        losses.append(negative_log_likelihood(scaled, labels))
    assert losses[2] <= losses[1] + 1e-9 <= losses[0] + 2e-9


def as_tuple(weights: np.ndarray):
    return tuple(weights.tolist()) if weights.ndim == 1 else tuple(map(tuple, weights.tolist()))


def test_matrix_scaling_agrees_with_multinomial_regression() -> None:
    logits, labels = sample(5, classes=4)
    fitted = fit_platt(logits, labels, "matrix")
    theirs = LogisticRegression(C=math.inf, max_iter=10_000, tol=1e-10).fit(logits, labels)
    ours = softmax(logits @ fitted.weights.T + fitted.bias, axis=1)
    assert ours == pytest.approx(theirs.predict_proba(logits), abs=1e-4)


def test_vector_scaling_finds_the_truth_it_was_drawn_from() -> None:
    rng = np.random.default_rng(6)
    logits = rng.normal(0, 2, (40_000, 3))
    weights, bias = np.array([0.5, 1.0, 2.0]), np.array([0.3, -0.1, -0.2])
    labels = (softmax(weights * logits + bias, axis=1).cumsum(axis=1) > rng.random((40_000, 1))).argmax(axis=1)
    fitted = fit_platt(logits, labels, "vector")
    assert fitted.weights == pytest.approx(weights, abs=0.05)
    assert fitted.bias == pytest.approx(bias, abs=0.05)


@pytest.mark.parametrize("kind", ["vector", "matrix"])
def test_separable_examples_get_a_ridge_and_say_so(kind) -> None:
    logits, _ = sample(7)
    fitted = fit_platt(logits, logits.argmax(axis=1), kind)
    assert fitted.degenerate == "separable"
    assert fitted.ridge > 0
    assert np.isfinite(fitted.weights).all()
    # One class alone is separable by the bias.
    alone = fit_platt(logits, np.zeros(len(logits), int), kind)
    assert alone.degenerate == "separable"
    assert np.isfinite(alone.bias).all()
    assert fit_platt(np.full((5, 3), 2.0), np.array([0, 1, 2, 0, 1]), kind).degenerate is None
    assert fit_platt(np.empty((0, 3)), np.empty(0, int), kind).degenerate == "no_examples"
    with pytest.raises(ValueError, match="vector or matrix"):
        fit_platt(logits, logits.argmax(axis=1), "both")


def test_native_probabilities_are_what_an_attacker_out_of_the_box_sees() -> None:
    raw = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 5
    served = Scaling(design_temperature=0.01, is_native=True).probabilities(raw)
    assert served.dtype == torch.float32
    assert torch.equal(served, torch.softmax(raw / 0.01, dim=1))
    assert (served.max(dim=1).values == 1).float().mean() > 0.9
    sharp = Scaling(design_temperature=0.01, temperature=100.0).probabilities(raw)
    assert sharp.dtype == torch.float64
    assert torch.allclose(sharp, torch.softmax(raw.double(), dim=1), atol=1e-12)
    assert Scaling(is_native=True).probabilities(raw.double()).dtype == torch.float64


def test_float32_saturates_at_the_gap_the_specification_names() -> None:
    gaps = torch.tensor([[16.6, 0.0], [16.64, 0.0]])
    assert (Scaling(is_native=True).probabilities(gaps)[:, 0] == 1).tolist() == [False, True]
    assert (Scaling().probabilities(gaps)[:, 0] == 1).tolist() == [False, False]


@pytest.mark.parametrize(
    "scaling",
    [
        Scaling(is_native=True),
        Scaling(temperature=0.3),
        Scaling(weights=(0.1, 1.0, 3.0, 0.7, 1.1), bias=(0.0, 1.0, 2.0, 3.0, 4.0)),
        Scaling(
            weights=tuple(tuple(math.sin(5 * i + j) for j in range(5)) for i in range(5)),
            bias=(0.1, 0.2, 0.3, 0.4, 0.5),
        ),
    ],
)
def test_a_row_depends_on_itself_alone(scaling) -> None:
    raw = torch.randn(33, 5, generator=torch.Generator().manual_seed(1))
    together = scaling.probabilities(raw)
    assert torch.equal(together, torch.cat([scaling.probabilities(row[None]) for row in raw]))
    assert torch.allclose(together.sum(dim=1), torch.ones(33, dtype=together.dtype), atol=1e-6)


def test_matrix_weights_are_rows_of_outputs() -> None:
    weights = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])
    raw = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])
    scaled = Scaling(design_temperature=2.0, weights=as_tuple(weights), bias=(1.0, 0.0, -1.0)).logits(raw)
    assert scaled.numpy() == pytest.approx((raw.numpy() / 2) @ weights.T + [1.0, 0.0, -1.0])
    assert hash(Scaling(weights=as_tuple(weights), bias=(1.0, 0.0, -1.0)))


def test_the_interval_of_a_temperature_is_where_the_sample_would_be_unlikely() -> None:
    """Resampled fits agree, where the example that was not seen weighs next to nothing."""
    logits, labels = sample(8, n=600, classes=2)
    fitted = fit_temperature(logits, labels).temperature
    low, high = temperature_interval(logits, labels, fitted)
    rng = np.random.default_rng(9)
    drawn = [rng.integers(0, 600, 600) for _ in range(100)]
    fits = [fit_temperature(logits[one], labels[one]).temperature for one in drawn]
    assert (low, high) == pytest.approx(np.quantile(fits, [0.025, 0.975]), rel=0.15)
    assert low < fitted < high


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_interval_of_a_temperature_has_the_logits_units(scale: float) -> None:
    logits, labels = sample(3, n=100)
    fitted = fit_temperature(logits, labels).temperature
    low, high = temperature_interval(logits, labels, fitted)
    again = temperature_interval(scale * logits, labels, scale * fitted)
    assert again == pytest.approx((scale * low, scale * high), rel=1e-6)
    surer = temperature_interval(logits, labels, fitted, alpha=0.01)
    assert surer[0] < low < high < surer[1]
    assert temperature_interval(logits, labels, fitted, limits=(fitted, fitted)) == (fitted, fitted)


def test_few_errors_leave_a_temperature_wide_open() -> None:
    logits = np.tile([4.0, 0.0], (60, 1))
    one, two = (np.array([1] * wrong + [0] * (60 - wrong)) for wrong in (1, 12))
    intervals = [
        temperature_interval(logits, labels, fit_temperature(logits, labels).temperature) for labels in (one, two)
    ]
    assert intervals[0][0] < 4 / np.log(1 / (1 - 0.975 ** (1 / 60)))
    assert intervals[0][1] / intervals[0][0] > 1.5 * intervals[1][1] / intervals[1][0]


def test_the_interval_of_a_temperature_covers_the_truth() -> None:
    missed = 0
    for seed in range(60):
        logits, labels = sample(seed, n=150, classes=2, scale=2.0)
        low, high = temperature_interval(logits, labels, fit_temperature(logits, labels).temperature)
        missed += not low <= 2.0 <= high
    assert missed <= 6
