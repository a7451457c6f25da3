"""Gradients through a smoothed classifier: the mean of its scores over fixed draws of noise (SmoothAdv)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from workers.attacks.gradients import Model


def smoothed_logits(
    model: Model, noise: Tensor, images: Tensor, add: Callable[[Tensor, Tensor], Tensor] = torch.add
) -> Tensor:
    """Return the logarithm of the mean score over draws of noise (n, classes), which softmax turns into that mean.

    The attack of Salman et al. 2019 (sec. 3.1): the same draws at every step. Every draw's noisy copies and forward
    pass are made again in the backward pass, so that one graph is held at a time and memory grows with the draws by
    their scores only.

    Args:
        model: Images (n, ...) to logits (n, classes).
        noise: (draws, ...) what is added to every image.
        images: (n, ...), differentiable.
        add: Images and a draw to noisy copies, differentiable by the images: as it is done where the model is
            certified, which may not be in floating point.
    """

    def log_scores(at: Tensor, draw: Tensor) -> Tensor:
        # What a checkpoint is given, it keeps: of a noisy batch there would be one for every draw.
        return model(add(at, draw)).log_softmax(1)

    drawn = [checkpoint(log_scores, images, draw, use_reentrant=False) for draw in noise]
    return torch.stack(drawn).logsumexp(0) - math.log(len(noise))
