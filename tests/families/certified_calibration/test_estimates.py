"""Every estimate a second time, by loops over the records or by another library; and every way of having none."""

import itertools
import json
import math
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import torch
from torchmetrics.functional.classification import binary_calibration_error

from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration.metrics import METRICS
from seatrial.families.certified_calibration.params import BOUNDS
from seatrial.families.certified_calibration.uncertainty import METRICS as ALL_CLASSES
from seatrial.families.shared.robust_accuracy import METRICS as ROBUST_ACCURACY
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.fabricated import CLASSES, parameters, records, samples
from workers.families.certified_calibration import estimates, series
from workers.families.certified_calibration.estimates import estimate_all
from workers.families.certified_calibration.flags import doubt
from workers.families.certified_calibration.sample import certified_at, shown_radius, worst_value

BINS = 5
RADII = [0.0, 0.1, 0.25, 0.5, 0.75]
PARAMS = parameters(bins=BINS, radii=RADII, ace_attacks=["ace_lower_true", "ace_raise_predicted"])
ERRORED = frozenset({3, 40})


@pytest.fixture(scope="module")
def done():
    return records(PARAMS, n=90, errored=ERRORED)


@pytest.fixture(scope="module")
def audit(done):
    return Sample(done["certify"]), {name: Sample(done[name]) for name in PARAMS.ace_attacks}


@pytest.fixture(scope="module")
def found(audit):
    return estimate_all(PARAMS, *audit, 0)


@pytest.fixture(scope="module")
def rows(done) -> list[dict]:
    return [row for row in done["certify"].to_pylist() if not row["errored"]]


def result(params, certify, attacks, seed=0) -> Result:
    estimates = estimate_all(params, certify, attacks, seed)
    flags = doubt(params, certify, attacks, estimates)
    return Result(
        estimates=estimates,
        series=series.make_series(params, certify, attacks),
        flags=flags,
        counts={"n": certify.size},
    )


def at(rows, radius, bound="cdf"):
    """The (lower, upper, confidence, correct) of those certified at a radius."""
    return [
        (
            row[f"lower[bound={bound},radius={radius:g}]"],
            row[f"upper[bound={bound},radius={radius:g}]"],
            row["confidence"],
            row["candidate"] == row["label"],
        )
        for row in rows
        if row["certified_class"] != -1 and row["radius"] >= radius
    ]


def most(lower, upper, right, signs):
    """The most that an example adds to errors of the given signs, over the closed bins its interval meets."""
    best = -math.inf
    for m, sign in enumerate(signs):
        low, high = max(lower, m / BINS), min(upper, (m + 1) / BINS)
        if low <= high:
            best = max(best, high - right if sign > 0 else right - low)
    return best


def worst(examples, free=0):
    """The certified calibration error by enumeration of signs; free examples do what they like."""
    found = -math.inf
    for signs in itertools.product((-1, 1), repeat=BINS):
        total = sum(most(lower, upper, right, signs) for lower, upper, _, right in examples)
        total += free * max(most(1 / CLASSES**2, 1.0, right, signs) for right in (0, 1)) if free else 0
        found = max(found, total)
    return found / (len(examples) + free)


@pytest.fixture
def _short_admm(monkeypatch):
    monkeypatch.setattr(estimates, "admm_calibration_error", partial(estimates.admm_calibration_error, steps=100))


def ece(confidence, correct):
    values, hits = torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct, dtype=torch.int64)
    return binary_calibration_error(values, hits, n_bins=BINS, norm="l1").item()


@pytest.mark.usefixtures("_short_admm")
def test_every_metric_is_published_under_its_name_and_no_other() -> None:
    params = parameters(radii=[0.25], bins=3, n=200, solvers=["admm", "dece", "brier"], ace_attacks=["ace_lower_true"])
    found = estimate_all(params, *samples(params, n=8), 0)
    qualified = {
        f"{name}[{','.join(part.split('=')[0] for part in inside[:-1].split(','))}]"
        for name, _, inside in (key.partition("[") for key in found)
        if inside
    }
    plain = {key for key in found if "[" not in key}
    own = [metric for metric in METRICS if metric not in (*ROBUST_ACCURACY, *ALL_CLASSES)]
    told = {f"{metric.name}[{','.join(metric.qualifiers)}]" for metric in own if metric.qualifiers}
    assert qualified == told
    assert plain == {metric.name for metric in own if not metric.qualifiers}


@pytest.mark.usefixtures("_short_admm")
def test_what_the_other_solvers_find_is_no_more_than_the_exact_value_and_has_no_interval() -> None:
    params = parameters(radii=[0.1], bins=4, n=200, solvers=["admm", "dece", "brier"])
    found = estimate_all(params, *samples(params, n=12, sureness=1.0), 0)
    exact, clean = found["cce[radius=0.1]"], found["ece[radius=0.1]"]
    for name in ("acce", "dece"):
        estimate = found[f"{name}[radius=0.1]"]
        assert clean.value - 1e-9 <= estimate.value <= exact.value + 1e-9
        assert (estimate.low, estimate.high, estimate.method, estimate.n) == (None, None, "none", exact.n)


@pytest.mark.parametrize("radius", RADII)
def test_certified_accuracy_and_share_count_all_examples(found, rows, radius) -> None:
    reached = at(rows, radius)
    for name, hits in (("certified_share", len(reached)), ("certified_accuracy", sum(one[3] for one in reached))):
        estimate = found[f"{name}[radius={radius:g}]"]
        assert (estimate.value, estimate.n) == (hits / len(rows), len(rows))
        assert (estimate.low, estimate.high) == clopper_pearson(hits, len(rows))


@pytest.mark.parametrize("radius", RADII)
def test_cce_is_the_worst_over_all_signs(found, rows, radius) -> None:
    reached = at(rows, radius)
    estimate = found[f"cce[radius={radius:g}]"]
    assert estimate.n == len(reached)
    if reached:
        assert estimate.value == pytest.approx(worst(reached), abs=1e-12)
        assert estimate.low <= estimate.value <= estimate.high <= 1
    else:
        assert (estimate.value, estimate.low, estimate.high, estimate.method) == (None, None, None, "none")


@pytest.mark.parametrize("radius", RADII)
def test_the_system_s_worst_case_frees_whoever_is_not_certified(found, rows, radius) -> None:
    reached = at(rows, radius)
    estimate = found[f"cce_system[radius={radius:g}]"]
    assert estimate.value == pytest.approx(worst(reached, len(rows) - len(reached)), abs=1e-12)
    assert estimate.n == len(rows)
    assert estimate.low <= estimate.value <= estimate.high <= 1


def test_the_bound_asked_for_is_the_one_calibration_rests_on(audit, rows) -> None:
    params = PARAMS.model_copy(update={"confidence_bound": "standard"})
    found = estimate_all(params, *audit, 0)
    assert found["cce[radius=0.25]"].value == pytest.approx(worst(at(rows, 0.25, "standard")), abs=1e-12)


@pytest.mark.parametrize("radius", RADII[:-1])
def test_brier_scores_and_widths_are_what_loops_give(found, rows, radius) -> None:
    reached = at(rows, radius)
    squares = [(1 - lower) ** 2 if right else upper**2 for lower, upper, _, right in reached]
    assert found[f"cbs[radius={radius:g}]"].value == pytest.approx(sum(squares) / len(squares))
    answered = [row for row in rows if row["certified_class"] != -1]
    for bound in BOUNDS:
        ends = [[row[f"{side}[bound={bound},radius={radius:g}]"] for row in answered] for side in ("lower", "upper")]
        widths = [upper - lower for lower, upper in zip(*ends, strict=True)]
        estimate = found[f"interval_width[bound={bound},radius={radius:g}]"]
        assert (estimate.value, estimate.n) == (pytest.approx(sum(widths) / len(widths)), len(answered))


@pytest.mark.parametrize("radius", RADII[:-1])
def test_calibration_errors_are_those_of_a_second_library(found, rows, radius) -> None:
    lower, upper, confidence, correct = zip(*at(rows, radius), strict=True)
    assert found[f"ece[radius={radius:g}]"].value == pytest.approx(ece(confidence, correct), abs=1e-9)
    worst_brier = np.where(correct, lower, upper)
    assert found[f"brier_ece[radius={radius:g}]"].value == pytest.approx(ece(worst_brier, correct), abs=1e-9)


def test_what_holds_without_an_attack_is_counted_over_the_right_examples(found, rows) -> None:
    answered = at(rows, 0.0)
    _, _, confidence, correct = zip(*answered, strict=True)
    value = {name: estimate.value for name, estimate in found.items()}
    assert value["accuracy"] == sum(row["predicted_class"] == row["label"] for row in rows) / len(rows)
    assert value["abstention_rate"] == sum(row["certified_class"] == -1 for row in rows) / len(rows)
    assert value["ece"] == pytest.approx(ece(confidence, correct), abs=1e-9)
    assert value["brier"] == pytest.approx(np.mean([(z - c) ** 2 for _, _, z, c in answered]))
    radii = [row["radius"] if row["certified_class"] == row["label"] else 0 for row in rows]
    assert value["average_certified_radius"] == pytest.approx(sum(radii) / len(rows))
    assert found["ece"].n == found["brier"].n == len(answered)


def test_an_attack_stays_below_the_certificate_on_the_same_examples(found, done, rows) -> None:
    candidates = {row["example_id"]: row["candidate"] == row["label"] for row in rows}
    for name in PARAMS.ace_attacks:
        attacked = [row for row in done[name].to_pylist() if not row["errored"] and row["attacked"]]
        correct = [candidates[row["example_id"]] for row in attacked]
        confidence = [row["confidence"] for row in attacked]
        reached, brier = (found[f"{metric}[attack={name},radius=0.25]"] for metric in ("ece", "brier"))
        assert reached.n == brier.n == len(attacked) == found["cce[radius=0.25]"].n
        assert reached.value == pytest.approx(ece(confidence, correct), abs=1e-9)
        assert brier.value == pytest.approx(np.mean((np.array(confidence) - correct) ** 2))
        assert reached.value <= found["cce[radius=0.25]"].value
        assert brier.value <= found["cbs[radius=0.25]"].value
    lowered = found["ece[attack=ace_lower_true,radius=0.25]"].value
    assert lowered > found["ece[radius=0.25]"].value


def test_an_attack_that_errored_on_an_example_is_measured_on_the_others(audit, done) -> None:
    table = done["ace_lower_true"]
    errored = np.asarray(table["errored"]) | (np.arange(table.num_rows) % 2 == 0)
    columns = {name: table[name] for name in table.column_names} | {"errored": pa.array(errored)}
    attacks = {"ace_lower_true": Sample(pa.table(columns))}
    found = estimate_all(PARAMS, audit[0], attacks, 0)
    rows = [row for row, missing in zip(table.to_pylist(), errored, strict=True) if not missing and row["attacked"]]
    assert 0 < found["ece[attack=ace_lower_true,radius=0.25]"].n == len(rows) < found["cce[radius=0.25]"].n


def test_a_model_that_made_no_mistake_is_not_shown_to_be_miscalibrated() -> None:
    confidence = np.full(30, 0.99)
    certified = estimates.Certified(np.ones(30, bool), confidence, confidence, confidence, np.ones(30, bool))
    found = estimates.worst_estimate(PARAMS, certified, [0])
    assert (found.value, found.low) == (pytest.approx(0.01), 0)
    # Nor is it shown to be calibrated: one in nine may be wrong, and thirty examples not show it.
    assert found.high == pytest.approx(0.01 + 0.99 * (1 - 0.025 ** (1 / 30)), rel=0.01)


def test_the_interval_of_a_worst_case_covers_that_of_the_population(monkeypatch) -> None:
    monkeypatch.setattr(estimates, "FEW", 200)
    monkeypatch.setattr(estimates, "MANY_BINS", 1)
    rng = np.random.default_rng(0)

    def drawn(n):
        confidence = rng.beta(6, 2, n)
        ends = np.clip(confidence - 0.1, 0, 1), np.clip(confidence + 0.1, 0, 1)
        return estimates.Certified(np.ones(n, bool), *ends, confidence, rng.random(n) < confidence)

    truth = worst_value(drawn(200_000), BINS)
    found = [estimates.worst_estimate(PARAMS, drawn(60), [run]) for run in range(100)]
    assert sum(one.low > truth for one in found) <= 5
    assert sum(one.high < truth for one in found) <= 5
    assert np.mean([one.high - one.low for one in found]) < 0.3


def test_nobody_certified_leaves_nothing_undefined_but_null() -> None:
    params = parameters(radii=[0.0, 0.25], bins=BINS, ace_attacks=["ace_lower_true"])
    certify, attacks = samples(params, n=20, sureness=-6.0)
    got = result(params, certify, attacks)
    for name in ("cce", "cbs", "ece", "brier_ece", "interval_width[bound=cdf", "ece[attack=ace_lower_true"):
        key = f"{name},radius=0.25]" if "[" in name else f"{name}[radius=0.25]"
        estimate = got.estimates[key]
        assert (estimate.value, estimate.low, estimate.high, estimate.n) == (None, None, None, 0)
        assert estimate.method == "none"
    assert got.estimates["abstention_rate"].value == 1
    assert got.estimates["average_certified_radius"].value == 0
    assert got.estimates["cce_system[radius=0.25]"].value == 1
    assert got.series["fixed_subset"] is got.series["reliability"] is got.series["worst_case"] is None
    assert shown_radius(params, certify, attacks) is None
    json.dumps(got.model_dump(), allow_nan=False)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_examples_have_values_and_no_claim_beyond_them(n) -> None:
    params = parameters(radii=[0.1], bins=BINS)
    got = result(params, *samples(params, n=n, sureness=4.0, seed=2))
    estimate = got.estimates["cce[radius=0.1]"]
    assert estimate.n == n
    assert estimate.value is not None
    assert (estimate.low is None) == (n == 1)
    assert estimate.method == ("none" if n == 1 else "resampled")
    json.dumps(got.model_dump(), allow_nan=False)


def test_when_every_example_errored_every_estimate_is_undefined() -> None:
    params = parameters(radii=[0.1], bins=BINS, ace_attacks=["ace_lower_true"])
    got = result(params, *samples(params, n=4, errored=frozenset(range(4))))
    assert {(one.value, one.low, one.high, one.n) for one in got.estimates.values()} == {(None, None, None, 0)}
    json.dumps(got.model_dump(), allow_nan=False)


def test_errored_examples_are_in_no_number(audit, found) -> None:
    assert {found[name].n for name in ("accuracy", "abstention_rate", "cce_system[radius=0]")} == {88}
    assert audit[0].size == 90


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes_and_another_seed_other_intervals(audit) -> None:
    first, again = (result(PARAMS, *audit).model_dump_json() for _ in range(2))
    assert first == again
    other = estimate_all(PARAMS, *audit, 1)["cce[radius=0.25]"]
    same = Result.model_validate_json(first).estimates["cce[radius=0.25]"]
    assert other.value == same.value
    assert (other.low, other.high) != (same.low, same.high)


def test_many_bins_are_solved_for_fewer_resamples(audit, monkeypatch) -> None:
    seen = []
    solve = estimates.resampled_worst
    monkeypatch.setattr(estimates, "resampled_worst", lambda *given: seen.append(len(given[1])) or solve(*given))
    params = PARAMS.model_copy(update={"bins": 31})
    estimates.worst_estimate(params, certified_at(params, audit[0], 0.25), [0])
    assert set(seen) == {estimates.FEW}


def test_free_examples_leave_less_of_the_whole_to_chance(audit, monkeypatch) -> None:
    """What outcomes by chance do to the certified ones is spread over all examples."""
    seen = []

    def record(value, errors, by_chance, confidence, seed, **more):
        seen.append((by_chance, len(confidence)))

    monkeypatch.setattr(estimates, "worst_interval", record)
    params, (certify, _) = PARAMS, audit
    certified = certified_at(params, certify, 0.25)
    n = len(certified)
    assert 0 < n < certify.valid
    estimates.worst_estimate(params, certified, [0])
    estimates.system_estimate(params, certify, certified, [0])
    gaps = np.random.default_rng(0).normal(size=(7, certify.valid))
    (alone, few), (whole, many) = seen
    assert (few, many) == (n, certify.valid)
    np.testing.assert_allclose(whole(gaps), alone(gaps[:, :n]) * n / certify.valid)


@pytest.mark.usefixtures("_short_admm")
@pytest.mark.parametrize("solver", ["admm", "dece"])
def test_solvers_stop_when_they_are_told_to(audit, solver) -> None:
    params, (certify, attacks) = PARAMS, audit
    asked = params.model_copy(update={"solvers": ["exact", solver]})
    told = []

    class StopError(Exception):
        pass

    def check_cancelled() -> None:
        told.append(None)
        if len(told) == 4:
            raise StopError

    with pytest.raises(StopError):
        estimate_all(asked, certify, attacks, 0, check_cancelled=check_cancelled)
    assert len(told) == 4
