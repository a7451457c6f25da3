"""What a check accepts, what it says otherwise, and what it costs."""

from typing import Any

import pytest
from pydantic import ValidationError

from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, CertifiedCalibrationParams


def parameters(**changes: Any) -> CertifiedCalibrationParams:
    return CertifiedCalibrationParams.model_validate({"kind": "certified_calibration"} | changes)


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"sigma": 0}, "sigma", "greater than or equal to 0.001"),
        ({"n": 5}, "n", "greater than or equal to 10"),
        ({"alpha": 0.5}, "alpha", "less than or equal to 0.2"),
        ({"radii": []}, "radii", "at least 1 item"),
        ({"radii": [0.5, 0.25]}, "radii", "radii must ascend and differ in six digits: 0.25 follows 0.5"),
        ({"radii": [0.5, 0.5]}, "radii", "must ascend"),
        ({"radii": [1000.0001, 1000.0002]}, "radii", "must ascend"),
        ({"radii": [-1.0]}, "radii", "greater than or equal to 0"),
        ({"bins": 0}, "bins", "greater than or equal to 1"),
        ({"sampling": "some"}, "sampling", "'fixed' or 'adaptive'"),
        ({"confidence_bound": "hoeffding"}, "confidence_bound", "'cdf', 'dkw' or 'standard'"),
        ({"noise": "none"}, "noise", "'shared' or 'independent'"),
        ({"solvers": ["admm", "admm"]}, "solvers", "differ"),
        ({"ace_attacks": ["ace"]}, "ace_attacks", "ace_lower_true"),
        ({"ace_attacks": ["ace_lower_true"] * 2}, "ace_attacks", "differ"),
        (
            {"ace_attacks": ["ace_lower_true"], "attack_radius": 0.3},
            "attack_radius",
            "must be one of the radii above 0",
        ),
        ({"attack_radius": 0.0}, "attack_radius", "must be one of the radii above 0"),
        ({"sigmas": 1}, "sigmas", "not permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_names_the_field_and_what_would_be_right(changes: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        parameters(**changes)
    (error,) = [one for one in refused.value.errors() if one["loc"][0] == field][:1]
    assert told in error["msg"]


def test_the_exact_solver_is_always_among_the_solvers_and_first() -> None:
    assert parameters(solvers=[]).solvers == ["exact"]
    assert parameters(solvers=["admm", "exact"]).solvers == ["exact", "admm"]


def test_the_attack_radius_is_said_when_it_is_left_out() -> None:
    assert parameters(ace_attacks=["ace_lower_true"], sigma=0.25).attack_radius == 0.25
    assert parameters(ace_attacks=["ace_lower_true"], sigma=0.01).attack_radius == 0.05
    assert parameters().attack_radius is None


def test_an_attack_needs_a_radius_to_attack_at() -> None:
    with pytest.raises(ValidationError, match="a radius above 0"):
        parameters(radii=[0.0], ace_attacks=["ace_lower_true"])


def test_what_is_stored_can_be_run_again() -> None:
    once = parameters(ace_attacks=["ace_raise_true"], solvers=["dece"])
    assert CertifiedCalibrationParams.model_validate(once.model_dump(mode="json")) == once


def test_passes_count_every_draw_and_every_step() -> None:
    assert parameters(n=1000, n0=100).passes(50, {})[:2] == (50 * 1101, 0)
    attacked = parameters(
        n=5000, n0=100, ace_attacks=["ace_lower_true", "ace_raise_true"], attack_steps=10, attack_draws=4
    ).passes(50, {})
    assert attacked.backward == 2 * 50 * 40
    assert attacked.forward == 50 * 5101 + 2 * 50 * (40 + 4 + ATTACKED_DRAWS)


def test_the_estimate_knows_what_noise_and_solvers_cost() -> None:
    plain = parameters(n=1000).passes(100, {})
    assert parameters(n=1000, noise="independent").passes(100, {}).slowdown > plain.slowdown > 1
    admm = parameters(n=1000, solvers=["admm"]).passes(100, {})
    assert admm.compute_s > plain.compute_s + len(parameters().radii) * 4
    assert parameters(n=1000, solvers=["dece"]).passes(100, {}).compute_s > plain.compute_s
