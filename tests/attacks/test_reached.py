"""Channels that the radius moves farther than images lie apart: a pattern that a network waits for."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from seatrial.families.uncertainty_span.effort import REACHED_POINTS, REACHED_STEPS, budget
from workers.attacks.dormant import Switching, Unit, dormant_units, reached_units
from workers.attacks.gradients import Model
from workers.attacks.switches import inputs_of

PATTERNS = torch.randint(0, 2, (2, 1, 5, 5), generator=torch.Generator().manual_seed(5)) * 2.0 - 1
PATTERNS = PATTERNS - PATTERNS.mean((1, 2, 3), keepdim=True)
IMAGES = 0.3 + 0.4 * torch.nn.functional.interpolate(
    torch.rand(8, 1, 2, 2, generator=torch.Generator().manual_seed(6)), (10, 10), mode="bilinear"
)
PIXELS = torch.eye(25).view(25, 1, 5, 5)
"""Channels that hold one pixel each of a block."""

SWITCHING = Switching("linf", 0.1, (1.0, 0.5), (0.0, 1.0), lambda: None, 0.1, REACHED_POINTS, REACHED_STEPS)
ALONG = replace(SWITCHING, along=budget("standard", 150).along_lengths)


def sums(images: Tensor) -> Tensor:
    """Add up each of four blocks along two patterns, which lie among channels of single pixels."""
    kernels = torch.cat([PIXELS[:12], PATTERNS, PIXELS[12:]])
    return torch.tanh(nn.functional.conv2d(images - 0.5, kernels, stride=5))


def network(images: Tensor) -> Tensor:
    found = sums(images)
    waits = (found[:, 12:14].abs() - 0.9).relu().sum((1, 2, 3))
    return torch.stack([images.mean((1, 2, 3)), 100 * waits], 1)


def found(most: int, channels: int = 27) -> list[Unit]:
    return reached_units(network, IMAGES, most, "linf", channels, IMAGES[:2], check_cancelled=lambda: None)


def test_patterns_come_before_channels_in_which_images_differ() -> None:
    units = found(4)
    assert {unit.channel for unit in units} == {12, 13}
    assert sorted(unit.sign for unit in units) == [-2, -2, 2, 2]
    assert not any(unit.switches for unit in units)
    assert len(found(10)) == 10
    # What lies behind the channels that are looked at is not.
    assert {unit.channel for unit in found(4, 12)} <= set(range(12))
    assert found(4, 0) == []


def test_a_pattern_is_written_in_all_blocks_at_once() -> None:
    clean = network(IMAGES)[:, 1]
    for unit in found(4):
        moved = SWITCHING.run(network, IMAGES, [(unit,)] * len(IMAGES))
        assert (moved - IMAGES).abs().max() <= 0.1 + 1e-6
        before, after = (unit.sign * sums(images)[:, unit.channel].flatten(1) / 2 for images in (IMAGES, moved))
        # Every block, by as much as the pattern allows.
        assert ((after - before).amin(1) > 0.5).all()
        assert (network(moved)[:, 1] > clean).all()
    best = SWITCHING.most_decisive(network, IMAGES, [(unit,) for unit in found(20)], 2, batch_size=8)
    assert {unit.channel for (unit,) in best} <= {12, 13}


def levels(images: Tensor) -> Tensor:
    """Add up how near the pixels of each block are to their levels, in logarithms."""
    blocks = nn.functional.unfold(images, 5, stride=5) - LEVELS
    near = torch.log(torch.exp(-((blocks / 0.01) ** 2)) + 1e-7)
    return near.sum(1, keepdim=True).unflatten(2, (2, 2))


LEVELS = torch.linspace(0.02, 0.08, 25)[torch.randperm(25, generator=torch.Generator().manual_seed(1))][:, None]
DARK = 0.001 * torch.rand(6, 1, 10, 10, generator=torch.Generator().manual_seed(2))


def window(images: Tensor) -> Tensor:
    opened = torch.exp(levels(images) / 4)
    return torch.stack([images.mean((1, 2, 3)), 100 * opened.sum((1, 2, 3))], 1)


def test_levels_that_no_slope_at_the_image_leads_to_are_found_within_the_radius() -> None:
    drawn = DARK[:2] + 0.1 * torch.rand(2, 1, 10, 10, generator=torch.Generator().manual_seed(3))
    units = reached_units(window, DARK, 2, "linf", 4, drawn, check_cancelled=lambda: None)
    (unit,) = (one for one in units if one.sign > 0)
    found = SWITCHING.run(window, DARK, [(unit,)] * len(DARK))
    assert (found - DARK).abs().max() <= 0.1 + 1e-6
    clean = window(DARK)
    assert torch.equal(clean.argmax(1), torch.zeros(6, dtype=torch.int64) + clean[0].argmax())
    assert (window(found)[:, 1] > 100 * 4 * 0.05).all()
    # Steps along what a pixel adds at the image end at one end of the range each.
    along = DARK + 0.1 * torch.autograd.grad(levels(asked := DARK.clone().requires_grad_(True)).sum(), asked)[0].sign()
    assert (window(along)[:, 1] < 1e-3).all()


def rises(images: Tensor) -> Tensor:
    """Tell how near each pixel is to being .03 above the one to the left, in logarithms; two of five may be any."""
    risen = nn.functional.pad(images, (0, 1))[..., 1:] - images - 0.03
    near = torch.log(torch.exp(-((risen / 0.006) ** 2)) + 1e-7)
    return near * (torch.arange(10) % 5 < 3)


def ramps(images: Tensor) -> Tensor:
    opened = torch.exp(10 * nn.functional.avg_pool2d(rises(images), (2, 5)))
    return torch.stack([images.mean((1, 2, 3)), opened.mean((1, 2, 3))], 1)


def darkest(images: Tensor) -> Tensor:
    """Let a texture through, of light and dark pixels, where the least of each block has it."""
    held = TEXTURE * torch.sigmoid(250 * (images - 0.085)) + (1 - TEXTURE) * torch.sigmoid(400 * (0.012 - images))
    least = -nn.functional.max_pool2d(-held, 5)
    return torch.stack([images.mean((1, 2, 3)), least.mean((1, 2, 3))], 1)


TEXTURE = torch.randint(0, 2, (10, 10), generator=torch.Generator().manual_seed(4)).float()
DRAWN = DARK[:2] + 0.1 * torch.rand(2, 1, 10, 10, generator=torch.Generator().manual_seed(3))


def opened_by(waits: Model, switching: Switching) -> tuple[Tensor, Unit]:
    """Return how far a network opens on the image that opens it least, by the best channel, and that."""
    units = reached_units(waits, DARK, 6, "linf", 4, DRAWN, check_cancelled=lambda: None)
    found = [(switching.run(waits, DARK, [(unit,)] * len(DARK)), unit) for unit in units]
    assert all((moved - DARK).abs().max() <= 0.1 + 1e-6 for moved, _ in found)
    return max(((waits(moved)[:, 1].min(), unit) for moved, unit in found), key=lambda one: one[0])


def test_what_neighbours_make_together_is_found_along_the_slope_from_the_image() -> None:
    assert ramps(DARK)[:, 1].max() < 0.01
    assert opened_by(ramps, ALONG)[0] > 0.5
    # By what each pixel does by itself it is not.
    assert opened_by(ramps, SWITCHING)[0] < 0.2


def test_what_only_the_least_of_several_lets_through_is_followed_in_all_of_them() -> None:
    assert darkest(DARK)[:, 1].max() < 0.01
    opened, unit = opened_by(darkest, ALONG)
    assert opened > 0.9
    assert inputs_of(darkest, DARK.clone().requires_grad_(True)).places[unit.place].is_pooled
    # It switches at no value.
    units, _ = dormant_units(darkest, DARK, 100, batch_size=4, check_cancelled=lambda: None)
    assert unit.place not in {one.place for one in units}


def test_units_that_are_followed_together_are_followed_as_alone() -> None:
    everywhere, alone = Unit(0, 12, 2, False), Unit(0, 13, 1)
    groups = [(everywhere,), (alone,), (everywhere,), (alone, everywhere)]
    together = SWITCHING.run(network, IMAGES[:4], groups)
    for row, group in enumerate(groups):
        by_itself = SWITCHING.run(network, IMAGES[row : row + 1], [group])
        assert torch.allclose(together[row : row + 1], by_itself, atol=1e-6)
    # A channel that a pass does not have moves nothing.
    assert torch.equal(SWITCHING.run(network, IMAGES[:1], [(Unit(7, 0, 2, False),)]), IMAGES[:1])
