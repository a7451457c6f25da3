"""Harmless changes of an image that are nobody's attack (Hendrycks and Dietterich, ICLR 2019)."""

import torch
from torch import Tensor

from workers.models import GREY_LEVELS

ROUNDING = 1e-6


def brighten(images: Tensor, by: float) -> Tensor:
    """Return images (n, channels, ...) with ``by`` added to their value, as in the corruption brightness.

    Of hue, saturation and value (HSV) only the value changes, max over channels, cut off at 1; of one channel that is
    the pixel. Black becomes grey. What comes out is on the grid of 8 bits, rounded down, as in the official code.

    Args:
        images: In [0, 1].
        by: 0.05 is severity 1 of CIFAR-10-C, the one in Chen et al.'s Figure 1 (c).

    >>> (brighten(torch.tensor([[[0.5]], [[0.25]], [[0.0]]]).unsqueeze(0), 0.25) * 255).flatten().tolist()
    [191.0, 95.0, 0.0]
    """
    pixels = images.double()
    value = pixels.amax(1, keepdim=True)
    brighter = (value + by).clamp(0.0, 1.0)
    # Hue and saturation stay where all channels are multiplied alike; of black there is neither.
    changed = torch.where(value > 0, pixels * (brighter / value.clamp_min(torch.finfo(torch.float64).tiny)), brighter)
    return (((changed * GREY_LEVELS + ROUNDING).floor() / GREY_LEVELS).clamp(0.0, 1.0)).to(images.dtype)
