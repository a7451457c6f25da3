"""Conformal prediction sets of the smoothed model, under attack."""

import numpy as np
import pytest

from seatrial.contracts.estimates import metric_name
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.audits import IMAGES, audit, parameters
from tests.families.certified_calibration.test_all_classes import DIRECTION, LINE, many_classes, smoothed_at
from workers.certification.conformal import threshold
from workers.families.certified_calibration.class_sets import halves, set_estimates
from workers.families.certified_calibration.records import class_column

PARAMS = parameters(n=1500, uncertainty={"coverage": 0.7}, noise="independent")


@pytest.fixture(scope="module")
def line():
    labels = (LINE.logits(IMAGES).argmax(1) + (IMAGES[:, 0, 0, 0] < 0.15)) % 3
    result, done = audit(PARAMS, LINE, (IMAGES, labels))
    return result.estimates, Sample(done["certify"])


def judged(certify, radius, side):
    used = halves(certify, 0)
    ends = np.stack(list(certify[class_column(side, radius)]))
    return ends[~used], certify["label"].astype(int)[~used]


def least_score(certify):
    used = halves(certify, 0)
    lower = np.stack(list(certify[class_column("lower", 0.0)]))
    return threshold(lower[np.arange(len(used)), certify["label"].astype(int)][used], 0.7)


@pytest.mark.slow
def test_no_perturbation_takes_the_label_out_of_a_set_that_is_certified_or_adds_more_than_counted(line) -> None:
    """All perturbations along the one direction that matters, on a grid."""
    estimates, certify = line
    used, least = halves(certify, 0), least_score(certify)
    rows = [int(one) - 1000 for one in certify["example_id"][~used]]
    at = ((IMAGES.flatten(1) - 0.5) @ DIRECTION).double().numpy()[rows]
    for radius in PARAMS.radii:
        scores, _ = smoothed_at(at[:, None] + np.linspace(-radius, radius, 41))
        labels = judged(certify, radius, "lower")[1]
        of_label = np.take_along_axis(scores, labels[:, None, None], axis=2)[:, :, 0]
        kept, sizes = (of_label >= least).all(1), (scores >= least).sum(2).max(1)
        assert estimates[metric_name("certified_coverage", radius=radius)].value <= kept.mean()
        assert estimates[metric_name("certified_set_size", radius=radius)].value >= sizes.mean()
        # Robust sets of any image within the radius hold the label where its own true score is above the threshold.
        assert estimates[metric_name("robust_coverage", radius=radius)].value >= kept.mean()


@pytest.mark.slow
def test_numbers_move_one_way_with_the_radius(line) -> None:
    estimates, certify = line
    for name, way in (("certified_coverage", -1), ("certified_set_size", 1), ("robust_coverage", 1),
                      ("robust_set_size", 1)):  # fmt: skip
        values = [estimates[metric_name(name, radius=radius)].value for radius in PARAMS.radii]
        assert (way * np.diff(values) >= 0).all(), name
        assert values[0] != values[-1], name
    assert estimates["certified_coverage[radius=0.1]"].n == certify.valid - certify.valid // 2


def test_halves_are_drawn_and_are_the_same_again(line) -> None:
    _, certify = line
    first = halves(certify, 0)
    assert first.sum() == certify.valid // 2
    assert (first == halves(certify, 0)).all()
    assert (first != halves(certify, 1)).any()


@pytest.mark.slow
def test_where_classes_are_summed_there_are_no_sets() -> None:
    model = many_classes()
    params = parameters(n=200, radii=[0.0], uncertainty={"classes": 3})
    result, done = audit(params, model, (IMAGES[:6], model.logits(IMAGES[:6]).argmax(1)))
    assert set_estimates(params, Sample(done["certify"]), 0) == {}
    assert not any("coverage" in name for name in result.estimates)
