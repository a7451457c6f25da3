"""Classifiers that a test-time defence made for one batch: what defences return, what attacks and games ask."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


class Adapted(Protocol):
    """A frozen classifier in eval mode, what a defence made for one round.

    It never changes afterwards, whatever its defence does next: an attacker collects many of them.
    """

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
        """Return logits (b, classes); differentiable with respect to ``images``.

        Args:
            images: (b, channels, height, width) in [0, 1], on ``device``.
            indices: (b,) int64, which examples of the batch it was adapted to these images belong to; None: all of
                them, in order. Only a classifier with parameters per example looks at it.

        Raises:
            ValueError: It has parameters per example, and these images are not one for each.
        """
        ...


@runtime_checkable
class Rejecting(Adapted, Protocol):
    """An adapted classifier that may refuse: a point whose rejection score is above the threshold has no answer.

    Whether a refusal counts for the defender or against it is the game's to say; ``logits`` are there all the same.
    ``isinstance`` tells these from other adapted classifiers, an operator's own among them.
    """

    @property
    def threshold(self) -> float:
        """The score above which a point is rejected."""
        ...

    def rejection_scores(self, images: Tensor) -> Tensor:
        """Return (b,) in [0, 1], on ``device``; differentiable with respect to ``images`` (b, ...) in [0, 1]."""
        ...


@runtime_checkable
class Margined(Rejecting, Protocol):
    """One that also says how far it is from answering on a scale that does not saturate, for attacks to go by."""

    def rejection_margins(self, images: Tensor) -> Tensor:
        """Return (b,) in log-odds, above 0 where it refuses; differentiable with respect to ``images``."""
        ...
