"""Models under audit, behind one small protocol."""

from typing import Protocol

import torch
from torch import Tensor


class Classifier(Protocol):
    """A frozen model in eval mode that turns inputs into logits.

    Images are float tensors (batch, channels, height, width) in [0, 1]; normalisation lives inside.
    """

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def logits(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes); differentiable with respect to ``images``."""
        ...
