"""Images as they are written into a request to an endpoint."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image
from torch import Tensor

from workers.models import GREY_LEVELS

DECIMALS = 9
"""Of numbers in a request: more than a float32 between 0.01 and 1 has."""


@dataclass(frozen=True)
class EncodedImage:
    """An image as a template's placeholder becomes it.

    Attributes:
        value: Base64 of a PNG, or nested lists (channels, height, width).
    """

    value: str | list[Any]


def on_levels(images: Tensor, levels: int | None) -> Tensor:
    """Return images with every value at the nearest of the levels it is sent at; as they are where there are none.

    >>> import torch
    >>> on_levels(torch.tensor([0.4, 1.0]), 2).tolist(), on_levels(torch.tensor([0.5]), None).tolist()
    ([0.5, 1.0], [0.5])
    """
    return images if levels is None else (images * levels).round() / levels


def encode(images: Tensor, image_format: Literal["png", "floats"]) -> Sequence[EncodedImage]:
    """Return images (batch, channels, height, width) as they are sent.

    As ``png`` every value is clipped to [0, 1] and rounded to the nearest of 256 levels; as ``floats`` it is sent to
    nine decimals, also outside of [0, 1]. An image with a value that is not finite has no PNG and no JSON.

    Raises:
        ValueError: A value is not finite, or there are other than 1 or 3 channels in a PNG.
    """
    values = images.detach().double().cpu().numpy()
    if not np.isfinite(values).all():
        raise ValueError("an image with a value that is not finite cannot be sent")
    if image_format == "floats":
        return [EncodedImage(one.tolist()) for one in np.round(values, DECIMALS)]
    pixels = np.round(values.clip(0, 1) * GREY_LEVELS).astype(np.uint8)
    return [EncodedImage(_png(one)) for one in pixels]


def _png(pixels: Any) -> str:
    channels = len(pixels)
    if channels not in (1, 3):
        raise ValueError(f"a PNG has 1 or 3 channels, not {channels}")
    image = (
        Image.fromarray(pixels[0])
        if channels == 1
        else Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    )
    buffer = io.BytesIO()
    # Level 1: compressing better takes longer than sending more.
    image.save(buffer, "PNG", compress_level=1)
    return base64.b64encode(buffer.getvalue()).decode()
