"""The lead on the way to where the prediction changes, against closed forms, and of models that make it up."""

import math

import numpy as np
import pytest
import torch

from seatrial.families.uncertainty_span.effort import CROSSING_PASSES
from workers.attacks.crossings import BEFORE, PASSES, leads_before_crossing

IMAGES = torch.rand(60, 1, 3, 3, generator=torch.Generator().manual_seed(0)) * 0.2 + 0.4
WEIGHTS = torch.randn(9, 3, generator=torch.Generator().manual_seed(1))


def linear(images: torch.Tensor) -> torch.Tensor:
    return (images.flatten(1).double() - 0.5) @ WEIGHTS.double()


def towards_runner_up(images: torch.Tensor) -> torch.Tensor:
    two = linear(images).topk(2).indices
    return (WEIGHTS[:, two[:, 1]] - WEIGHTS[:, two[:, 0]]).T.reshape(images.shape)


def left(model, images=IMAGES, directions=None, *, at_end=False) -> np.ndarray:
    found = leads_before_crossing(
        model, images, towards_runner_up(images) if directions is None else directions, model(images)
    )
    assert found[at_end].dtype == torch.float64
    assert (found[0].isnan() == found[1].isnan()).all()
    return found[at_end].numpy()


def test_where_classes_tie_nothing_is_left_of_a_lead_and_a_least_one_is_seen_there() -> None:
    def at_least(images: torch.Tensor) -> torch.Tensor:
        logits = linear(images)
        first, second = logits.topk(2).values.unbind(1)
        lead = 0.3 + (first - second)
        return torch.nn.functional.one_hot(logits.argmax(1), 3) * lead[:, None]

    honest, kept = left(linear, at_end=True), left(at_least, at_end=True)
    crossed = np.isfinite(honest)
    assert crossed.mean() > 0.4
    # Where the way is shorter than the shortest length that is looked at, the halvings come less near.
    near = crossed & (honest < 2e-3)
    assert near.sum() > 0.8 * crossed.sum()
    assert np.median(honest[crossed]) < 5e-4
    clean = at_least(IMAGES).amax(1).numpy()
    assert kept[near] == pytest.approx(0.3 / clean[near], abs=2e-3)


def test_of_two_linear_classes_the_lead_is_used_up_in_proportion() -> None:
    own = linear(IMAGES)[:, :2].argmax(1)
    directions = ((WEIGHTS[:, 0] - WEIGHTS[:, 1]) * (2.0 * own[:, None] - 1)).reshape(IMAGES.shape)
    found = left(lambda images: linear(images)[:, :2], directions=directions)
    crossed = np.isfinite(found)
    assert crossed.mean() > 0.4
    assert found[crossed] == pytest.approx(1 - BEFORE, abs=5e-3)


def test_of_three_linear_classes_it_is_what_a_fine_walk_finds() -> None:
    found, directions = left(linear), towards_runner_up(IMAGES).sign()
    lengths = np.linspace(0, 1, 40_001)
    for image, direction, share in list(zip(IMAGES, directions, found, strict=True))[:20]:
        way = (image + torch.tensor(lengths, dtype=torch.float32).view(-1, 1, 1, 1) * direction).clamp(0, 1)
        logits = linear(way)
        own = int(logits[0].argmax())
        lead = logits[:, own] - logits[:, [k for k in range(3) if k != own]].amax(1)
        changed = np.flatnonzero(lead.numpy() < 0)
        assert (len(changed) == 0) == math.isnan(share)
        if len(changed):
            at = int(np.round(BEFORE * changed[0]))
            assert share == pytest.approx(float(lead[at] / lead[0]), abs=5e-3)


@pytest.mark.parametrize("gain", [1.0, 20.0, 1e-3])
def test_it_does_not_depend_on_the_scale_of_the_logits(gain) -> None:
    assert left(lambda images: gain * linear(images)) == pytest.approx(left(linear), abs=1e-9, nan_ok=True)


def test_a_label_in_the_guise_of_scores_keeps_all_of_it() -> None:
    def by_rote(images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(linear(images).argmax(1), 3) * 5.2

    found = left(by_rote)
    assert np.isfinite(found).mean() > 0.4
    assert (found[np.isfinite(found)] == 1).all()


def test_what_never_changes_its_prediction_has_none() -> None:
    assert np.isnan(left(lambda images: torch.tensor([[2.0, 0.0, 1.0]]).repeat(len(images), 1))).all()


def test_a_tie_and_what_is_not_finite_have_none() -> None:
    def broken(images: torch.Tensor) -> torch.Tensor:
        is_clean = (images == IMAGES).flatten(1).all(1)
        return torch.where(is_clean[:, None], linear(images), torch.nan)

    assert np.isnan(left(broken)).all()
    assert np.isnan(left(lambda images: linear(images) * 0)).all()


def test_an_image_costs_what_the_estimate_says_and_stays_in_the_box() -> None:
    asked = []

    def model(images: torch.Tensor) -> torch.Tensor:
        assert images.amin() >= 0
        assert images.amax() <= 1
        asked.append(len(images))
        return linear(images)

    left(model)
    assert len(asked) == PASSES + 1 == CROSSING_PASSES
    ticks = []
    leads_before_crossing(
        linear, IMAGES, towards_runner_up(IMAGES), linear(IMAGES), check_cancelled=lambda: ticks.append(1)
    )
    assert len(ticks) == PASSES


def test_an_example_alone_is_measured_as_among_others() -> None:
    together = left(linear)
    alone = np.concatenate([left(linear, IMAGES[i : i + 1]) for i in range(10)])
    assert together[:10] == pytest.approx(alone, abs=1e-9, nan_ok=True)
