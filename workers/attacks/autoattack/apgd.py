"""Auto-PGD: projected gradients with momentum, whose step size halves itself (Croce and Hein 2020, algorithm 1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from seatrial.contracts.costs import Passes
from workers.attacks.autoattack.attempts import ActiveExamples, Attempt, in_halves
from workers.attacks.autoattack.balls import draw_on_sphere, project, steepest
from workers.attacks.gradients import Loss, Model, input_gradient
from workers.attacks.objectives import Condition
from workers.attacks.regions import Box, Norm, per_example

RHO = 0.75
"""Share of the steps between two checkpoints that must improve on the step before, or the step size is halved."""

MOMENTUM = 0.75
"""Weight of the new step; the rest is the last move."""


def checkpoints(steps: int) -> list[int]:
    """Return the steps after which the step size may be halved.

    The first is at 22 % of the steps; every gap is 3 % of them shorter than the last, and at least 6 % (sec. 3.2). The
    authors' program cuts these three to whole steps, at least 1, where the paper rounds every checkpoint up. Its
    integers are followed, since they are what "AutoAttack" has been measured with; at 100 steps both are the same.

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    >>> checkpoints(40)
    [8, 15, 21, 26, 30, 33, 35, 37, 39]
    """
    gap, shorter, least = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    found, at = [], gap
    while at <= steps:
        found.append(at)
        gap = max(gap - shorter, least)
        at += gap
    return found


@dataclass(frozen=True)
class APGD:
    """A search; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box. Limit: it follows gradients, so a model that hides them is not attacked.

    The rules for halving are those of the authors' program, so that a run from the same start ends at the same image:
    at most, not fewer than, three quarters of the steps improve, or nothing new is best and nothing was halved last
    time. A step improves on the iterate before it, also where a halving went back to the best one since (the paper
    compares with that), and the first on a loss of 0 (the paper: on the start's).

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units; the first step size is twice that.
        steps: Gradient steps of one run.
        restarts: Runs per example, each from its own random start; broken examples are not in the next.
        draws: Passes averaged at every iterate, for randomised models (expectation over transformation); an iterate
            counts where more than half of them do.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float
    steps: int = 100
    restarts: int = 1
    draws: int = 1
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.steps >= 1 and self.restarts >= 1 and self.draws >= 1):
            raise ValueError(f"not an attack: {self}")

    def passes(self, models: int = 1) -> Passes:
        """Return what one example costs at most; the last iterate of a run needs no gradient."""
        runs = self.restarts * self.draws * models
        return Passes(forward=runs, backward=runs * self.steps)

    def run(
        self,
        models: Sequence[Model],
        images: Tensor,
        loss: Loss,
        until: Condition | None,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Attempt:
        """Attack a batch; a batch that does not fit in memory is halved.

        Args:
            models: One or several that all see the same image; their losses and gradients are added.
            images: (n, ...) floating point, in the box; not changed.
            loss: Loss of one model's logits, descended. A loss over all models at once (their least, say) is that of a
                single callable which stacks their logits.
            until: Examples where it holds are broken and leave the batch. None: every step is taken.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Returns:
            Attempt: With the image of lowest loss where none is broken.

        Raises:
            ValueError: No model, an empty batch, or not one generator per example.
        """
        if not models or len(images) == 0 or len(generators) != len(images):
            raise ValueError(f"{len(models)} models, {len(images)} images and {len(generators)} generators")

        def piece(start: int, stop: int) -> Attempt:
            indices = torch.arange(start, stop, device=images.device)
            evaluate = partial(_evaluate, models, loss, until, self.draws, check_cancelled)
            return self._restarted(evaluate, images[start:stop].detach(), indices, generators[start:stop])

        return in_halves(piece, len(images), generators=generators)

    def _restarted(
        self, evaluate: "Evaluate", origin: Tensor, indices: Tensor, generators: Sequence[torch.Generator]
    ) -> Attempt:
        whole = Attempt.none_yet(origin)
        values = torch.full((len(origin),), torch.inf, dtype=origin.dtype, device=origin.device)
        for _ in range(self.restarts):
            position = whole.standing
            if len(position) == 0:
                break
            own = [generators[i] for i in position.tolist()]
            start = draw_on_sphere(self.norm, origin[position], self.epsilon, self.box, own)
            attempt, value = self._descend(evaluate, origin[position], start, indices[position])
            whole.add(position, attempt, better=value < values[position])
            values[position] = torch.minimum(values[position], value)
        return whole

    def _descend(self, evaluate: "Evaluate", origin: Tensor, start: Tensor, indices: Tensor) -> tuple[Attempt, Tensor]:
        """Run once; return the attempt and the lowest loss (n,) of each example."""
        found, lowest = Attempt.none_yet(start), torch.full_like(start.flatten(1)[:, 0], torch.inf)
        at = evaluate(start, indices, with_gradient=True)
        found.zero_gradient = (at.gradient == 0).flatten(1).all(1)
        active = _Active(
            position=torch.arange(len(indices), device=indices.device),
            indices=indices,
            origin=origin,
            images=start,
            previous=start,
            gradient=at.gradient,
            # Not of the start: the authors' program compares the first step with a list it has not filled yet.
            value=torch.zeros_like(at.value),
            best=start,
            best_gradient=at.gradient,
            best_value=at.value.nan_to_num(nan=torch.inf),
            step=torch.full_like(at.value, 2 * self.epsilon),
            value_at_checkpoint=at.value.nan_to_num(nan=torch.inf),
            is_halved=torch.ones_like(at.reached),
            falls=torch.zeros_like(at.value),
        )
        due, last = checkpoints(self.steps), 0
        for step in range(self.steps + 1):
            self._leave(active, at, found, lowest, passes=step, everyone=step == self.steps)
            if len(active.indices) == 0:
                break
            if step in due:
                active.check(step - last)
                last = step
            self._move(active, momentum=MOMENTUM if step else 1.0)
            at = evaluate(active.images, active.indices, with_gradient=step + 1 < self.steps)
            active.take_in(at)
        return found, lowest

    def _move(self, active: "_Active", *, momentum: float) -> None:
        """Take the step against the gradient, and part of the last move with it."""
        inside = partial(project, self.norm, origin=active.origin, epsilon=self.epsilon, box=self.box)
        there = inside(active.images - per_example(active.step, active.images) * steepest(self.norm, active.gradient))
        moved = active.images + momentum * (there - active.images) + (1 - momentum) * (active.images - active.previous)
        active.previous, active.images = active.images, inside(moved)

    def _leave(
        self, active: "_Active", at: "_Evaluated", found: Attempt, lowest: Tensor, *, passes: int, everyone: bool
    ) -> None:
        """Write down the examples that are broken or non_finite (or all), and drop them."""
        broken = at.reached & ~at.non_finite
        leaving = broken | at.non_finite | everyone
        if not bool(leaving.any()):
            return
        position = active.position[leaving]
        image = torch.where(per_example(broken, active.images), active.images, active.best)
        found.images[position], lowest[position] = image[leaving], active.best_value[leaving]
        found.broken[position], found.non_finite[position] = broken[leaving], at.non_finite[leaving]
        found.backward[position] = at.passes * min(passes + 1, self.steps)
        found.forward[position] = at.passes * (passes == self.steps)
        active.keep(~leaving)


@dataclass
class _Evaluated:
    """One iterate of every example: loss, gradient, and which are done."""

    value: Tensor
    gradient: Tensor
    reached: Tensor
    non_finite: Tensor
    passes: int


Evaluate = Callable[..., _Evaluated]


@dataclass
class _Active(ActiveExamples):
    position: Tensor
    indices: Tensor
    origin: Tensor
    images: Tensor
    previous: Tensor
    gradient: Tensor
    value: Tensor
    best: Tensor
    best_gradient: Tensor
    best_value: Tensor
    step: Tensor
    value_at_checkpoint: Tensor
    is_halved: Tensor
    falls: Tensor

    def take_in(self, at: _Evaluated) -> None:
        """Compare the new iterate with the last and the best."""
        self.falls = self.falls + (at.value < self.value)
        better = at.value < self.best_value
        self.best_value = torch.where(better, at.value, self.best_value)
        self.best = torch.where(per_example(better, self.images), self.images, self.best)
        self.best_gradient = torch.where(per_example(better, self.images), at.gradient, self.best_gradient)
        self.value, self.gradient = at.value, at.gradient

    def check(self, steps: int) -> None:
        """At a checkpoint, ``steps`` after the last: halve the step of examples that stall, back at their best."""
        stalls = self.falls <= RHO * steps
        idles = ~self.is_halved & (self.best_value >= self.value_at_checkpoint)
        halve = stalls | idles
        self.step = torch.where(halve, self.step / 2, self.step)
        self.images = torch.where(per_example(halve, self.images), self.best, self.images)
        self.gradient = torch.where(per_example(halve, self.images), self.best_gradient, self.gradient)
        self.is_halved, self.value_at_checkpoint = halve, self.best_value
        self.falls = torch.zeros_like(self.falls)


def _evaluate(
    models: Sequence[Model],
    loss: Loss,
    until: Condition | None,
    draws: int,
    check_cancelled: Callable[[], None],
    images: Tensor,
    indices: Tensor,
    *,
    with_gradient: bool,
) -> _Evaluated:
    """Return the mean loss and gradient over the draws, summed over the models, one graph at a time."""
    value, gradient = torch.zeros_like(images.flatten(1)[:, 0]), torch.zeros_like(images)
    votes, non_finite = torch.zeros_like(indices), torch.zeros_like(indices, dtype=torch.bool)
    for _ in range(draws):
        outputs = []
        for model in models:
            check_cancelled()
            inputs = images.detach().requires_grad_(with_gradient)
            with torch.set_grad_enabled(with_gradient):
                logits = model(inputs)
                one = loss(logits, indices)
            if with_gradient:
                gradient += input_gradient(one, inputs) / draws
            value += one.detach() / draws
            outputs.append(logits.detach())
            non_finite |= ~logits.detach().isfinite().flatten(1).all(1)
        if until is not None:
            votes += until(torch.stack(outputs, 1), indices)
    return _Evaluated(value, gradient, 2 * votes > draws, non_finite, draws * len(models))
