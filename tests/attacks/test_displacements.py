"""A displaced copy is the same picture in the same greys, away from the image, and follows from its draw alone."""

import pytest
import torch
from torch import Tensor

from tests import assets
from workers.attacks.displacements import Displacement, displaced_copy, is_displaceable

DIGITS = torch.tensor(assets.digits()[0][:20]).float().view(-1, 1, 8, 8) / 255
IMAGES = torch.nn.functional.interpolate(DIGITS, (28, 28), mode="bilinear").mul(255).round() / 255


def copy(image: Tensor, seed: int, least: float = 0.0) -> Tensor:
    return displaced_copy(image, torch.Generator().manual_seed(seed), least)


def test_nothing_moves_without_a_displacement() -> None:
    still = Displacement(torch.eye(2, 3).double(), torch.zeros(4, 1, 2).double())
    for image in IMAGES:
        assert torch.equal(still.apply(image), image)


@pytest.mark.parametrize(("dimension", "row"), [(1, 1), (2, 0)])
def test_a_shift_by_a_pixel_is_one(dimension: int, row: int) -> None:
    affine = torch.eye(2, 3).double()
    # Two are a side, and what is shown is what lies a pixel further on.
    affine[row, 2] = 2 / 28
    moved = Displacement(affine, torch.zeros(4, 1, 2).double()).apply(IMAGES[0])
    inner = moved.narrow(dimension, 0, 27)
    assert (inner - IMAGES[0].narrow(dimension, 1, 27)).abs().max() < 0.02


def test_a_copy_has_the_levels_of_its_image_in_every_channel() -> None:
    coloured = torch.cat([IMAGES[0], IMAGES[1], 1 - IMAGES[2]])
    moved = copy(coloured, 3)
    assert not torch.equal(moved, coloured)
    for channel, own in zip(moved, coloured, strict=True):
        assert set(channel.unique().tolist()) <= set(own.unique().tolist())
        assert channel.mean() == pytest.approx(float(own.mean()), rel=0.2)


def away(one: Tensor, image: Tensor) -> float:
    """How far a copy is from the image and from its shifts by a pixel."""
    return min(float((one - image.roll((a, b), (1, 2))).norm()) for a in (-1, 0, 1) for b in (-1, 0, 1))


def test_the_farthest_of_the_draws_is_taken_where_none_is_far_enough() -> None:
    for number, image in enumerate(IMAGES[:8]):
        first, farthest = (away(copy(image, number, least), image) for least in (0.0, 1e9))
        assert farthest >= first > 1.0
        # The first that is far enough.
        assert away(copy(image, number, first + 1e-4), image) > first or farthest == first


def test_the_draw_decides_and_nothing_beside_it() -> None:
    assert torch.equal(copy(IMAGES[0], 5, 5.0), copy(IMAGES[0].clone(), 5, 5.0))
    assert not torch.equal(copy(IMAGES[0], 5, 5.0), copy(IMAGES[0], 6, 5.0))


@pytest.mark.parametrize(
    ("shape", "is_one"), [((2, 3, 16, 16), True), ((2, 1, 28, 15), False), ((2, 1, 8, 8), False), ((2, 30), False)]
)
def test_what_has_no_picture_is_not_displaced(shape: tuple[int, ...], is_one: bool) -> None:
    assert is_displaceable(torch.zeros(shape)) == is_one
