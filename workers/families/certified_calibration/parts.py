"""Parts of the entropy of one noisy copy, of models of several passes: scalars that are certified like its entropy."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seatrial.contracts.passes import Part
from workers.attacks.parts import parts_of
from workers.models import Classifier
from workers.models.image_classifier import ImageClassifier
from workers.models.passes import mixed


def outputs_of(classifier: Classifier, parts: Sequence[Part]) -> Callable[[Tensor], Tensor]:
    """Return what gives logits, and behind them parts in nats, of images (rows, classes + parts), in one go.

    Args:
        classifier: Of several passes where there are parts.
        parts: Which; none: its logits, as they are.
    """
    if not parts:
        return classifier.logits
    model = cast(ImageClassifier, classifier)

    def outputs(images: Tensor) -> Tensor:
        # Half precision is for the network alone.
        passes = model.logits_of_passes(images).float()
        return torch.cat([mixed(passes), parts_of(passes, parts).float()], 1)

    return outputs


def smoothed_part(
    classifier: Classifier,
    part: Part,
    noise: Tensor,
    images: Tensor,
    add: Callable[[Tensor, Tensor], Tensor],
    check_cancelled: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return the mean part over draws of noise (n, 1), differentiable by images: what is certified, of fewer draws.

    A draw's graph is made again in the backward pass, as :func:`workers.attacks.smoothed.smoothed_logits` does.

    Args:
        classifier: Of several passes.
        part: Which.
        noise: (draws, ...) what is added to every image.
        images: (n, ...).
        add: Images and a draw to noisy copies.
        check_cancelled: Called before every forward pass; may raise.
    """
    model = cast(ImageClassifier, classifier)

    def value(at: Tensor, draw: Tensor) -> Tensor:
        check_cancelled()
        return parts_of(model.logits_of_passes(add(at, draw)), [part])

    drawn = [checkpoint(value, images, draw, use_reentrant=False) for draw in noise]
    return torch.stack(drawn).mean(0)
