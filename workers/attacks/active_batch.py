"""The examples of a batch that an attack is still at, and what it has found of all."""

import math

import torch
from torch import Tensor

from workers.attacks.objectives import Objective, Outcome
from workers.attacks.regions import Region, per_example


class ActiveBatch:
    """The bookkeeping of a gradient attack: best and last iterates, counts, and which examples are finished.

    Between :meth:`enter` and :meth:`leave` lies one run: :meth:`record` takes in an iterate of every active example and
    lets the finished ones go, :meth:`step` makes the next iterates. The very first iterate of all is the clean image.

    Args:
        images: (n, ...) originals.
        indices: (n,) their positions in the batch the attack was started on.
        objective: What the attack wants.

    Attributes:
        position: (k,) which of the n examples are active.
        indices: (k,) their positions in the batch the attack was started on.
        images: (k, ...) their originals.
    """

    _found: Outcome
    """Of the active examples, from a run's first iterate on."""
    _staying: Tensor | None
    """Which of the examples recorded last did not leave (m,) bool; None: all of them."""

    def __init__(self, images: Tensor, indices: Tensor, objective: Objective) -> None:
        self._all_images, self._all_indices, self._objective = images, indices, objective
        self._outcome: Outcome | None = None
        self.position = torch.arange(len(indices), device=indices.device)
        self.indices, self.images = indices, images
        self._is_new = True

    @property
    def is_empty(self) -> bool:
        """No example is active."""
        return len(self.position) == 0

    @property
    def outcome(self) -> Outcome:
        """What was found by the runs that have ended, by example of the whole batch; after one has."""
        assert self._outcome is not None  # noqa: S101
        return self._outcome

    def enter(self) -> None:
        """Begin a run over all examples that are not finished."""
        if self._outcome is not None:
            self.position = (~self._outcome.reached).nonzero().squeeze(1)
        everything = len(self.position) == len(self._all_indices)
        self.indices = self._all_indices if everything else self._all_indices[self.position]
        self.images = self._all_images if everything else self._all_images[self.position]
        self._is_new = True

    def record(self, images: Tensor, logits: Tensor) -> None:
        """Take in the next iterate of every active example; those that are finished at it leave.

        Args:
            images: (k, ...) the iterates.
            logits: (k, models, classes) at them.
        """
        if self._is_new:
            self._found, self._is_new = self._begin(images, logits), False
        found, objective = self._found, self._objective
        found.non_finite = found.non_finite | ~logits.isfinite().flatten(1).all(1)
        leaving = None
        if objective.feasible is not None and objective.stops_when_infeasible:
            leaving = ~objective.feasible(logits, self.indices)
            found.final = torch.where(per_example(leaving, images), found.final, images)
            found.final_logits = torch.where(per_example(leaving, logits), found.final_logits, logits)
        else:
            found.final, found.final_logits = images, logits
        if objective.criterion is not None:
            value = self._value(logits)
            better = value < found.best_value
            found.best_value = torch.where(better, value, found.best_value)
            found.best = torch.where(per_example(better, images), images, found.best)
            found.best_logits = torch.where(per_example(better, logits), logits, found.best_logits)
        if objective.until is not None:
            found.reached = objective.until(logits, self.indices)
            leaving = found.reached if leaving is None else leaving | found.reached
        self._staying = None
        if leaving is not None and bool(leaving.any()):
            self._staying = ~leaving
            self._drop(leaving)

    def step(self, region: Region, loss: Tensor, gradient: Tensor, step_size: float) -> Tensor:
        """Return the next iterates (k, ...): one step against the gradient, projected.

        Args:
            region: Where the examples recorded last may be; those that left leave it too.
            loss: (m,) of the examples recorded last.
            gradient: (m, ...) of their losses; used up.
            step_size: Length of the step.
        """
        if self._staying is not None:
            region.keep(self._staying)
            loss, gradient = loss[self._staying], gradient[self._staying]
        found = self._found
        found.steps += 1
        flat = gradient.flatten(1)
        # By amax and amin: any() and vector_norm() take ten times as long on a CPU.
        is_zero = (flat.amax(1) == 0) & (flat.amin(1) == 0)
        found.zero_gradient_steps += is_zero & (loss > self._objective.floor + 1e-6)
        images = region.step(found.final, gradient, step_size)
        if not self._objective.stops_when_infeasible:
            # The iterate before is not needed any more, and its memory is.
            found.final = images
        return images

    def leave(self) -> None:
        """End the run: the examples that are still active end where they are."""
        self._write(self._found, self.position)

    def _begin(self, images: Tensor, logits: Tensor) -> Outcome:
        """Return what is known of the active examples as a run begins; the very first iterate is the clean image."""
        if self._outcome is None:
            counts = torch.zeros_like(self.position)
            never = torch.zeros_like(self.position, dtype=torch.bool)
            value = self._value(logits)
            self._outcome = Outcome(
                final=images.clone(),
                best=images.clone(),
                start_logits=logits,
                final_logits=logits.clone(),
                best_logits=logits.clone(),
                start_value=value,
                best_value=value.clone(),
                steps=counts,
                zero_gradient_steps=counts.clone(),
                reached=never,
                non_finite=never.clone(),
            )
        found = self._outcome.select(self.position)
        # Where a run stops that is infeasible from its first iterate on.
        found.final, found.final_logits = self.images, found.start_logits
        return found

    def _value(self, logits: Tensor) -> Tensor:
        """Return the criterion (k,), inf for iterates that cannot be best; NaN without a criterion."""
        objective = self._objective
        if objective.criterion is None:
            return torch.full((len(logits),), math.nan, dtype=torch.float64, device=logits.device)
        value = objective.criterion(logits, self.indices).double()
        allowed = logits.isfinite().flatten(1).all(1) & ~value.isnan()
        if objective.feasible is not None:
            allowed &= objective.feasible(logits, self.indices)
        return value.where(allowed, math.inf)

    def _drop(self, leaving: Tensor) -> None:
        """Let the examples go where ``leaving`` (k,) is true."""
        self._write(self._found.select(leaving), self.position[leaving])
        staying = ~leaving
        self._found = self._found.select(staying)
        self.position, self.indices = self.position[staying], self.indices[staying]

    def _write(self, found: Outcome, position: Tensor) -> None:
        if self._objective.criterion is None:
            found.best, found.best_logits = found.final, found.final_logits
        self.outcome.write(position, found)
