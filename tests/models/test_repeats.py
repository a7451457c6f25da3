"""Whether a sample is many examples, or few many times."""

import pytest
import torch
from torch import Tensor

from tests import assets
from workers.models.repeats import Distinct

IMAGES = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def codes(*batches: Tensor, rows: bool = False) -> list[str]:
    seen = Distinct()
    for batch in batches:
        (seen.see_rows if rows else seen.see_images)(batch)
    return [flag.code for flag in seen.flags("example")]


@pytest.mark.parametrize(
    ("change", "is_told"), [(0.0, True), (1 / 255, True), (2 / 255, True), (60 / 255, False)], ids=str
)
def test_copies_with_a_little_noise_are_copies(change: float, is_told: bool) -> None:
    """Noise of pixels leaves the means of cells as they were, until it is more than an attack may add."""
    noise = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(2)) * 2 - 1
    copies = (IMAGES[:1].expand(40, -1, -1, -1) + change * noise).clamp(0, 1)
    assert bool(codes(copies[:20], copies[20:])) == is_told


def test_a_small_thing_in_a_large_image_makes_it_another_one() -> None:
    """A hairline crack leaves the means of 8 by 8 cells as they were."""
    images = IMAGES[:1, :, :, :].mul(0.5).add(0.2).repeat(1, 1, 7, 7).repeat(40, 1, 1, 1)
    for at in range(40):
        row, column = divmod(at, 8)
        images[at, :, 28 * row : 28 * row + 2, 28 * column : 28 * column + 2] = 1
    assert codes(images) == []
    assert codes(torch.rand(30, 1, 2, 4, generator=torch.Generator().manual_seed(4))) == []


def test_other_images_are_others_and_one_in_ten_may_come_again() -> None:
    assert codes(IMAGES) == []
    assert codes(torch.cat([IMAGES[:36], IMAGES[:4]])) == []
    assert codes(torch.cat([IMAGES[:35], IMAGES[:5]])) == ["repeated_examples"]
    assert codes(torch.from_numpy(assets.digits()[0][:200]).float()) == []


def test_one_row_of_a_wide_table_that_comes_often_is_told() -> None:
    rows = torch.rand(40, 12, generator=torch.Generator().manual_seed(3))
    copies = torch.cat([rows[:30], rows[:1].expand(10, -1)])
    assert codes(copies, rows=True) == ["repeated_examples"]
    # Many that come twice, and rows of few columns, may be what the table is like.
    assert codes(torch.cat([rows[:20], rows[:20]]), rows=True) == []
    assert codes(copies[:, :9], rows=True) == []
