"""What a gradient attack wants of each example, and what it found."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from torch import Tensor

from workers.attacks.gradients import Combine, Loss

Criterion = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, models, classes), indices (n,)) to (n,): lower is better."""

Condition = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, models, classes), indices (n,)) to (n,) bool."""


@dataclass(frozen=True)
class Objective:
    """What an attack wants.

    Every callable is given ``indices``, the positions of its examples in the batch the attack was started on: finished
    examples leave, so what is known per example is looked up as ``labels[indices]``.

    Attributes:
        loss: Loss the gradient descends.
        criterion: Ranking of the iterates. None: the last iterate is the best.
        feasible: Condition without which an iterate is never best.
        stops_when_infeasible: An example that leaves the feasible set ends at its last feasible iterate.
        until: Condition at which an example is finished and leaves the batch.
        floor: Least value the loss can have. A zero gradient there is an optimum, above it a masked gradient.
        combine: What is descended of the losses of several models: their sum or, by example, the greatest of them,
            whose model alone then gives the gradient.
    """

    loss: Loss
    criterion: Criterion | None = None
    feasible: Condition | None = None
    stops_when_infeasible: bool = False
    until: Condition | None = None
    floor: float = -math.inf
    combine: Combine = "sum"


@dataclass
class Outcome:
    """What an attack found, by example, on the device of the images.

    Attributes:
        final: (n, ...) last iterate, or the one at which the example left.
        best: (n, ...) best feasible iterate of all, the clean image included; equal to ``final`` without a criterion.
        start_logits: (n, models, classes) at the clean image.
        final_logits: (n, models, classes) at ``final``.
        best_logits: (n, models, classes) at ``best``.
        start_value: (n,) criterion at the clean image, float64; NaN without a criterion, inf if infeasible.
        best_value: (n,) criterion at ``best``, float64; NaN without a criterion.
        steps: (n,) gradient steps taken over all restarts.
        zero_gradient_steps: (n,) those at which every entry of the gradient was 0 and the loss above its floor.
        reached: (n,) bool, ``until`` held at ``final``.
        non_finite: (n,) bool, some output was not finite.
    """

    final: Tensor
    best: Tensor
    start_logits: Tensor
    final_logits: Tensor
    best_logits: Tensor
    start_value: Tensor
    best_value: Tensor
    steps: Tensor
    zero_gradient_steps: Tensor
    reached: Tensor
    non_finite: Tensor

    @property
    def improved(self) -> Tensor:
        """(n,) bool: the best iterate is strictly better than the clean image."""
        return self.best_value < self.start_value

    def select(self, examples: Tensor) -> "Outcome":
        """Return a copy of the outcome of ``examples``, (k,) positions or (n,) bool."""
        return Outcome(*[getattr(self, field.name)[examples] for field in fields(self)])

    def write(self, position: Tensor, other: "Outcome") -> None:
        """Overwrite what a run changes of the examples at ``position`` (k,)."""
        for field in fields(self):
            # Besides, the graph of the first forward pass may still need the very memory of these logits.
            if not field.name.startswith("start_"):
                getattr(self, field.name)[position] = getattr(other, field.name)
