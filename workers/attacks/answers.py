"""What an adapted classifier answers to images, a piece at a time: who is right counts as in the games."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.models.adapted import Adapted, Rejecting
from workers.models.memory import run_with_oom_split


@dataclass(frozen=True)
class Answered:
    """Answers by example, on the device of the images.

    Attributes:
        logits: (n, classes).
        rejection_scores: (n,) float64; None of a classifier that never rejects.
        threshold: The score above which an example is rejected; of no meaning without scores.
    """

    logits: Tensor
    rejection_scores: Tensor | None
    threshold: float

    @property
    def non_finite(self) -> Tensor:
        """(n,) bool: a logit or the score is not finite. NaN is above no threshold and must not pass for accepted."""
        non_finite = ~self.logits.isfinite().all(1)
        return non_finite if self.rejection_scores is None else non_finite | ~self.rejection_scores.isfinite()

    @property
    def rejected(self) -> Tensor:
        """(n,) bool: there is no answer."""
        if self.rejection_scores is None:
            return torch.zeros(len(self.logits), dtype=torch.bool, device=self.logits.device)
        return self.rejection_scores > self.threshold

    def is_right(self, labels: Tensor) -> Tensor:
        """Return (n,) bool: an answer was given, it is finite, and it is the label (the first class of ties)."""
        return (self.logits.argmax(1) == labels) & ~self.rejected & ~self.non_finite


def ask(
    model: Adapted, images: Tensor, *, batch_size: int = 128, check_cancelled: Callable[[], None] = lambda: None
) -> Answered:
    """Return a classifier's answers to the batch it was adapted to, without a graph.

    Args:
        model: Asked on its own device.
        images: (n, ...) on any device, n at least 1; a one-round defence is given its whole sample here.
        batch_size: Images answered in one go, fewer where memory runs out.
        check_cancelled: Called before every forward pass; may raise.
    """

    def piece(start: int, stop: int) -> tuple[Tensor, Tensor | None]:
        check_cancelled()
        part = images[start:stop].to(model.device)
        with torch.no_grad():
            logits = model.logits(part, torch.arange(start, stop, device=model.device)).to(images.device)
            if not isinstance(model, Rejecting):
                return logits, None
            return logits, model.rejection_scores(part).to(images.device, torch.float64)

    pieces: list[tuple[Tensor, Tensor | None]] = []
    for first in range(0, len(images), batch_size):
        pieces += run_with_oom_split(piece, first, min(first + batch_size, len(images)))
    scores = [found for _, found in pieces if found is not None]
    return Answered(
        logits=torch.cat([found for found, _ in pieces]),
        rejection_scores=torch.cat(scores) if scores else None,
        threshold=model.threshold if isinstance(model, Rejecting) else torch.inf,
    )
