"""The ensemble: one attack after the other on what still holds, and the worst case per example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seatrial.contracts.costs import Passes
from seatrial.families.shared.robust_accuracy import ATTACKS, DRAWS, AttackName
from workers.attacks.autoattack.apgd import APGD
from workers.attacks.autoattack.attempts import Attempt, over_targets
from workers.attacks.autoattack.dlr import likeliest_targets, targeted_loss, untargeted_loss
from workers.attacks.autoattack.fab import FAB
from workers.attacks.autoattack.rays import Rays
from workers.attacks.autoattack.square import Square
from workers.attacks.gradients import Loss, Model
from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Condition
from workers.attacks.regions import Box, Norm
from workers.attacks.robust_accuracy import is_wrong
from workers.models.memory import forward

NOT_RUN, HELD, BROKE, NON_FINITE = 0, 1, 2, 3
"""What an attack came to on an example; not run where the example was misclassified, broken or non_finite before."""


@dataclass
class Evaluation:
    """What the ensemble found, by example, on the device of the images.

    Attributes:
        logits: (n, classes) at the clean images, the mean over the draws.
        correct: (n,) bool, classified right (by more than half of the draws) and finite at the clean image.
        robust: (n,) bool, correct, and no attack broke it or met an output that is not finite.
        non_finite: (n,) bool, some output was not finite.
        broken_by: (n,) int64, position in ``attacks`` of the one that broke it; -1 where none did.
        images: (n, ...) the image that broke it; the clean image where none did.
        attacks: Their names, in the order in which they ran.
        outcomes: By attack (n,) int8: ``NOT_RUN``, ``HELD``, ``BROKE`` or ``NON_FINITE``.
        zero_gradient: By attack (n,) bool, every entry of the gradient at a starting point was exactly 0.
        forward: By attack (n,) int64, single forward passes spent.
        backward: By attack (n,) int64, single forward and backward passes spent.
    """

    logits: Tensor
    correct: Tensor
    robust: Tensor
    non_finite: Tensor
    broken_by: Tensor
    images: Tensor
    attacks: tuple[AttackName, ...]
    outcomes: dict[AttackName, Tensor]
    zero_gradient: dict[AttackName, Tensor]
    forward: dict[AttackName, Tensor]
    backward: dict[AttackName, Tensor]

    def holding_after(self, attack: AttackName) -> Tensor:
        """(n,) bool: correct, and held by every attack up to this one."""
        standing = self.correct.clone()
        for name in self.attacks[: self.attacks.index(attack) + 1]:
            standing &= self.outcomes[name] == HELD
        return standing


@dataclass(frozen=True)
class AutoAttack:
    """An ensemble; it holds no state and no randomness.

    Guarantee: every example said to be broken comes with an image in the ball and the box that the model misclassified
    when it was asked. Limit: the share of robust examples is an upper bound of the true robust accuracy;
    :mod:`workers.attacks.autoattack.checks` has the signs that it is a loose one.

    Two classes have no DLR, three no targeted one: :mod:`workers.attacks.autoattack.dlr` says what is used instead.
    The targeted attacks go through min(targets, classes - 1) classes.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        attacks: What runs, in this order.
        steps: Steps of every run of APGD and FAB.
        targets: Most classes that a targeted attack tries, the likeliest first.
        queries: Queries of the Square attack.
        draws: Passes averaged by APGD at every iterate.
        box: Least and greatest valid pixel.
        levels: Steps from 0 to 1 at which the model sees its inputs; Square and RayS keep to them.

    Raises:
        ValueError: No attack, or one twice, or FAB and Square on several draws, which they cannot average.
    """

    norm: Norm
    epsilon: float
    attacks: tuple[AttackName, ...] = ATTACKS["standard"]
    steps: int = 100
    targets: int = 9
    queries: int = 5000
    draws: int = 1
    box: Box = (0.0, 1.0)
    levels: int | None = None

    def __post_init__(self) -> None:
        if not self.attacks or len(set(self.attacks)) < len(self.attacks) or self.targets < 1:
            raise ValueError(f"not an ensemble: {self}")
        if self.draws > 1 and not set(self.attacks) <= {"apgd-ce", "apgd-dlr", "apgd-t"}:
            raise ValueError(f"only APGD averages draws: {self.attacks}")

    @classmethod
    def standard(cls, norm: Norm, epsilon: float) -> "AutoAttack":
        """Return the published ensemble for deterministic models."""
        return cls(norm, epsilon)

    @classmethod
    def rand(cls, norm: Norm, epsilon: float) -> "AutoAttack":
        """Return the published ensemble for randomised models: APGD on means over 20 draws.

        The authors count an iterate as misclassified when its last draw is, which breaks any model that errs once in
        a hundred passes; here more than half of the draws must be.
        """
        return cls(norm, epsilon, ATTACKS["rand"], draws=DRAWS)

    def run(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Evaluation:
        """Attack a batch; whatever does not fit in memory is halved.

        Args:
            model: Images to logits (n, classes), at least two classes.
            images: (n, channels, height, width) floating point, in the box; not changed.
            labels: (n,) int64.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: Not one generator per example, an empty batch, or fewer than two classes.
        """
        if len(images) == 0 or len(generators) != len(images):
            raise ValueError(f"{len(images)} images and {len(generators)} generators")
        logits, correct = self._clean(model, images, labels, check_cancelled)
        whole = Attempt.none_yet(images)
        whole.non_finite = ~logits.isfinite().all(1)
        found = Evaluation(
            logits=logits,
            correct=correct,
            robust=correct,
            non_finite=whole.non_finite,
            broken_by=torch.full_like(labels, -1),
            images=whole.images,
            attacks=self.attacks,
            outcomes={name: torch.zeros_like(labels, dtype=torch.int8) for name in self.attacks},
            zero_gradient={name: torch.zeros_like(correct) for name in self.attacks},
            forward={name: torch.zeros_like(labels) for name in self.attacks},
            backward={name: torch.zeros_like(labels) for name in self.attacks},
        )
        for number, name in enumerate(self.attacks):
            indices = (correct & ~whole.broken & ~whole.non_finite).nonzero().squeeze(1)
            if len(indices) == 0:
                break
            own = [generators[i] for i in indices.tolist()]
            attempt = self._attack(name, model, images[indices], labels[indices], logits[indices], own, check_cancelled)
            whole.add(indices, attempt)
            outcome = torch.full_like(attempt.broken, HELD, dtype=torch.int8)
            found.outcomes[name][indices] = outcome.where(~attempt.broken, BROKE).where(~attempt.non_finite, NON_FINITE)
            found.zero_gradient[name][indices] = attempt.zero_gradient
            found.forward[name][indices], found.backward[name][indices] = attempt.forward, attempt.backward
            found.broken_by[indices[attempt.broken]] = number
        found.robust = correct & ~whole.broken & ~whole.non_finite
        return found

    def passes(self, classes: int) -> dict[AttackName, Passes]:
        """Return what one example costs at most, by attack; the clean passes, one per draw, come on top."""
        each = {
            "apgd-ce": self._apgd.passes(),
            "apgd-dlr": self._apgd.passes(),
            "apgd-t": self._apgd.passes(),
            "fab-t": self._fab.passes(),
            "square": self._square.passes(),
            "rays": self._rays.passes(),
        }
        runs = {name: min(self.targets, classes - 1) if name in ("apgd-t", "fab-t") else 1 for name in self.attacks}
        return {
            name: Passes(each[name].forward * times, each[name].backward * times, each[name].queries * times)
            for name, times in runs.items()
        }

    @property
    def _apgd(self) -> APGD:
        return APGD(self.norm, self.epsilon, self.steps, draws=self.draws, box=self.box)

    @property
    def _fab(self) -> FAB:
        return FAB(self.norm, self.epsilon, self.steps, box=self.box)

    @property
    def _square(self) -> Square:
        return Square(self.norm, self.epsilon, self.queries, box=self.box, levels=self.levels)

    @property
    def _rays(self) -> Rays:
        return Rays(self.norm, self.epsilon, max(1, self.queries // 5), box=self.box, levels=self.levels)

    def _clean(
        self, model: Model, images: Tensor, labels: Tensor, check_cancelled: Callable[[], None]
    ) -> tuple[Tensor, Tensor]:
        """Return the mean logits (n, classes) and which examples (n,) more than half of the draws get right."""
        answers = []
        for _ in range(self.draws):
            check_cancelled()
            answers.append(forward(model, images))
        mean = torch.stack(answers).mean(0)
        if mean.dim() != 2 or mean.shape[1] < 2:
            raise ValueError(f"an attack needs logits (n, classes) of two classes at least, got {tuple(mean.shape)}")
        right = torch.stack([~is_wrong(logits, labels) for logits in answers]).sum(0)
        return mean, (2 * right > self.draws) & mean.isfinite().all(1)

    def _attack(
        self,
        name: AttackName,
        model: Model,
        images: Tensor,
        labels: Tensor,
        logits: Tensor,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> Attempt:
        """Run one attack on examples that are classified right."""

        def ascend(indices: Tensor, loss: Loss) -> Attempt:
            own = [generators[i] for i in indices.tolist()]
            return self._apgd.run(
                [model],
                images[indices],
                loss,
                misclassifies(labels[indices]),
                generators=own,
                check_cancelled=check_cancelled,
            )

        everyone = torch.arange(len(images), device=images.device)
        if name == "square":
            return self._square.run(model, images, labels, generators=generators, check_cancelled=check_cancelled)
        if name == "rays":
            return self._rays.run(
                model,
                images,
                lambda logits, indices: is_wrong(logits, labels[indices]),
                check_cancelled=check_cancelled,
            )
        if name == "apgd-ce":
            return ascend(everyone, lambda logits, indices: -cross_entropy(logits, labels[indices]))
        if name == "apgd-dlr":
            return ascend(everyone, untargeted_loss(labels))
        targets = likeliest_targets(logits, labels, self.targets)
        if name == "apgd-t":
            return over_targets(
                images, targets, lambda indices, target: ascend(indices, targeted_loss(labels[indices], target))
            )
        return over_targets(
            images,
            targets,
            lambda indices, target: self._fab.run(
                model, images[indices], labels[indices], target, check_cancelled=check_cancelled
            ),
        )


def misclassifies(labels: Tensor) -> Condition:
    """Return the condition that the (first) model predicts another class than ``labels`` (n,)."""
    return lambda logits, indices: is_wrong(logits[:, 0], labels[indices])
