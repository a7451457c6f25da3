"""Projected gradient descent over a batch, for any objective, on one model or several at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from workers.attacks.gradients import Combine, Joint, RowModel
from workers.attacks.gradients import Loss as Loss
from workers.attacks.gradients import Model as Model
from workers.attacks.gradients import input_gradient as input_gradient
from workers.attacks.regions import Box, Norm, make_region, per_example
from workers.models.memory import run_with_oom_split

Criterion = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, models, classes), rows (n,)) to (n,): lower is better."""

Condition = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, models, classes), rows (n,)) to (n,) bool."""


@dataclass(frozen=True)
class Objective:
    """What an attack wants.

    Every callable is given ``rows``, the positions of its examples in the batch the attack was started on: finished
    examples leave, so what is known per example is looked up as ``labels[rows]``.

    Attributes:
        loss: Descended by the gradient.
        criterion: Ranks iterates. None: the last iterate is the best.
        feasible: Iterates where it is false are never best.
        stops_when_infeasible: An example that leaves the feasible set ends at its last feasible iterate.
        until: Examples where it holds are finished and leave the batch.
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
        stuck: (n,) iterates at which every entry of the gradient was 0 although the loss was above its floor.
        reached: (n,) bool, ``until`` held at ``final``.
        unsound: (n,) bool, some output was not finite.
    """

    final: Tensor
    best: Tensor
    start_logits: Tensor
    final_logits: Tensor
    best_logits: Tensor
    start_value: Tensor
    best_value: Tensor
    steps: Tensor
    stuck: Tensor
    reached: Tensor
    unsound: Tensor

    @property
    def improved(self) -> Tensor:
        """(n,) bool: the best iterate is strictly better than the clean image."""
        return self.best_value < self.start_value


@dataclass(frozen=True)
class PGD:
    """A search; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box. Limit: it is a lower bound on what an attacker can do; masked gradients make the bound loose.

    Attributes:
        norm: Of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        step_size: Length of a step in the same norm.
        steps: Gradient steps of one run.
        random_start: Start at a random point of the ball instead of the clean image.
        restarts: Runs per example; examples finished in one run are not in the next.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range, or restarts could only repeat each other.
    """

    norm: Norm
    epsilon: float
    step_size: float
    steps: int
    random_start: bool = False
    restarts: int = 1
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.step_size > 0 and self.steps >= 0 and self.restarts >= 1):
            raise ValueError(f"not a search: {self}")
        if self.restarts > 1 and not self.random_start:
            raise ValueError("restarts repeat the same run unless random_start is true")

    def run(
        self,
        models: Sequence[Model | RowModel],
        images: Tensor,
        objective: Objective,
        *,
        generators: Sequence[torch.Generator] | None = None,
        starts: Tensor | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Attack a batch; a batch that does not fit in memory is halved.

        Args:
            models: One or several; all see the same perturbed image. Those with parameters per example are given rows.
            images: (n, ...) floating point, in the box; not changed.
            objective: What to look for.
            generators: One per example; needed for random starts.
            starts: (n, ...) first iterates, in the ball and the box, of a search without random starts; the clean image
                competes. None: the search begins as it says.
            tick: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: No model, an empty batch, random starts without one generator per example, or starts that are
                not one per example of a search without its own.
        """
        if not models or len(images) == 0:
            raise ValueError(f"nothing to attack: {len(models)} models, {len(images)} images")
        if self.random_start and len(generators or ()) != len(images):
            raise ValueError(f"random starts need one generator per example: {len(images)} examples")
        if starts is not None and (self.random_start or starts.shape != images.shape):
            raise ValueError(f"not the starts of this search: {tuple(starts.shape)}, images {tuple(images.shape)}")

        def piece(start: int, stop: int) -> Outcome:
            rows = torch.arange(start, stop, device=images.device)
            own = (generators or ())[start:stop]
            run = _Run(self, models, images[start:stop], rows, objective, own, tick)
            return run.outcome(None if starts is None else starts[start:stop].detach())

        pieces = run_with_oom_split(piece, 0, len(images), generators=generators if self.random_start else None)
        if len(pieces) == 1:
            return pieces[0]
        return Outcome(*[torch.cat([getattr(piece, field.name) for piece in pieces]) for field in fields(Outcome)])


@dataclass
class _Live:
    """The examples still in the batch; every field has one entry per example."""

    position: Tensor
    rows: Tensor
    images: Tensor
    logits: Tensor
    best: Tensor
    best_logits: Tensor
    best_value: Tensor
    steps: Tensor
    stuck: Tensor
    unsound: Tensor

    def keep(self, mask: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[mask])


class _Run:
    """One batch through all restarts of a search."""

    def __init__(
        self,
        search: PGD,
        models: Sequence[Model | RowModel],
        origin: Tensor,
        rows: Tensor,
        objective: Objective,
        generators: Sequence[torch.Generator],
        tick: Callable[[], None],
    ) -> None:
        self.search, self.origin, self.rows = search, origin.detach(), rows
        self.objective, self.generators = objective, generators
        self.models = Joint(models, objective.loss, objective.combine, tick)
        self.out: Outcome | None = None

    def outcome(self, starts: Tensor | None) -> Outcome:
        if self.search.random_start or starts is not None:
            # The clean image is a candidate too, and a run that starts elsewhere does not pass through it.
            self._descend(torch.arange(len(self.rows), device=self.rows.device), self.origin, steps=0)
        for _ in range(self.search.restarts):
            if self.out is None:
                waiting = torch.arange(len(self.rows), device=self.rows.device)
            else:
                waiting = (~self.out.reached).nonzero().squeeze(1)
            if len(waiting) == 0:
                break
            self._descend(waiting, None if starts is None else starts[waiting], steps=self.search.steps)
        assert self.out is not None  # noqa: S101
        return self.out

    def _descend(self, position: Tensor, start: Tensor | None, *, steps: int) -> None:
        """Run once from ``start`` (default: as the search says) over the examples at ``position`` of this batch."""
        origin = self.origin if len(position) == len(self.origin) else self.origin[position]
        region = make_region(self.search.norm, origin, self.search.epsilon, self.search.box)
        if start is None:
            start = region.draw([self.generators[i] for i in position.tolist()]) if self.search.random_start else origin
        live: _Live | None = None
        images = start
        for step in range(steps + 1):
            rows = self.rows[position] if live is None else live.rows
            if step < steps:
                logits, gradient_of = self.models.logits_and_gradient(images, rows)
            else:
                logits = self.models.logits(images, rows)
            if live is None:
                live = self._enter(position, rows, images, logits)
            leaving, reached = self._look(live, images, logits)
            if leaving is not None and bool(leaving.any()):
                self._leave(live, leaving, reached)
                if len(live.rows) == int(leaving.sum()):
                    return
                staying = ~leaving
                live.keep(staying)
                region.keep(staying)
            else:
                staying = None
            if step == steps:
                break
            loss, gradient = gradient_of()
            if staying is not None:
                loss, gradient = loss[staying], gradient[staying]
            live.steps += 1
            flat = gradient.flatten(1)
            # By amax and amin: any() and vector_norm() take ten times as long on a CPU.
            is_zero = (flat.amax(1) == 0) & (flat.amin(1) == 0)
            live.stuck += is_zero & (loss > self.objective.floor + 1e-6)
            images = region.step(live.images, gradient, self.search.step_size)
            if not self.objective.stops_when_infeasible:
                live.images = images
            # Nothing of this step may outlive it: what is freed after the next forward pass has begun makes the
            # allocator give memory back and fault it in again, a tenth of the time of a small network.
            del gradient, gradient_of
        if live is not None:
            self._leave(live, None, None)

    def _enter(self, position: Tensor, rows: Tensor, images: Tensor, logits: Tensor) -> _Live:
        """Return the live state at a run's first iterate; the very first one is the clean image."""
        n = len(position)
        if self.out is None:
            counts = torch.zeros(n, dtype=torch.int64, device=images.device)
            never = torch.zeros(n, dtype=torch.bool, device=images.device)
            value = self._value(logits, rows)
            self.out = Outcome(
                final=images.clone(),
                best=images.clone(),
                start_logits=logits,
                final_logits=logits.clone(),
                best_logits=logits.clone(),
                start_value=value,
                best_value=value.clone(),
                steps=counts,
                stuck=counts.clone(),
                reached=never,
                unsound=never.clone(),
            )
        out = self.out
        return _Live(
            position=position,
            rows=rows,
            # What a run stops at that is infeasible from its first iterate on.
            images=self.origin[position],
            logits=out.start_logits[position],
            best=out.best[position],
            best_logits=out.best_logits[position],
            best_value=out.best_value[position],
            steps=out.steps[position],
            stuck=out.stuck[position],
            unsound=out.unsound[position],
        )

    def _value(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the criterion (n,) with inf for iterates that cannot be best; NaN without a criterion."""
        if self.objective.criterion is None:
            return torch.full((len(rows),), math.nan, dtype=torch.float64, device=logits.device)
        value = self.objective.criterion(logits, rows).double()
        allowed = logits.isfinite().flatten(1).all(1) & ~value.isnan()
        if self.objective.feasible is not None:
            allowed &= self.objective.feasible(logits, rows)
        return value.where(allowed, math.inf)

    def _look(self, live: _Live, images: Tensor, logits: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Take in one iterate; return which examples leave at it (None: nobody can) and which because of ``until``."""
        objective = self.objective
        live.unsound = live.unsound | ~logits.isfinite().flatten(1).all(1)
        leaving = reached = None
        if objective.feasible is not None and objective.stops_when_infeasible:
            leaving = ~objective.feasible(logits, live.rows)
            live.images = torch.where(per_example(leaving, images), live.images, images)
            live.logits = torch.where(per_example(leaving, logits), live.logits, logits)
        else:
            live.images, live.logits = images, logits
        if objective.criterion is not None:
            value = self._value(logits, live.rows)
            better = value < live.best_value
            live.best_value = torch.where(better, value, live.best_value)
            live.best = torch.where(per_example(better, images), images, live.best)
            live.best_logits = torch.where(per_example(better, logits), logits, live.best_logits)
        if objective.until is not None:
            reached = objective.until(logits, live.rows)
            leaving = reached if leaving is None else leaving | reached
        return leaving, reached

    def _leave(self, live: _Live, leaving: Tensor | None, reached: Tensor | None) -> None:
        """Write the examples where ``leaving`` is true (None: all) to the outcome."""
        out = self.out
        assert out is not None  # noqa: S101
        take = slice(None) if leaving is None else leaving
        at = live.position[take]
        out.final[at], out.final_logits[at] = live.images[take], live.logits[take]
        out.steps[at], out.stuck[at], out.unsound[at] = live.steps[take], live.stuck[take], live.unsound[take]
        if self.objective.criterion is None:
            out.best[at], out.best_logits[at] = live.images[take], live.logits[take]
        else:
            out.best[at], out.best_logits[at], out.best_value[at] = (
                live.best[take],
                live.best_logits[take],
                live.best_value[take],
            )
        if reached is not None:
            out.reached[at] = reached[take]
