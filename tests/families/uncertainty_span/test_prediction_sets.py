"""Conformal prediction sets under the attacks on confidence, in whole checks."""

import math

import numpy as np
import pytest
import torch

from seatrial.contracts.estimates import metric_name
from seatrial.contracts.family import Situation
from seatrial.families.uncertainty_span.narrative import answer
from seatrial.families.uncertainty_span.prediction_sets import ConformalParams
from seatrial.families.uncertainty_span.spec import SPEC
from tests.families.uncertainty_span.audits import DATA, IMAGES, LABELS, NETWORK, Model, audit, measure, parameters
from workers.families.uncertainty_span.prediction_sets import halves

PARAMS = parameters(conformal={"coverage": 0.8, "penalty": 0.05, "free": 1})


@pytest.fixture(scope="module")
def checked():
    return audit(PARAMS, NETWORK, DATA)


def sets_by_hand(rows, labels, judged, attacked, score):
    """Return coverage and mean size from the definitions alone, one example and one class at a time."""

    def score_of(row, k):
        if score == "lac":
            return 1 - row[k]
        place = sorted(range(len(row)), key=lambda one: (-row[one], one)).index(k)
        mass = sum(sorted(row, reverse=True)[: place + 1])
        return mass + (0.05 * max(0, place) if score == "raps" else 0)

    own = sorted(score_of(rows[i], labels[i]) for i in range(len(rows)) if not judged[i])
    threshold = own[math.ceil((len(own) + 1) * 0.8 - 1e-9) - 1]
    sets = [{k for k in range(4) if score_of(attacked[i], k) <= threshold + 1e-12} for i in np.flatnonzero(judged)]
    held = [labels[i] in one for i, one in zip(np.flatnonzero(judged), sets, strict=True)]
    return np.mean(held), np.mean([len(one) for one in sets])


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_coverage_and_size_are_those_worked_out_by_hand(checked, score) -> None:
    result, done = checked
    table, judged = done["attack"], ~halves(40, 0)
    rows = {arm: np.array(table[f"probabilities_{arm}"].to_pylist(), dtype=float) for arm in ("clean", "over", "under")}
    assert np.allclose(rows["clean"], NETWORK.logits(IMAGES).softmax(1), atol=1e-6)
    for arm, attacked in rows.items():
        coverage, size = sets_by_hand(rows["clean"], LABELS.tolist(), judged, attacked, score)
        found = result.estimates[metric_name("conformal_coverage", score=score, arm=arm)]
        assert found.value == pytest.approx(coverage)
        assert found.n == 20
        assert found.low < found.value < found.high or found.value in (0.0, 1.0)
        assert result.estimates[metric_name("conformal_set_size", score=score, arm=arm)].value == pytest.approx(size)


def test_attacks_change_sizes_the_way_they_change_entropy(checked) -> None:
    sizes = {
        arm: checked[0].estimates[metric_name("conformal_set_size", score="aps", arm=arm)].value
        for arm in ("clean", "over", "under")
    }
    assert sizes["over"] <= sizes["clean"] <= sizes["under"]
    assert sizes["over"] < sizes["under"]


def test_nothing_is_recorded_or_published_unless_asked_for() -> None:
    result, done = audit(parameters(), NETWORK, DATA)
    assert not any("conformal" in name for name in result.estimates)
    assert not any("probabilities" in name for name in done["attack"].column_names)


def test_sets_do_not_change_the_attacks(checked) -> None:
    plain = measure(parameters(), NETWORK, DATA)
    names = plain["attack"].column_names
    assert checked[1]["attack"].select(names).equals(plain["attack"])
    assert checked[1]["growth"].equals(plain["growth"])


def test_a_model_that_knows_nothing_is_told_by_its_whole_sets() -> None:
    result, _ = audit(PARAMS, Model(lambda images: 0.0 * NETWORK.logits(images), 4), DATA)
    assert result.estimates["conformal_coverage[score=lac,arm=under]"].value == 1
    assert "whole_sets" in {flag.code for flag in result.flags}


def test_a_network_that_knows_something_is_not(checked) -> None:
    assert "whole_sets" not in {flag.code for flag in checked[0].flags}


@pytest.mark.parametrize(("coverage", "fewest"), [(0.5, 2), (0.9, 18), (0.99, 198), (0.999, 1998)])
def test_too_few_examples_to_promise_the_coverage_are_refused(coverage, fewest) -> None:
    assert ConformalParams(coverage=coverage).fewest() == fewest
    params = parameters(conformal={"coverage": coverage})

    def misfits(samples):
        situation = Situation("mdl_1", "image-classification", [1, 4, 4], samples, {}, 10**9)
        return [one.parameter for one in SPEC.misfits(params, situation)]

    assert misfits(fewest) == []
    assert misfits(fewest - 1) == ["conformal/coverage"]


def test_errored_examples_calibrate_nothing_and_are_judged_by_nothing() -> None:
    images = IMAGES.clone()
    images[5] = 0.123

    def broken(batch: torch.Tensor) -> torch.Tensor:
        found = NETWORK.logits(batch)
        marked = (batch.flatten(1)[:, 0] - 0.123).abs() < 0.05
        return torch.where(marked[:, None] & (batch.flatten(1).std(1) < 0.12)[:, None], torch.nan, found)

    result, done = audit(PARAMS, Model(broken, 4), (images, LABELS))
    errored = int(np.sum(done["attack"]["errored"].to_numpy(zero_copy_only=False)))
    assert errored >= 1
    assert result.estimates["conformal_coverage[score=lac,arm=clean]"].n == 40 - errored - (40 - errored) // 2


def test_the_report_says_what_becomes_of_the_sets(checked) -> None:
    told = [one for one in answer(checked[0], PARAMS.model_dump(), 4).findings if one.startswith("Conformal sets")]
    assert len(told) == 1
    assert "hold the label of 80% of the examples" in told[0]
