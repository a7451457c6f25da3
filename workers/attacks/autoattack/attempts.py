"""What one attack did to a batch, and what the attacks share in how they go through one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from workers.attacks.regions import per_example
from workers.models.memory import run_with_oom_split


@dataclass
class Attempt:
    """What an attack found, by example, on the device of the images.

    Attributes:
        images: (n, ...) the misclassified image where one was found; elsewhere the best the attack came to.
        broken: (n,) bool, a misclassified image in the ball and the box was found.
        non_finite: (n,) bool, some output was not finite. Never broken, never to be counted as robust.
        zero_gradient: (n,) bool, every entry of the gradient at a starting point was exactly 0.
        forward: (n,) single forward passes spent.
        backward: (n,) single forward and backward passes spent.
    """

    images: Tensor
    broken: Tensor
    non_finite: Tensor
    zero_gradient: Tensor
    forward: Tensor
    backward: Tensor

    @classmethod
    def none_yet(cls, images: Tensor) -> "Attempt":
        """Return the attempt that has done nothing to ``images`` (n, ...)."""
        never = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        counts = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        return cls(images.clone(), never, never.clone(), never.clone(), counts, counts.clone())

    @property
    def standing(self) -> Tensor:
        """(k,) positions of the examples that another attack may still break."""
        return (~(self.broken | self.non_finite)).nonzero().squeeze(1)

    def add(self, position: Tensor, later: "Attempt", *, better: Tensor | None = None) -> None:
        """Take in a later attempt at the examples at ``position`` (k,); its image counts where it broke one.

        Args:
            position: Which examples the later attempt was at.
            later: What it did.
            better: (k,) bool, further examples whose later image is the better one.
        """
        take = later.broken if better is None else later.broken | better
        self.images[position] = torch.where(per_example(take, later.images), later.images, self.images[position])
        self.broken[position] |= later.broken
        self.non_finite[position] |= later.non_finite
        self.zero_gradient[position] |= later.zero_gradient
        self.forward[position] += later.forward
        self.backward[position] += later.backward


@dataclass
class ActiveExamples:
    """The examples still under attack; every field has one entry per example."""

    def keep(self, mask: Tensor) -> None:
        """Drop the examples where ``mask`` (n,) is false."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[mask])


def in_halves(
    work: Callable[[int, int], Attempt], examples: int, *, generators: Sequence[torch.Generator] | None = None
) -> Attempt:
    """Attack examples 0 to ``examples`` by ``work(start, stop)``, in halves where memory runs out.

    Raises:
        torch.OutOfMemoryError: One example alone does not fit (or what ``is_out_of_memory`` takes for the same).
    """
    pieces = run_with_oom_split(work, 0, examples, generators=generators)
    return Attempt(*[torch.cat([getattr(piece, field.name) for piece in pieces]) for field in fields(Attempt)])


def over_targets(images: Tensor, targets: Tensor, attack: Callable[[Tensor, Tensor], Attempt]) -> Attempt:
    """Run a targeted attack towards one class after the other; broken examples are done.

    Args:
        images: (n, ...) originals.
        targets: (n, targets) int64, by example in the order of the runs.
        attack: (positions (k,) of examples in the batch, their targets (k,)) to what it did to them.
    """
    whole = Attempt.none_yet(images)
    for run in range(targets.shape[1]):
        position = whole.standing
        if len(position) == 0:
            break
        whole.add(position, attack(position, targets[position, run]))
    return whole
