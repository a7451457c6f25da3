"""The ascent through narrowing noise: what plain steps cannot find, and its own guarantees."""

import math

import pytest
import torch
from torch import Tensor

from tests.attacks.autoattack.networks import generators, is_in_ball_and_box
from workers.attacks.annealed import AnnealedPGD
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD

# Black but for some white pixels, as digits are.
IMAGES = (torch.rand(12, 1, 5, 5, generator=torch.Generator().manual_seed(3)) > 0.8).float()
SEARCH = AnnealedPGD("l2", 1.5, 40, 0.5, (0.5, 0.15))


WEIGHTS = 12 * torch.rand(25, generator=torch.Generator().manual_seed(4)).square()


def thresholded(images: Tensor) -> Tensor:
    """Weigh how far pixels were moved past .4."""
    moved = torch.relu((images - IMAGES[: len(images)]).abs() - 0.4).flatten(1) @ WEIGHTS
    return torch.stack([torch.full_like(moved, 4.0), moved], 1)


def least_sure(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
    return -entropy(logits)


def test_a_model_that_thresholds_pixels_is_found_out_by_it_and_not_by_plain_steps() -> None:
    clean = entropy(thresholded(IMAGES))
    plain = MomentumPGD("l2", 1.5, 40).run(thresholded, IMAGES, least_sure, lambda logits, indices: -entropy(logits))
    assert torch.equal(-plain.value, clean)
    ends = SEARCH.run(thresholded, IMAGES, least_sure, starts=IMAGES, generators=generators(12))
    assert (entropy(thresholded(ends)) > clean + 0.2).float().mean() > 0.8
    assert is_in_ball_and_box(ends, IMAGES, "l2", 1.5)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_all_that_it_asks_about_is_in_the_box_and_all_that_it_returns_in_the_ball_too(norm) -> None:
    asked: list[Tensor] = []

    def recording(images: Tensor) -> Tensor:
        asked.append(images.detach())
        return thresholded(images)

    search = AnnealedPGD(norm, 0.3, 6, 0.5, (2.0, 0.1))
    ends = search.run(recording, IMAGES, least_sure, starts=IMAGES, generators=generators(12))
    assert len(asked) == 6
    assert min(images.min() for images in asked) >= 0
    assert max(images.max() for images in asked) <= 1
    assert is_in_ball_and_box(ends, IMAGES, norm, 0.3)


def test_an_open_box_folds_nothing_and_a_table_s_columns_have_ends_of_their_own() -> None:
    rows, shown = torch.zeros(4, 3), []

    def recording(points: Tensor) -> Tensor:
        shown.append(points.detach())
        return torch.stack([points.sum(1), -points.sum(1)], 1)

    box = (torch.tensor([-math.inf, 0.0, -1.0]), torch.tensor([math.inf, math.inf, 1.0]))
    search = AnnealedPGD("linf", 0.1, 5, 0.5, (3.0, 3.0), box=box)
    search.run(recording, rows, least_sure, starts=rows, generators=generators(4))
    points = torch.cat(shown)
    assert points.isfinite().all()
    assert points[:, 0].min() < -1
    assert points[:, 1].min() >= 0
    assert points[:, 2].abs().max() <= 1


def test_neither_neighbours_nor_memory_change_where_an_example_ends() -> None:
    whole = SEARCH.run(elementwise, IMAGES, least_sure, starts=IMAGES, generators=generators(12))
    alone = SEARCH.run(elementwise, IMAGES[7:8], least_sure, starts=IMAGES[7:8], generators=generators(12)[7:8])
    assert torch.equal(alone, whole[7:8])

    def cramped(images: Tensor) -> Tensor:
        if len(images) > 5:
            raise torch.OutOfMemoryError
        return elementwise(images)

    assert torch.equal(SEARCH.run(cramped, IMAGES, least_sure, starts=IMAGES, generators=generators(12)), whole)


def elementwise(images: Tensor) -> Tensor:
    return torch.stack([2.0 + 0 * images[:, 0, 0, 0], 5 * torch.relu(images[:, 0, 2, 2] - images[:, 0, 1, 1])], 1)


@pytest.mark.parametrize("changed", [{"steps": 0}, {"step": 0.0}, {"sigmas": (0.1, 0.0)}, {"decay": 1.0}])
def test_numbers_out_of_range_are_refused(changed) -> None:
    numbers = {"norm": "l2", "epsilon": 1.0, "steps": 1, "step": 0.5, "sigmas": (1.0, 0.5)}
    with pytest.raises(ValueError, match=r"attack|width"):
        AnnealedPGD(**numbers | changed)
    with pytest.raises(ValueError, match="not a batch"):
        AnnealedPGD(**numbers).run(elementwise, IMAGES, least_sure, starts=IMAGES[:2], generators=generators(12))
