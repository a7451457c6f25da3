"""The stage ``certify`` against closed forms, and against itself however it is cut."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from seatrial.families.certified_calibration.params import BOUNDS
from tests.families.certified_calibration.audits import (
    DATA,
    IMAGES,
    LINEAR,
    NETWORK,
    WEIGHTS,
    margins,
    measure,
    parameters,
)
from tests.families.in_memory import Model
from workers.certification.anytime import geometric_schedule
from workers.certification.bernoulli import predict
from workers.certification.confidence import slack
from workers.families.certified_calibration.certify import certificate_alpha
from workers.families.certified_calibration.records import column_of
from workers.families.contexts import Records

SIGMA = 0.25

MARK = 0.123456
"""Off the grid: no noisy copy has it."""


def certify(params, model=NETWORK, data=DATA, **more) -> Records:
    return measure(params, model, data, **more)["certify"]


def floats(records: Records, name: str) -> np.ndarray:
    return records[name].to_numpy().astype(np.float64)


N = 20_000
"""Draws for each image of the linear classifier."""


@pytest.fixture(scope="module")
def linear() -> Records:
    """Certificates of the linear classifier, whose every number is known."""
    return certify(parameters(n=N, noise="independent"), LINEAR, (IMAGES, (margins() > 0).long()))


@pytest.mark.slow
def test_a_linear_classifier_gets_the_radius_of_its_closed_form(linear: Records) -> None:
    """P(class) = Phi(margin / sigma), so R = margin: never more than that, and as near as 20,000 draws can show."""
    n, records = N, linear
    # Near the boundary the selection may pick the other class, whose margin is negative.
    true = np.where(records["candidate"].to_numpy() == 1, 1, -1) * margins().numpy()
    p = norm.cdf(true / SIGMA)
    known = ~records["abstained"].to_numpy()
    # Five standard errors below, and the one-sided bound another 3.1 of them.
    error = 8.2 * np.sqrt(p * (1 - p) / n) + 10 / n
    assert (floats(records, "p_lower") <= p).all()
    assert (floats(records, "p_lower") >= p - error).all()
    assert (floats(records, "radius")[known] <= true[known]).all()
    assert known.sum() > 18


@pytest.mark.slow
def test_a_linear_classifier_is_as_sure_as_the_integral_says(linear: Records) -> None:
    n, records = N, linear
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    scale = 2 * float(WEIGHTS.double().norm())
    side = np.where(records["candidate"].to_numpy() == 1, 1, -1)
    towards = side * margins().numpy()
    expected = (1 / (1 + np.exp(-scale * (towards[:, None] + SIGMA * nodes)))) @ weights / weights.sum()
    np.testing.assert_allclose(floats(records, "confidence"), expected, atol=5 * 0.5 / np.sqrt(n))


@pytest.mark.slow
def test_the_certified_interval_of_a_linear_classifier_holds_the_shifted_confidence(
    linear: Records,
) -> None:
    """The worst perturbation of a linear classifier is known: along its weights."""
    params, records = parameters(n=N, noise="independent"), linear
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    scale = 2 * float(WEIGHTS.double().norm())
    side = np.where(records["candidate"].to_numpy() == 1, 1, -1)
    for radius in params.radii:
        for moved, end in ((-radius, "lower"), (radius, "upper")):
            towards = side * margins().numpy() + moved
            reached = (1 / (1 + np.exp(-scale * (towards[:, None] + SIGMA * nodes)))) @ weights / weights.sum()
            for bound in BOUNDS:
                certified = floats(records, column_of(end, bound, radius))
                assert (certified <= reached if end == "lower" else certified >= reached).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "sampling"),
    [
        ("shared", "adaptive"),
        ("independent", "fixed"),
        pytest.param("shared", "fixed", marks=pytest.mark.drill),
        pytest.param("independent", "adaptive", marks=pytest.mark.drill),
    ],
)
def test_no_cut_changes_a_certificate(noise: str, sampling: str) -> None:
    params = parameters(noise=noise, sampling=sampling)
    whole = certify(params)
    assert certify(params, shards=5).equals(whole)
    assert certify(params, batch_size=3).equals(whole)


@pytest.mark.slow
def test_independent_noise_differs_between_equal_images_and_shared_noise_does_not() -> None:
    twins = (IMAGES[:1].repeat(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64))
    shared = floats(certify(parameters(noise="shared"), data=twins), "confidence")
    independent = floats(certify(parameters(noise="independent"), data=twins), "confidence")
    assert len(set(shared)) == 1
    assert len(set(independent)) == 4


@pytest.mark.slow
def test_adaptive_sampling_spares_draws_and_decides_alike() -> None:
    fixed = certify(parameters(n=20_000))
    adaptive = certify(parameters(n=20_000, sampling="adaptive"))
    assert floats(adaptive, "draws").sum() < 0.7 * floats(fixed, "draws").sum()
    decisions = [
        [(floats(records, "radius") >= radius) & ~records["abstained"].to_numpy() for radius in parameters().radii]
        for records in (fixed, adaptive)
    ]
    assert np.mean(np.array(decisions[0]) == np.array(decisions[1])) >= 0.98


def test_what_rests_on_scores_errs_with_no_more_than_its_look_may() -> None:
    """Near the boundary, where draws go on to the end, and far from it, where they stop early."""
    params = parameters(sampling="adaptive", n=1000, alpha=0.1, noise="independent", radii=[0.0, 0.1])
    towards = torch.cat([torch.linspace(0, 0.03, 80), torch.full((4,), 0.5)]).view(-1, 1, 1, 1)
    images = 0.5 + towards * (WEIGHTS / WEIGHTS.norm()).view(1, 1, 4, 4)
    records = certify(params, LINEAR, (images, torch.ones(84, dtype=torch.int64)))
    schedule = geometric_schedule(1000, 0.1)
    draws, hits, candidate = (records[name].to_numpy() for name in ("draws", "hits", "candidate"))
    alpha = np.array([schedule.score_alphas[schedule.checkpoints.index(one)] for one in draws])
    assert len(set(alpha)) > 1
    counts = np.where(candidate[:, None] == [0, 1], hits[:, None], (draws - hits)[:, None])
    predicted = records["predicted_class"].to_numpy()
    assert (predicted == predict(counts, alpha=alpha)).all()
    assert (predicted != predict(counts, alpha=0.1)).any()
    expected = floats(records, "confidence") - slack(draws, alpha)
    np.testing.assert_allclose(floats(records, column_of("lower", "standard", 0.0)), expected, atol=1e-8)


@pytest.mark.slow
def test_joint_certificates_are_made_at_a_share_of_alpha() -> None:
    params = parameters(joint=True, alpha=0.01)
    assert certificate_alpha(params, 24) == pytest.approx(0.01 / 48)
    assert certificate_alpha(parameters(alpha=0.01), 24) == 0.01
    single, joint = certify(parameters(alpha=0.01)), certify(params)
    assert (floats(joint, "p_lower") < floats(single, "p_lower")).all()
    for column in (column_of("lower", "cdf", 0.1), column_of("lower", "standard", 0.1)):
        assert (floats(joint, column) <= floats(single, column)).all()


@pytest.mark.slow
def test_the_two_certificates_agree_with_each_other() -> None:
    records = certify(parameters())
    previous = None
    for radius in parameters().radii:
        ends = {
            (side, bound): floats(records, column_of(side, bound, radius))
            for side in ("lower", "upper")
            for bound in BOUNDS
        }
        # The histogram's cells are 2^-14 wide.
        assert (ends["lower", "dkw"] >= ends["lower", "standard"] - 2**-14).all()
        assert (ends["upper", "dkw"] <= ends["upper", "standard"] + 2**-14).all()
        for bound in BOUNDS if previous is not None else ():
            assert (ends["lower", bound] <= previous["lower", bound]).all()
            assert (ends["upper", bound] >= previous["upper", bound]).all()
        previous = ends


@pytest.mark.slow
def test_an_example_whose_noisy_outputs_are_not_finite_is_errored_alone() -> None:
    def breaks(images: torch.Tensor) -> torch.Tensor:
        logits = NETWORK.logits(images)
        dark = images.flatten(1)[:, 0] < 0.3
        return torch.where(dark.unsqueeze(1), torch.nan, logits)

    images = IMAGES.clone()
    images[:, 0, 0, 0] = 5.0
    images[3, 0, 0, 0] = 0.5
    records = certify(parameters(), Model(breaks, 4), (images, DATA[1]))
    assert records["errored"].to_pylist() == [row == 3 for row in range(24)]
    assert records["radius"].to_pylist()[3] is None
    assert records["abstained"].to_pylist()[3] is None


@pytest.mark.slow
def test_an_example_without_a_finite_output_on_the_image_itself_is_errored() -> None:
    def breaks(images: torch.Tensor) -> torch.Tensor:
        is_marked = images.flatten(1)[:, 0] == MARK
        return torch.where(is_marked.unsqueeze(1), torch.inf, NETWORK.logits(images))

    images = IMAGES.clone()
    images[5, 0, 0, 0] = MARK
    records = certify(parameters(), Model(breaks, 4), (images, DATA[1]))
    assert records["errored"].to_pylist() == [row == 5 for row in range(24)]


@pytest.mark.slow
def test_bfloat16_is_said_in_the_records() -> None:
    records = certify(parameters(), autocast=torch.bfloat16)
    assert set(records["in_bfloat16"].to_pylist()) == {True}
    exact = certify(parameters())
    alike = floats(records, "candidate") == floats(exact, "candidate")
    assert alike.mean() > 0.9
    np.testing.assert_allclose(floats(records, "confidence")[alike], floats(exact, "confidence")[alike], atol=0.02)
