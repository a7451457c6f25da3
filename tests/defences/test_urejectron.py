from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.defences.builders import base, generator, images, labels, points, same, training
from workers.defences.copies import Frozen
from workers.defences.protocol import Training
from workers.defences.urejectron import (
    PRESETS,
    THRESHOLDS,
    URejectron,
    URejectronParams,
    accepted_errors,
    errors_among_accepted,
    rejection_rates,
)
from workers.models.adapted import Rejecting

TINY = replace(PRESETS["small"], epochs=1, batch_size=16)

# Half of them on the thresholds themselves, where > and >= part.
values = st.one_of(st.sampled_from(THRESHOLDS.tolist()), st.floats(0, 1))
samples = st.lists(st.tuples(values, st.booleans()), min_size=1, max_size=40)


def noise(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, 1, 8, 8, generator=generator(seed))


def rejected(model: Rejecting, inputs: torch.Tensor) -> float:
    return float((model.rejection_scores(inputs) > model.threshold).float().mean())


def test_it_rejects_noise_and_keeps_digits() -> None:
    mixed = torch.cat([points(100), noise(100, 9)])
    model = URejectron(PRESETS["small"]).adapt(base(), training(400), mixed, generator(0))
    assert rejected(model, mixed[:100]) < 0.2
    assert rejected(model, mixed[100:]) > 0.95
    # Neither of these was there when it learned.
    assert rejected(model, points(200, 1500)) < 0.2
    assert rejected(model, noise(100, 10)) > 0.95


def test_the_base_answers() -> None:
    model = URejectron(TINY).adapt(base(), training(60), points(40), generator())
    assert torch.equal(model.logits(points(40)), base().logits(points(40)))


def test_a_classifier_that_rejects_is_told_from_one_that_does_not() -> None:
    model = URejectron(TINY).adapt(base(), training(30), points(20), generator())
    assert isinstance(model, Rejecting)
    assert not isinstance(Frozen(base()), Rejecting)


def test_scores_are_probabilities() -> None:
    model = URejectron(TINY).adapt(base(), training(60), points(40), generator())
    scores = model.rejection_scores(points(40))
    assert scores.shape == (40,)
    assert 0 <= scores.min() <= scores.max() <= 1


def test_labels_have_no_influence() -> None:
    first = URejectron(TINY).adapt(base(), training(60), points(40), generator())
    shuffled = Training(images(0, 60), labels(0, 60).flip(0))
    assert same(first.state(), URejectron(TINY).adapt(base(), shuffled, points(40), generator()).state())


def test_the_discriminator_learns_which_class_is_the_test_points() -> None:
    # Black against white, nothing else to learn: h_1 is high on what came as test points.
    black = Training(torch.zeros(64, 1, 8, 8), torch.zeros(64, dtype=torch.int64))
    model = URejectron(replace(TINY, epochs=15)).adapt(base(), black, torch.ones(64, 1, 8, 8), generator())
    assert model.rejection_scores(torch.ones(1, 1, 8, 8)).item() > 0.9
    assert model.rejection_scores(torch.zeros(1, 1, 8, 8)).item() < 0.1


@pytest.mark.parametrize(
    "change",
    [{"epochs": 2}, {"batch_size": 4}, {"learning_rate": 2e-3}, {"network": "resnet18"}],
    ids=lambda change: next(iter(change)),
)
def test_every_hyper_parameter_has_an_effect(change) -> None:
    plain = URejectron(replace(TINY, batch_size=8)).adapt(base(), training(10), points(4), generator())
    params = replace(TINY, **{"batch_size": 8} | change)
    changed = URejectron(params).adapt(base(), training(10), points(4), generator())
    assert not same(plain.state(), changed.state())


def test_the_threshold_is_the_one_asked_for() -> None:
    defence = URejectron(replace(TINY, threshold=0.7))
    model = defence.adapt(base(), training(30), points(20), generator())
    assert model.threshold == 0.7
    assert defence.reload(base(), model.state()).threshold == 0.7


def test_presets_are_those_of_the_paper() -> None:
    assert PRESETS["mnist"] == PRESETS["cifar10"] == URejectronParams("resnet18", 10, 128, 1e-3, 0.5)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 0}, {"batch_size": 1}, {"learning_rate": 0.0}, {"threshold": 1.5}],
    ids=lambda change: next(iter(change)),
)
def test_numbers_out_of_range_are_refused(change) -> None:
    with pytest.raises(ValueError, match="not a discriminator"):
        URejectronParams(**change)


def test_thresholds_are_the_official_hundred() -> None:
    assert (len(THRESHOLDS), THRESHOLDS[0], THRESHOLDS[-1]) == (100, 0.0, 1.0)
    assert np.allclose(np.diff(THRESHOLDS), 1 / 99)


@given(samples)
def test_rejection_rates_agree_with_a_direct_loop(sample) -> None:
    scores = [score for score, _ in sample]
    expected = [sum(score > tau for score in scores) / len(scores) for tau in THRESHOLDS]
    assert rejection_rates(scores).tolist() == expected


@given(samples)
def test_errors_among_accepted_agree_with_a_direct_loop(sample) -> None:
    expected = []
    for tau in THRESHOLDS:
        accepted = [wrong for score, wrong in sample if score <= tau]
        expected.append(sum(accepted) / len(accepted) if accepted else 0.0)
    assert errors_among_accepted(*zip(*sample, strict=True)).tolist() == expected


@given(samples)
def test_accepted_errors_agree_with_equation_1(sample) -> None:
    expected = [sum(wrong and score <= tau for score, wrong in sample) / len(sample) for tau in THRESHOLDS]
    assert accepted_errors(*zip(*sample, strict=True)).tolist() == expected


@given(samples)
def test_the_two_errors_differ_by_the_accepted_share(sample) -> None:
    scores, is_wrong = zip(*sample, strict=True)
    accepted = 1 - rejection_rates(scores)
    assert np.allclose(errors_among_accepted(scores, is_wrong) * accepted, accepted_errors(scores, is_wrong))


def test_curves_take_any_thresholds_in_any_order() -> None:
    assert rejection_rates([0.1, 0.6], [0.5, 0.0, 0.6]).tolist() == [0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    "scores", [[], [0.5, float("nan")], [1.2], [-0.1], [[0.5]]], ids=["empty", "nan", "above", "below", "matrix"]
)
def test_scores_that_are_none_are_refused(scores) -> None:
    with pytest.raises(ValueError, match="numbers in"):
        rejection_rates(scores)


def test_answers_and_scores_must_be_as_many() -> None:
    for curve in (errors_among_accepted, accepted_errors):
        with pytest.raises(ValueError, match="answers for"):
            curve([0.1, 0.2], [True])
