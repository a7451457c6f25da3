"""Plain changes of an image stay within the radius, and are what they are called."""

import pytest
import torch

from workers.attacks.regions import make_region
from workers.attacks.transformations import STRIDES, to_stride, transformations

IMAGES = torch.rand(6, 3, 9, 8, generator=torch.Generator().manual_seed(1))
CHANGES = 24
"""As many as the estimate of the cost counts: seatrial.families.uncertainty_span.effort.Budget.transformed."""


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.03), ("linf", 0.5), ("l2", 0.7), ("l2", 40.0)])
def test_every_change_is_within_ball_and_box_and_changes_something(norm, epsilon) -> None:
    changed = list(transformations(IMAGES, make_region(norm, IMAGES, epsilon, (0.0, 1.0)), epsilon))
    assert len(changed) == CHANGES
    for number, moved in enumerate(changed):
        added = (moved - IMAGES).flatten(1)
        length = added.abs().amax(1) if norm == "linf" else added.norm(dim=1)
        assert (length <= epsilon * (1 + 1e-5)).all(), number
        assert (length > 0.01 * epsilon).all(), number
        assert moved.min() >= 0, number
        assert moved.max() <= 1, number
    assert torch.stack(changed).flatten(1).unique(dim=0).shape[0] == CHANGES


def test_an_image_changes_by_itself_alone() -> None:
    region = make_region("linf", IMAGES, 0.1, (0.0, 1.0))
    first = make_region("linf", IMAGES[:1], 0.1, (0.0, 1.0))
    together, alone = transformations(IMAGES, region, 0.1), transformations(IMAGES[:1], first, 0.1)
    assert all(torch.equal(many[:1], one) for many, one in zip(together, alone, strict=True))


def test_a_row_of_a_table_is_shifted_alone() -> None:
    rows = IMAGES.flatten(1)[:, :5, None, None]
    low, high = torch.zeros(5, 1, 1), torch.ones(5, 1, 1)
    up, down = transformations(rows, make_region("linf", rows, 0.1, (low, high)), 0.1)
    assert torch.allclose(up, (rows + 0.1).clamp(max=1))
    assert torch.allclose(down, (rows - 0.1).clamp(min=0))


@pytest.mark.parametrize("stride", STRIDES)
def test_a_stride_is_kept_and_its_gradient_is_that_of_no_change(stride) -> None:
    images = IMAGES.clone().requires_grad_()
    found = to_stride(images, stride)
    levels = (found * 255).double() / stride
    assert torch.allclose(levels, levels.round(), atol=1e-4)
    # Above the last multiple there is none to go up to.
    reached = images.detach() <= (255 // stride * stride + stride / 2) / 255
    assert reached.any()
    assert (found - images)[reached].abs().max().item() <= stride / 2 / 255 + 1e-6
    found.sum().backward()
    assert torch.equal(images.grad, torch.ones_like(images))
