"""Brightness against the standard library's conversion of one pixel after the other."""

import colorsys
import math

import numpy as np
import torch

from workers.attacks.corruptions import brighten


def test_colours_are_those_of_hsv_with_a_greater_value() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 3, 5, 5))).float() / 255
    images[0, :, 0, 0] = 0.0
    images[1, :, 0, 0] = 1.0
    found = brighten(images, 0.05)
    for image, bright in zip(
        images.permute(0, 2, 3, 1).reshape(-1, 3), found.permute(0, 2, 3, 1).reshape(-1, 3), strict=True
    ):
        hue, saturation, value = colorsys.rgb_to_hsv(*image.double().tolist())
        wanted = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.05, 1.0))
        assert [round(255 * float(one)) for one in bright] == [math.floor(255 * one + 1e-6) for one in wanted]


def test_of_one_channel_the_pixel_is_the_value_and_stays_an_8_bit_one() -> None:
    images = torch.arange(256).view(1, 1, 16, 16) / 255
    found = brighten(images, 0.05)
    assert (255 * found).round().flatten().tolist() == [min(level + 12, 255) for level in range(256)][:243] + [255] * 13
    assert torch.equal(found, (255 * found).round() / 255)


def test_nothing_is_added_by_nothing() -> None:
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (2, 3, 4, 4))).float() / 255
    torch.testing.assert_close(brighten(images, 0.0), images, rtol=0, atol=1e-7)
