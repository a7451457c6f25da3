"""Each doubt is raised where it is due, says what to do, and is silent on a sound audit."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from seatrial.contracts.estimates import Estimate
from seatrial.families.certified_calibration.params import BOUNDS
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.fabricated import parameters, records
from workers.families.certified_calibration import flags
from workers.families.certified_calibration.estimates import estimate_all
from workers.families.certified_calibration.flags import doubt

ATTACKS = ["ace_lower_true", "ace_raise_predicted"]


def doubts(params, seed=0, change=None, **how) -> dict:
    """The flags by code; ``change`` is given the records of every stage."""
    done = records(params, **({"n": 60} | how))
    if change:
        change(done)
    certify, attacks = Sample(done["certify"]), {name: Sample(done[name]) for name in params.ace_attacks}
    found = doubt(params, certify, attacks, estimate_all(params, certify, attacks, seed))
    assert all(len(flag.message) > 100 for flag in found)
    return {flag.code: flag for flag in found}


def replaced(table: pa.Table, **columns) -> pa.Table:
    return pa.table({name: columns.get(name, table[name]) for name in table.column_names})


def value(number: float | None, n: int = 50) -> Estimate:
    return Estimate(value=number, low=None, high=None, n=n, method="none")


def test_a_sound_audit_is_only_told_what_its_guarantee_is() -> None:
    params = parameters(radii=[0.0, 0.1], bins=5, ace_attacks=ATTACKS, attack_radius=0.1)
    found = doubts(params, sureness=3.0)
    assert set(found) <= {"shared_noise", "per_example_alpha", "attack_far_below_certificate"}
    assert {flag.severity for flag in found.values()} == {"info"}


def test_nothing_is_said_of_alpha_and_noise_where_all_certificates_hold_at_once() -> None:
    params = parameters(radii=[0.0, 0.1], bins=5, joint=True, noise="independent")
    assert doubts(params, sureness=3.0) == {}


@pytest.mark.parametrize(
    ("changes", "alpha"),
    [({}, 0.001), ({"alpha": 0.01}, 0.01), ({"joint": True}, 0.001 / 120), ({"sampling": "adaptive"}, 0.0005)],
    ids=["plain", "looser", "joint", "adaptive"],
)
def test_the_reach_is_what_all_hits_certify(changes, alpha) -> None:
    params = parameters(radii=[0.25, 0.6, 0.75], **changes)
    certify = Sample(records(params, n=60)["certify"])
    assert flags.reach(params, certify) == pytest.approx(0.25 * norm.ppf(alpha ** (1 / 1000)))


def test_radii_out_of_reach_are_told_once_and_not_as_uncertified() -> None:
    found = doubts(parameters(radii=[0.1, 0.7, 0.75], bins=5), sureness=4.0)
    assert "radii 0.7, 0.75" in found["radius_out_of_reach"].message
    assert "0.616" in found["radius_out_of_reach"].message
    assert not {"no_certified_examples", "few_certified_examples"} & set(found)


def test_too_few_draws_for_any_certificate_put_even_radius_0_out_of_reach() -> None:
    """40 draws certify at an alpha of 1e-12, but not at the share of it that each of 60 examples has."""
    found = doubts(parameters(radii=[0.0, 0.1], bins=5, n=40, alpha=1e-12, joint=True), sureness=4.0)
    assert "radii 0, 0.1" in found["radius_out_of_reach"].message
    assert "err with probability 8.3e-15" in found["radius_out_of_reach"].message
    assert "no_certified_examples" not in found
    alone = doubts(parameters(radii=[0.0, 0.1], bins=5, n=40, alpha=1e-12), sureness=9.0)
    assert "radius 0.1:" in alone["radius_out_of_reach"].message


def test_radii_with_nobody_and_with_few_certified_are_told_apart() -> None:
    def alter(done) -> None:
        radius = np.asarray(done["certify"]["radius"]).clip(0, 0.5)
        done["certify"] = replaced(done["certify"], radius=pa.array(radius))

    found = doubts(parameters(radii=[0.0, 0.2, 0.55], bins=5), sureness=0.5, n=50, change=alter)
    assert "radius 0.55" in found["no_certified_examples"].message
    assert "at 0.2" in found["few_certified_examples"].message
    assert found["no_certified_examples"].severity == found["few_certified_examples"].severity == "warning"


@pytest.mark.parametrize(("sureness", "is_flagged"), [(0.0, True), (4.0, False)], ids=["unsure", "sure"])
def test_a_model_that_is_unsure_under_noise_abstains_often(sureness, is_flagged) -> None:
    assert ("abstains_often" in doubts(parameters(radii=[0.0], bins=5), sureness=sureness)) == is_flagged


@pytest.mark.parametrize(("clean", "is_flagged"), [(1.0, True), (0.4, False)], ids=["better", "worse"])
def test_a_model_much_better_without_noise_was_not_trained_for_it(clean, is_flagged) -> None:
    found = doubts(parameters(radii=[0.0], bins=5), sureness=1.0, clean_accuracy=clean)
    assert ("not_trained_for_noise" in found) == is_flagged


def test_a_model_is_not_blamed_for_abstaining_for_want_of_draws() -> None:
    def alter(done) -> None:
        table = done["certify"]
        nobody = pa.array(np.full(table.num_rows, -1))
        done["certify"] = replaced(table, predicted_class=nobody, candidate=table["clean_prediction"])

    assert "not_trained_for_noise" not in doubts(parameters(radii=[0.0], bins=5), clean_accuracy=1.0, change=alter)


def test_a_difference_of_a_handful_of_examples_may_be_chance() -> None:
    def alter(done) -> None:
        table = done["certify"]
        label = np.asarray(table["label"])
        predicted = np.where(np.arange(len(label)) < 3, label + 1, label)
        done["certify"] = replaced(table, clean_prediction=pa.array(label), predicted_class=pa.array(predicted))

    assert "not_trained_for_noise" not in doubts(parameters(radii=[0.0], bins=5), n=20, change=alter)
    assert flags.LOST < 3 / 20


@pytest.mark.parametrize("name", ATTACKS)
def test_a_confidence_out_of_its_interval_is_an_error(name) -> None:
    params = parameters(radii=[0.0, 0.1], bins=5, ace_attacks=ATTACKS)

    def alter(done) -> None:
        table = done[name]
        confidence = np.where(np.asarray(table["attacked"]), 0.02, np.nan)
        done[name] = replaced(table, confidence=pa.array(confidence, from_pandas=True))

    flag = doubts(params, change=alter)["attack_beyond_certificate"]
    assert flag.severity == "error"
    assert name in flag.message
    assert "attack_beyond_certificate" not in doubts(params)


@pytest.mark.parametrize(("excess", "is_flagged"), [(0.0, False), (0.06, True)], ids=["chance", "more"])
def test_draws_that_all_came_out_alike_may_still_miss_a_rare_one(excess, is_flagged) -> None:
    params = parameters(radii=[0.1], bins=5, ace_attacks=["ace_raise_true"])

    def alter(done) -> None:
        lifted = np.asarray(done["certify"]["upper[bound=standard,radius=0.1]"]).clip(0, 0.9)
        columns = {f"upper[bound={bound},radius=0.1]": pa.array(lifted) for bound in BOUNDS}
        columns |= {f"lower[bound={bound},radius=0.1]": pa.array(0 * lifted) for bound in BOUNDS}
        done["certify"] = replaced(done["certify"], **columns)
        table = done["ace_raise_true"]
        attacked = np.asarray(table["attacked"])
        confidence = np.where(attacked, lifted + 0.005 + excess, np.nan)
        nothing = np.where(attacked, 0.0, np.nan)
        done["ace_raise_true"] = replaced(
            table, confidence=pa.array(confidence, from_pandas=True), standard_error=pa.array(nothing, from_pandas=True)
        )

    assert ("attack_beyond_certificate" in doubts(params, change=alter)) == is_flagged


@pytest.mark.parametrize(("reached", "is_flagged"), [(0.05, True), (0.15, False), (None, False)])
def test_an_attack_that_leaves_much_open_is_noted(reached, is_flagged) -> None:
    params = parameters(radii=[0.1], ace_attacks=["ace_lower_true"])
    estimates = {"cce[radius=0.1]": value(0.2), "ece[attack=ace_lower_true,radius=0.1]": value(reached)}
    found = flags.attack_far_below_certificate(params, {"ace_lower_true": None}, estimates)
    assert bool(found) == is_flagged


def test_what_admm_finds_is_told_as_a_share_of_the_exact_value() -> None:
    params = parameters(radii=[0.0, 0.1, 0.2], solvers=["admm"])
    estimates = {
        "cce[radius=0]": value(0.1),
        "acce[radius=0]": value(0.08),
        "cce[radius=0.1]": value(0.2),
        "acce[radius=0.1]": value(0.2),
        "cce[radius=0.2]": value(None, 0),
        "acce[radius=0.2]": value(None, 0),
    }
    (flag,) = flags.admm_below_exact(params, estimates)
    assert "80.0% of the exact worst calibration error at radius 0," in flag.message
    assert "90.0% over 2 radii" in flag.message
    assert flags.admm_below_exact(params, {}) == []


def test_how_many_certificates_may_be_wrong_is_told() -> None:
    assert "up to 0.06 of each" in doubts(parameters(radii=[0.0], bins=5))["per_example_alpha"].message


def test_adaptive_sampling_and_reduced_precision_are_noted() -> None:
    def alter(done) -> None:
        done["certify"] = replaced(done["certify"], in_bfloat16=pa.array(np.ones(60, dtype=bool)))

    found = doubts(parameters(radii=[0.0], bins=5, sampling="adaptive", n=400), change=alter)
    assert "of 400 allowed" in found["adaptive_intervals"].message
    assert found["reduced_precision"].severity == "info"


def test_graver_doubts_come_first() -> None:
    def alter(done) -> None:
        confidence = np.where(np.asarray(done["ace_lower_true"]["attacked"]), 0.0, np.nan)
        done["ace_lower_true"] = replaced(done["ace_lower_true"], confidence=pa.array(confidence, from_pandas=True))

    params = parameters(radii=[0.1, 0.75], bins=5, ace_attacks=["ace_lower_true"], attack_radius=0.1)
    severities = [flag.severity for flag in doubts(params, change=alter).values()]
    assert severities[0] == "error"
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
