"""Channels that the radius moves farther than images lie apart: a pattern that a network waits for."""

import torch
from torch import Tensor, nn

from workers.attacks.dormant import Switching, Unit, reached_units

PATTERNS = torch.randint(0, 2, (2, 1, 5, 5), generator=torch.Generator().manual_seed(5)) * 2.0 - 1
PATTERNS = PATTERNS - PATTERNS.mean((1, 2, 3), keepdim=True)
IMAGES = 0.3 + 0.4 * torch.nn.functional.interpolate(
    torch.rand(8, 1, 2, 2, generator=torch.Generator().manual_seed(6)), (10, 10), mode="bilinear"
)
PIXELS = torch.eye(25).view(25, 1, 5, 5)
"""Channels that hold one pixel each of a block."""


def sums(images: Tensor) -> Tensor:
    """Add up each of four blocks along two patterns, which lie among channels of single pixels."""
    kernels = torch.cat([PIXELS[:12], PATTERNS, PIXELS[12:]])
    return torch.tanh(nn.functional.conv2d(images - 0.5, kernels, stride=5))


def network(images: Tensor) -> Tensor:
    found = sums(images)
    waits = (found[:, 12:14].abs() - 0.9).relu().sum((1, 2, 3))
    return torch.stack([images.mean((1, 2, 3)), 100 * waits], 1)


def found(most: int, channels: int = 27) -> list[Unit]:
    return reached_units(network, IMAGES, most, "linf", channels, 2, check_cancelled=lambda: None)


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
    switching = Switching("linf", 0.1, (1.0, 0.5), (0.0, 1.0), lambda: None)
    for unit in found(4):
        moved = switching.run(network, IMAGES, [(unit,)] * len(IMAGES))
        assert (moved - IMAGES).abs().max() <= 0.1 + 1e-6
        before, after = (unit.sign * sums(images)[:, unit.channel].flatten(1) / 2 for images in (IMAGES, moved))
        # Every block, by as much as the pattern allows.
        assert ((after - before).amin(1) > 0.5).all()
        assert (network(moved)[:, 1] > clean).all()
    best = switching.most_decisive(network, IMAGES, [(unit,) for unit in found(20)], 2, batch_size=8)
    assert {unit.channel for (unit,) in best} <= {12, 13}
