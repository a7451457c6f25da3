"""How far attacks have moved the entropy of each example, over every image they asked about."""

from collections.abc import Callable, Sequence
from copy import copy

import torch
from torch import Tensor

from workers.attacks.gradients import Loss
from workers.attacks.losses import entropy
from workers.attacks.momentum import ChangingLoss

CLEAN_MARGIN = 2.0
"""Nats between the two largest scaled logits of a clean image: a top confidence of at most 0.88, unsaturated."""

ANNEALED = 0.6
"""Share of the steps after which an annealed loss is at its last temperature."""


def temperature_of(logits: Tensor) -> Tensor:
    """Return the temperature (n,) that brings the margin of clean logits (n, classes) to ``CLEAN_MARGIN``, at least 1.

    >>> temperature_of(torch.tensor([[20.0, 0.0], [0.5, 0.0]])).tolist()
    [10.0, 1.0]
    """
    return margin_temperature(logits).clamp_min(1.0)


def margin_temperature(logits: Tensor) -> Tensor:
    """Return the same without the least: dividing the logits by c divides it by c."""
    top = logits.topk(2, dim=1).values
    return (top[:, 0] - top[:, 1]) / CLEAN_MARGIN


class EntropyRange:
    """The lowest and highest predictive entropy of each example, at one temperature or several.

    Guarantee: both were realised by an image whose logits were shown to :meth:`see`. Outputs that are not finite change
    nothing and are remembered.

    Args:
        logits: (n, classes) of the clean images.
        temperatures: What logits are divided by, each by itself; 1 is the unmodified model.
        measure: What else than the entropy is watched: logits (n, ...) to (n,).

    Attributes:
        lowest: (temperatures, n) float64, nats.
        highest: The same.
        non_finite: (n,) bool, some output was not finite.
        changed: (n,) bool, some image was predicted otherwise than the clean one; of logits of several passes it is not
            kept.
    """

    def __init__(
        self,
        logits: Tensor,
        temperatures: Sequence[float] = (1.0,),
        measure: Callable[[Tensor], Tensor] = entropy,
    ) -> None:
        self._measure = measure
        self._temperatures = torch.tensor(temperatures, dtype=torch.float64, device=logits.device)
        self.lowest = self._entropies(logits)
        self.highest = self.lowest.clone()
        self.non_finite = ~_is_finite(logits)
        self.changed = torch.zeros_like(self.non_finite)
        self._predictions = logits.argmax(1) if logits.dim() == 2 else None

    def see(self, logits: Tensor, indices: Tensor) -> Tensor:
        """Take in logits (k, classes) of the examples at ``indices`` (k,); return their entropies (temperatures, k)."""
        found = self._entropies(logits)
        # fmin and fmax pass over what is NaN.
        self.lowest[:, indices] = torch.fmin(self.lowest[:, indices], found)
        self.highest[:, indices] = torch.fmax(self.highest[:, indices], found)
        self.non_finite[indices] |= ~_is_finite(logits)
        if self._predictions is not None:
            self.changed[indices] |= (logits.argmax(1) != self._predictions[indices]) & _is_finite(logits)
        return found

    def raising(self, temperature: int = 0) -> Loss:
        """Return the criterion of an attack that raises the entropy at one of the temperatures; it sees every image."""
        return lambda logits, indices: -self.see(logits, indices)[temperature]

    def lowering(self, temperature: int = 0) -> Loss:
        """Return the criterion of an attack that lowers it."""
        return lambda logits, indices: self.see(logits, indices)[temperature]

    def take_in(self, other: "EntropyRange") -> None:
        """Add what another has seen of the same examples."""
        self.lowest, self.highest = torch.fmin(self.lowest, other.lowest), torch.fmax(self.highest, other.highest)
        self.non_finite |= other.non_finite
        self.changed = self.changed | other.changed

    def copy(self) -> "EntropyRange":
        """Return what has been seen so far."""
        found = copy(self)
        found.lowest, found.highest, found.non_finite, found.changed = (
            values.clone() for values in (self.lowest, self.highest, self.non_finite, self.changed)
        )
        return found

    def _entropies(self, logits: Tensor) -> Tensor:
        temperatures = self._temperatures.view(-1, *[1] * logits.dim())
        scaled = logits.detach().double().unsqueeze(0) / temperatures
        found = self._measure(scaled.flatten(0, 1)).view(len(scaled), -1)
        return found.where(_is_finite(logits), torch.nan)


def _is_finite(logits: Tensor) -> Tensor:
    return logits.isfinite().flatten(1).all(1)


def annealed_entropy(begin: Tensor, end: float) -> ChangingLoss:
    """Return the negative entropy of logits whose temperature falls from ``begin`` (n,) to ``end`` on the way.

    Descended it raises the entropy. Where a softmax is near one-hot its own entropy has no slope worth following; that
    of scaled logits has one, and leads near the decision boundaries, where the unscaled one takes over.
    """
    ratio = (begin.double() / end).clamp_min(1.0)

    def loss(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
        temperatures = end * ratio[indices] ** max(0.0, 1.0 - progress / ANNEALED)
        # In double precision its gradient is there up to margins of some 80 nats; in float32 it ends at 17.
        return -entropy(logits.double() / temperatures.unsqueeze(1))

    return loss
