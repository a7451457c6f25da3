"""The curves behind the figures say what the estimates say, and can be recomputed from what they list."""

import json

import numpy as np
import pytest

from seatrial.families.certified_calibration.params import BOUNDS
from tests.families.certified_calibration.fabricated import parameters, samples
from workers.families.certified_calibration import series
from workers.families.certified_calibration.estimates import estimate_all
from workers.families.certified_calibration.series import make_series

PARAMS = parameters(radii=[0.0, 0.1, 0.25, 0.4, 0.75], bins=6, ace_attacks=["ace_lower_true"])


@pytest.fixture(scope="module")
def audit():
    return samples(PARAMS, n=80, errored=frozenset({1}))


@pytest.fixture(scope="module")
def made(audit):
    return make_series(PARAMS, *audit)


@pytest.fixture(scope="module")
def found(audit):
    return estimate_all(PARAMS, *audit, 0)


def rescored(diagram) -> float:
    """The calibration error a reliability diagram shows."""
    bins = zip(diagram["count"], diagram["accuracy"], diagram["confidence"], strict=True)
    return sum(n * abs(accuracy - confidence) for n, accuracy, confidence in bins if n) / sum(diagram["count"])


def test_curves_repeat_the_estimates(made, found) -> None:
    for point in made["curves"]:
        for name in ("certified_accuracy", "certified_share", "cce", "cbs", "ece"):
            estimate = found[f"{name}[radius={point['radius']:g}]"]
            assert point[name] == (None if estimate.value is None else pytest.approx(estimate.value))
        assert point["n"] == found[f"cce[radius={point['radius']:g}]"].n
    for widths in made["interval_width"]:
        for bound in BOUNDS:
            estimate = found[f"interval_width[bound={bound},radius={widths['radius']:g}]"]
            assert widths[bound] == pytest.approx(estimate.value)


def test_everything_is_json_without_nan(made) -> None:
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_the_fine_curve_falls_from_all_that_are_certified_to_nobody(made, audit) -> None:
    curve = made["fine_curve"]
    assert (curve[0]["radius"], curve[-1]["radius"]) == (0, 0.75)
    for name in ("certified_accuracy", "certified_share"):
        assert np.all(np.diff([point[name] for point in curve]) <= 0)
    assert curve[0]["certified_share"] == made["curves"][0]["certified_share"]
    assert curve[-1]["certified_share"] == 0


def test_the_fine_curve_goes_on_to_the_largest_radius_reached() -> None:
    params = parameters(radii=[0.1], bins=6)
    certify, _ = samples(params, n=30)
    curve = make_series(params, certify, {})["fine_curve"]
    assert curve[-1]["radius"] == certify.floats("radius").max() > 0.1
    assert curve[-1]["certified_share"] > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("bound", BOUNDS)
def test_over_the_same_examples_the_bounds_never_fall_with_the_radius(seed, bound) -> None:
    params = parameters(radii=[0.0, 0.1, 0.2, 0.3, 0.4], bins=15, n=400, confidence_bound=bound)
    certify, _ = samples(params, n=60, seed=seed)
    fixed = make_series(params, certify, {})["fixed_subset"]
    assert [point["radius"] for point in fixed["points"]] == [r for r in params.radii if r <= fixed["radius"]]
    for name in ("cce", "cbs"):
        values = [point[name] for point in fixed["points"]]
        assert np.all(np.diff(values) >= -1e-12)
        assert values[-1] > values[0]


def test_the_fixed_subset_ends_in_the_estimate_of_its_radius(made, found) -> None:
    fixed = made["fixed_subset"]
    assert fixed["radius"] == 0.4
    assert fixed["n"] == found["cce[radius=0.4]"].n >= series.ENOUGH
    assert fixed["points"][-1]["cce"] == found["cce[radius=0.4]"].value
    assert fixed["points"][0]["cce"] != found["cce[radius=0]"].value


def test_a_fixed_subset_too_small_everywhere_is_still_shown() -> None:
    params = parameters(radii=[0.0, 0.25], bins=6)
    certify, _ = samples(params, n=8)
    fixed = make_series(params, certify, {})["fixed_subset"]
    assert fixed["radius"] == 0.25
    assert 0 < fixed["n"] <= 8


def test_both_diagrams_can_be_scored_again(made, found) -> None:
    reliability = made["reliability"]
    assert (reliability["radius"], reliability["chosen"]) == (0.25, "attack_radius")
    assert rescored(reliability["clean"]) == pytest.approx(found["ece[radius=0.25]"].value)
    assert rescored(reliability["worst"]) == pytest.approx(found["cce[radius=0.25]"].value)
    assert sum(reliability["worst"]["count"]) == sum(reliability["clean"]["count"]) == reliability["n"]


def test_the_worst_case_is_listed_example_by_example(made, found, audit) -> None:
    worst = made["worst_case"]
    certify, _ = audit
    assert worst["n"] == len(worst["example_id"]) == found["cce[radius=0.25]"].n
    at = {int(example): row for row, example in enumerate(certify["example_id"])}
    errors = np.zeros(PARAMS.bins)
    columns = ("example_id", "bin", "sign", "confidence", "correct")
    for example, m, sign, confidence, correct in zip(*(worst[name] for name in columns), strict=True):
        row = at[example]
        ends = [certify.floats(f"{side}[bound=cdf,radius=0.25]")[row] for side in ("lower", "upper")]
        assert ends[0] <= confidence <= ends[1]
        assert m / PARAMS.bins - 1e-12 <= confidence <= (m + 1) / PARAMS.bins + 1e-12
        assert correct == (certify["candidate"][row] == certify["label"][row])
        errors[m] += sign * (confidence - correct)
    assert errors.sum() / worst["n"] == pytest.approx(found["cce[radius=0.25]"].value)


def test_only_so_many_of_a_worst_case_are_listed(audit, monkeypatch) -> None:
    monkeypatch.setattr(series, "LISTED", 5)
    worst = make_series(PARAMS, *audit)["worst_case"]
    assert {len(worst[name]) for name in ("example_id", "bin", "sign", "confidence", "correct")} == {5}
    assert worst["n"] > 5


@pytest.mark.parametrize(
    ("radii", "sureness", "shown"),
    [([0.0, 0.1, 0.75], 2.0, (0.1, "half_certified")), ([0.3, 0.75], 0.5, (0.3, "any_certified"))],
    ids=["half", "any"],
)
def test_without_an_attack_the_radius_shown_is_one_that_certifies_many(radii, sureness, shown) -> None:
    params = parameters(radii=radii, bins=6)
    reliability = make_series(params, *samples(params, n=30, sureness=sureness))["reliability"]
    assert (reliability["radius"], reliability["chosen"]) == shown


def test_draws_are_counted_and_those_of_adaptive_sampling_shown() -> None:
    params = parameters(sampling="adaptive", n=800, radii=[0.1])
    certify, _ = samples(params, n=20)
    sampling = make_series(params, certify, {})["sampling"]
    draws = certify["draws"].tolist()
    assert sampling["histogram"]["draws"] == [200, 800]
    assert sampling["histogram"]["examples"] == [draws.count(200), draws.count(800)]
    assert (sampling["total"], sampling["allowed"]) == (sum(draws), 800)
    assert sampling["mean"] == sum(draws) / 20
    assert sampling["median"] == np.median(draws)
    assert "histogram" not in make_series(PARAMS, *samples(PARAMS, n=3))["sampling"]
