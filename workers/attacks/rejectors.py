"""What refuses, made part of what is attacked: how far an example is from being answered, as one more logit."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from workers.attacks.gradients import IndexedModel, input_gradient
from workers.models.adapted import Adapted, Margined, Rejecting

ANSWERED = -100.0
"""Margin of a model that never refuses: so far below 0 that no loss sees it, and finite."""

ROUNDING = 1e-6
"""Least odds told apart: scores are float32, and one of 0 or 1 still has to have a gradient."""


def rejection_margins(model: Rejecting, images: Tensor) -> Tensor:
    """Return how far each image (b,) is from being answered, in log-odds: refused above 0; differentiable.

    A model's own margins where it has them. Else those of its scores s and threshold t, log s / (1 - s) less
    log t / (1 - t), either end rounded to 1e-6: their sign is that of s - t.
    """
    if isinstance(model, Margined):
        return model.rejection_margins(images)
    scores = model.rejection_scores(images)
    return torch.log(scores + ROUNDING) - torch.log(1 - scores + ROUNDING) - log_odds(model.threshold)


def log_odds(threshold: float) -> float:
    """Return the log-odds of a threshold in [0, 1], rounded at both ends.

    >>> log_odds(0.5), round(log_odds(1.0), 3) == -round(log_odds(0.0), 3)
    (0.0, True)
    """
    return math.log((threshold + ROUNDING) / (1 - threshold + ROUNDING))


def with_margin(model: Adapted, first: int) -> IndexedModel:
    """Return the model for the part of its batch that starts at row ``first``, with its margin as the last logit.

    Logits are (b, classes + 1); a model that never refuses has ``ANSWERED`` there.
    """

    def logits(images: Tensor, indices: Tensor) -> Tensor:
        answers = model.logits(images, indices + first)
        if isinstance(model, Rejecting):
            margins = rejection_margins(model, images).to(answers)
        else:
            margins = answers.new_full((len(answers),), ANSWERED)
        return torch.cat([answers, margins.unsqueeze(1)], 1)

    return IndexedModel(logits)


def has_gradient(model: Rejecting, images: Tensor, batch_size: int, check_cancelled: Callable[[], None]) -> Tensor:
    """Return where (n,) what refuses has a gradient with respect to the image, on the device of the images."""
    found = []
    for part in torch.split(images, batch_size):
        check_cancelled()
        inputs = part.to(model.device).detach().requires_grad_()
        with torch.enable_grad():
            gradient = input_gradient(rejection_margins(model, inputs), inputs)
        found.append((gradient.flatten(1) != 0).any(1).to(images.device))
    return torch.cat(found)
