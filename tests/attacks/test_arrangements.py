"""Units of pixels: which move together and which stand still, and where each goes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from workers.attacks.arrangements import STANDS, Arrangement, blocks, far_apart, ranges, single

SHAPES = st.sampled_from([(1, 9, 12), (3, 8, 8), (7, 5), (13,)])


def drawn(seed: int, count: int = 3) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed + row) for row in range(count)]


def bounds(shape: tuple[int, ...], seed: int, count: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    images = torch.rand(count, torch.Size(shape).numel(), generator=torch.Generator().manual_seed(seed))
    return images, (images - 0.3).clamp_min(0), (images + 0.3).clamp_max(1)


@given(SHAPES, st.integers(2, 5), st.integers(0, 99))
def test_single_pixels_far_apart_are_alone(shape: tuple[int, ...], spacing: int, seed: int) -> None:
    found = far_apart(shape, spacing, drawn(seed))
    assert found.is_alone
    units = found.units.view(3, -1, *(shape[-2:] if len(shape) > 1 else (1, *shape)))
    for image in units:
        # In every channel the same places, each a unit of its own.
        places = {(row, column) for _, row, column in (image != STANDS).nonzero().tolist()}
        assert int((image != STANDS).sum()) == len(places) * len(image)
        apart = [max(abs(one[0] - two[0]), abs(one[1] - two[1])) for one in places for two in places if one != two]
        assert min(apart, default=spacing) >= spacing
        moving = image[image != STANDS].tolist()
        assert len(moving) == len(set(moving))
    # As many as there is room for, or one less along each side.
    assert all((image != STANDS).any() for image in units) or min(shape[-2:]) < spacing


@given(SHAPES, st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_blocks_tile_an_image_and_share_no_channel(
    shape: tuple[int, ...], side: int, has_figures: bool, seed: int
) -> None:
    found = blocks(shape, (side, side + 1), drawn(seed), has_figures=has_figures)
    assert found.is_even is not has_figures
    assert int(found.units.min()) >= 0
    assert int(found.units.max()) < torch.Size(shape).numel()
    planes = found.units.view(3, -1, *(shape[-2:] if len(shape) > 1 else (1, *shape)))
    for image in planes:
        for unit in image.unique().tolist():
            channels, rows, columns = (image == unit).nonzero().T
            assert len(set(channels.tolist())) == 1
            height, width = (int(ends.max() - ends.min()) + 1 for ends in (rows, columns))
            # Whole rectangles, no larger than a block.
            assert len(rows) == height * width
            assert max(height, width) <= side + 1
    assert set(found.signs.unique().tolist()) <= ({1, -1} if has_figures else {1})


def test_figures_are_of_several_kinds() -> None:
    found = blocks((1, 8, 8), (8, 8), drawn(0, 60), has_figures=True).signs.view(60, 8, 8).to(torch.int64)
    alternating = torch.tensor([1, -1] * 4)
    kinds = {
        "rows": [bool((one == alternating[:, None] * one[0, 0]).all()) for one in found],
        "columns": [bool((one == alternating * one[0, 0]).all()) for one in found],
        "checks": [bool((one == alternating[:, None] * alternating * one[0, 0]).all()) for one in found],
    }
    assert all(any(is_one) for is_one in kinds.values())
    assert len({tuple(one.flatten().tolist()) for one in found}) > 12


@given(SHAPES, st.integers(0, 99), st.sampled_from(["single", "apart", "even", "figures"]))
def test_pixels_stay_between_their_ends_and_units_of_one_level_are_even(
    shape: tuple[int, ...], seed: int, kind: str
) -> None:
    found = arranged(shape, kind, seed)
    still, lower, upper = bounds(shape, seed)
    moving = ranges(found, still, lower, upper)
    numbers = torch.rand(still.shape, generator=torch.Generator().manual_seed(seed))
    pixels = moving.at(numbers)
    stands = found.units == STANDS
    assert torch.equal(pixels[stands], still[stands])
    assert ((pixels >= lower - 1e-6) & (pixels <= upper + 1e-6)).all()
    if kind == "even":
        for row in range(3):
            for unit in found.units[row].unique().tolist():
                of = found.units[row] == unit
                if lower[row][of].max() <= upper[row][of].min():
                    assert pixels[row][of].max() - pixels[row][of].min() < 1e-6
    # Where they are at either end they go no farther.
    ends = [moving.at(torch.full_like(numbers, end)) for end in (0.0, 1.0)]
    span = (ends[1] - ends[0]).abs()
    assert (span[~stands] <= (upper - lower)[~stands] + 1e-6).all()
    # An image is nearest to itself where each pixel is a unit.
    if kind in ("single", "apart"):
        assert torch.allclose(moving.at(moving.numbers(still)), still, atol=1e-6)


@given(SHAPES, st.integers(0, 99), st.sampled_from(["single", "apart", "even", "figures"]))
def test_the_slope_by_a_units_number_is_that_of_autograd(shape: tuple[int, ...], seed: int, kind: str) -> None:
    still, lower, upper = bounds(shape, seed)
    moving = ranges(arranged(shape, kind, seed), still, lower, upper)
    numbers = torch.rand(still.shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(True)
    weights = torch.randn(still.shape, generator=torch.Generator().manual_seed(seed + 1))
    pixels = moving.at(numbers)
    (by_pixel,) = torch.autograd.grad((weights * pixels**2).sum(), pixels, retain_graph=True)
    (expected,) = torch.autograd.grad((weights * pixels**2).sum(), numbers)
    assert torch.allclose(moving.slope(by_pixel), expected, atol=1e-5)


@pytest.mark.parametrize("sides", [(1, 1), (4, 4)])
def test_offsets_are_drawn_for_each_image(sides: tuple[int, int]) -> None:
    found = blocks((1, 12, 12), sides, drawn(3, 12), has_figures=False)
    assert len({tuple(row) for row in found.units.tolist()}) == (
        1 if sides == (1, 1) else len(found.units.unique(dim=0))
    )
    assert (len(found.units.unique(dim=0)) > 4) is (sides == (4, 4))


def arranged(shape: tuple[int, ...], kind: str, seed: int) -> Arrangement:
    if kind == "single":
        moves = torch.rand((3, *shape), generator=torch.Generator().manual_seed(seed)) < 0.6
        return single(moves)
    if kind == "apart":
        return far_apart(shape, 3, drawn(seed))
    return blocks(shape, (2, 4), drawn(seed), has_figures=kind == "figures")
