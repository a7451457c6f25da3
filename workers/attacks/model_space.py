"""The fixed-point and the greedy model space attack on defences that adapt at test time (Chen et al., sec. 4).

A defence answers perturbed points with a model that it induces from these very points. The attack plays both sides in
turn: it perturbs the points against models it has, induces the next model from what it made, and goes on. Attack i is
evaluated by the model it induces, F^(i+1), never by a model it attacked.

* ``fpa``: attack i is on F^(i) alone. It can go round in circles, each attack undone by the model it induces.
* ``gmsa_avg``: on F^(0) to F^(i), through the mean of their losses.
* ``gmsa_min``: on F^(0) to F^(i), by example through the loss of the model that resists most.

With T iterations there are T + 1 attacks; T = 0 is the transfer attack. Three things are kept apart: how a batch is
perturbed against given models (:class:`Perturb`), what the defence makes of it (``Induce``), and the game between them
(:class:`ModelSpaceAttack`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from workers.attacks.answers import Answered, ask
from workers.attacks.gradients import Combine, IndexedModel, Loss, joined
from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD
from workers.attacks.rejectors import has_gradient, with_margin
from workers.models.adapted import Adapted, Rejecting

Method = Literal["fpa", "gmsa_avg", "gmsa_min"]

CLEAN = -1
"""In place of an iteration: the batch nobody has perturbed."""

Induce = Callable[[Tensor, int], Adapted]
"""(images (n, ...) of V^(i), i) to F^(i+1); i is ``CLEAN`` for the clean batch.

Called again with the same arguments it must return the same model, bit for bit, whatever it was called with between:
whoever simulates a stateful defence goes back to its state of before the round, and randomness is drawn from i. Then an
attack that was stopped goes on as if it had not been.
"""

Generators = Callable[[int], Sequence[torch.Generator]]
"""Iteration i to one CPU generator per example, each time as new."""


@dataclass(frozen=True)
class Found:
    """What perturbing a batch came to, by example.

    Attributes:
        images: (n, ...) in the norm ball around the originals and in the box.
        non_finite: (n,) bool, some output of some model was not finite.
    """

    images: Tensor
    non_finite: Tensor


class Perturb(Protocol):
    """Perturbs a batch against several models at once."""

    def __call__(
        self,
        models: Sequence[IndexedModel],
        combine: Combine,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> Found:
        """Return the strongest perturbation found.

        Args:
            models: Attacked together.
            combine: ``sum`` against their average; ``max`` against the one that resists most, for as many times the
                steps as there are models. (It names what is done to the losses that are descended: the greatest of
                them is the least of those that are raised.)
            images: (n, ...) on the models' device.
            labels: (n,) true labels.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise.
        """
        ...


@dataclass(frozen=True)
class RaiseCrossEntropy:
    """PGD on the cross-entropy of the true labels; the best iterate counts and the clean image competes.

    Attributes:
        pgd: Norm, radius, step size, random starts; ``steps`` are those against one model.
    """

    pgd: PGD

    def __call__(
        self,
        models: Sequence[IndexedModel],
        combine: Combine,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> Found:
        """Perturb a batch; see :class:`Perturb`."""
        objective = descend(lambda logits, indices: -cross_entropy(logits, labels[indices]), combine)
        pgd = lengthened(self.pgd, combine, len(models))
        outcome = pgd.run(models, images, objective, generators=generators, check_cancelled=check_cancelled)
        return Found(outcome.best, outcome.non_finite)


@dataclass(frozen=True)
class Iteration:
    """One attack and how it did. ``Iteration(**vars(iteration))`` is a copy: store the tensors, go on from them.

    Attributes:
        perturbed: (n, ...) V^(i); the images themselves where the clean batch was evaluated.
        attacked: (k,) int64, the j of the F^(j) it was made against; empty for the clean batch.
        correct: (n,) bool, F^(i+1), the model it induced, classifies the perturbed image right or refuses it, with
            finite outputs: the attacker has gained nothing.
        losses: (n,) float64, cross-entropy of F^(i+1) there, 0 where it refuses; inf where its output is not finite.
        non_finite: (n,) bool, some output of an attacked or of the induced model was not finite.
        adapted: (n,) bool, there is something of the defence to attack: the logits of F^(i+1) are others than those of
            F^(0); of one that may refuse, what it refuses by has a gradient there, and is attacked.
    """

    perturbed: Tensor
    attacked: Tensor
    correct: Tensor
    losses: Tensor
    non_finite: Tensor
    adapted: Tensor

    @property
    def number(self) -> int:
        """Its i, or ``CLEAN``."""
        return int(self.attacked[-1]) if len(self.attacked) else CLEAN

    @property
    def accuracy(self) -> float:
        """Share of the batch that the induced model does not answer wrongly."""
        return float(self.correct.double().mean())

    @property
    def loss(self) -> float:
        """Mean cross-entropy of the induced model."""
        return float(self.losses.mean())


@dataclass(frozen=True)
class ModelSpaceAttack:
    """An attack on a defence; it holds no state and no randomness.

    Guarantee: what it sends was evaluated by the model that exactly these images induced. Limit: that model is the
    attacker's simulation; the defender's own randomness may give another.

    Attributes:
        method: Which of the models found so far are attacked, and how.
        perturb: The attack on given models.
        evade: The attack on models some of which may refuse, given as :func:`with_margin` has them: their last logit
            is how far they are from answering. Only these are attacked then. None: all are, as if they always answered.
        iterations: T; the defence is simulated T + 1 times.
        variant: ``official``: the attack with the least accuracy of the induced model, the first on ties, as the
            authors' code has it. ``paper``: with the greatest loss.
        start_at: What the official code lets an attack have to lie below. ``above_one`` (DANN, TADV): nothing, some
            attack is sent. ``one`` (RMC): an accuracy of 1. ``clean`` (DENT): the accuracy of the model that the clean
            batch induces, one simulation more. Where none does, the clean batch is sent. With T = 0 there is nothing to
            choose: the transfer attack is sent.
        stop_at_first_success: End once nothing in the batch is classified right (RMC, batches of one).
        batch_size: Examples attacked and evaluated in one go; the defence sees all at once whatever it is.

    Raises:
        ValueError: A number is out of range, or a fall-back the paper does not have is asked of its variant.
    """

    method: Method
    perturb: Perturb
    iterations: int
    variant: Literal["official", "paper"] = "official"
    start_at: Literal["above_one", "one", "clean"] = "above_one"
    stop_at_first_success: bool = False
    batch_size: int = 128
    evade: Perturb | None = None

    def __post_init__(self) -> None:
        if self.iterations < 0 or self.batch_size < 1:
            raise ValueError(f"not an attack: {self}")
        if self.variant == "paper" and self.start_at != "above_one":
            raise ValueError("the paper's selection sends the best of the attacks, never the clean batch")

    def attack_iterations(
        self,
        base: Adapted,
        induce: Induce,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Generators,
        done: Sequence[Iteration] = (),
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Iterator[Iteration]:
        """Yield one iteration after the other, each as soon as it is evaluated.

        Guarantee: continued with ``done`` after any iteration it yields, bit for bit, what it would have yielded. The
        models it needs again are induced again from the stored images: one for ``fpa``, all for the others. Iteration 0
        is the same for every method, so what one has done of it can be handed to the others.

        Args:
            base: F^(0), what the defence starts from.
            induce: The attacker's simulation of the defence.
            images: (n, channels, height, width) in [0, 1], on any device; not changed.
            labels: (n,) int64, beside them.
            generators: Random generators of the random starts.
            done: What an earlier call yielded, in order.
            check_cancelled: Called before every forward pass; may raise.

        Raises:
            ValueError: The batch is empty or the labels are not its labels.
        """
        if len(images) == 0 or labels.shape != (len(images),):
            raise ValueError(f"images {tuple(images.shape)} and labels {tuple(labels.shape)} are not a batch")
        images, records = images.detach(), list(done)
        if self._evaluates_clean and not records:
            never = torch.zeros(len(images), dtype=torch.bool, device=images.device)
            attacked = torch.empty(0, dtype=torch.int64)
            records.append(
                self._evaluate(base, induce(images, CLEAN), Found(images, never), attacked, labels, check_cancelled)
            )
            yield records[-1]
        models: dict[int, Adapted] = {}
        while not self.is_finished(records):
            attacks = [record for record in records if record.number != CLEAN]
            i = len(attacks)
            wanted = [i] if self.method == "fpa" else list(range(i + 1))
            models = {j: models[j] for j in wanted if j in models}
            for j in wanted:
                if j not in models:
                    models[j] = base if j == 0 else induce(attacks[j - 1].perturbed, j - 1)
            found = self._perturbed([models[j] for j in wanted], images, labels, generators(i), check_cancelled)
            models[i + 1] = induce(found.images, i)
            attacked = torch.tensor(wanted)
            records.append(self._evaluate(base, models[i + 1], found, attacked, labels, check_cancelled))
            yield records[-1]

    def is_finished(self, done: Sequence[Iteration]) -> bool:
        """Tell whether there is no iteration left to do after these."""
        if self.stop_at_first_success and done and not bool(done[-1].correct.any()):
            return True
        return len(done) >= self.iterations + 1 + self._evaluates_clean

    def selected(self, done: Sequence[Iteration]) -> int:
        """Return the number of the iteration whose images are sent, or ``CLEAN`` for the clean batch.

        Raises:
            ValueError: The attack is not finished.
        """
        if not self.is_finished(done):
            raise ValueError(f"{len(done)} iterations are not all of this attack's")
        if self.variant == "paper":
            return max(done, key=lambda record: record.loss).number
        # Of equals the first counts, and it is the clean batch where that was evaluated: an attack has to be better.
        best = min(done, key=lambda record: record.accuracy)
        falls_back = self.start_at == "one" and self.iterations > 0 and best.accuracy >= 1
        return CLEAN if falls_back else best.number

    def sent(self, done: Sequence[Iteration], images: Tensor) -> Tensor:
        """Return the images that the attacker sends (n, ...): those selected, or ``images``, the clean batch.

        Raises:
            ValueError: The attack is not finished.
        """
        number = self.selected(done)
        return images if number == CLEAN else next(record.perturbed for record in done if record.number == number)

    @property
    def _evaluates_clean(self) -> bool:
        return self.start_at == "clean" and self.iterations > 0

    def _perturbed(
        self,
        models: Sequence[Adapted],
        images: Tensor,
        labels: Tensor,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> Found:
        """Return the whole batch perturbed against the models, on the device of the images."""
        device = models[0].device
        pieces = []
        perturb, as_attacked = self.perturb, _from_index
        refusing = [model for model in models if isinstance(model, Rejecting)]
        if self.evade is not None and refusing:
            # One that always answers, as a static F^(0), does not say what goes unnoticed.
            models, perturb, as_attacked = refusing, self.evade, with_margin
        for first in range(0, len(images), self.batch_size):
            part = slice(first, first + self.batch_size)
            found = perturb(
                [as_attacked(model, first) for model in models],
                "max" if self.method == "gmsa_min" else "sum",
                images[part].to(device),
                labels[part].to(device),
                generators=generators[part],
                check_cancelled=check_cancelled,
            )
            pieces.append(Found(found.images.to(images.device), found.non_finite.to(images.device)))
        return Found(torch.cat([piece.images for piece in pieces]), torch.cat([piece.non_finite for piece in pieces]))

    def _evaluate(
        self,
        base: Adapted,
        model: Adapted,
        found: Found,
        attacked: Tensor,
        labels: Tensor,
        check_cancelled: Callable[[], None],
    ) -> Iteration:
        """Return the iteration that made ``found`` against ``attacked`` and induced ``model``; ``base`` is F^(0)."""
        answered = ask(model, found.images, batch_size=self.batch_size, check_cancelled=check_cancelled)
        non_finite, rejected = answered.non_finite, answered.rejected
        before = ask(base, found.images, batch_size=self.batch_size, check_cancelled=check_cancelled)
        if not isinstance(model, Rejecting):
            adapted = _differs(answered, before)
        elif self.evade is None:
            adapted = torch.zeros_like(non_finite)
        else:
            # Other logits are no excuse: what an attack is refused by has to be attacked.
            adapted = has_gradient(model, found.images, self.batch_size, check_cancelled)
        losses = cross_entropy(answered.logits.double(), labels).masked_fill(rejected, 0.0)
        return Iteration(
            perturbed=found.images,
            attacked=attacked,
            correct=answered.is_right(labels) | (rejected & ~non_finite),
            losses=losses.where(~non_finite, torch.inf),
            non_finite=found.non_finite | non_finite,
            adapted=adapted,
        )


def descend(loss: Loss, combine: Combine) -> Objective:
    """Return the objective that descends the joint loss and holds the iterate with the least of it for the best."""

    def criterion(logits: Tensor, indices: Tensor) -> Tensor:
        return joined(torch.stack([loss(one, indices) for one in logits.unbind(1)], 1), combine)

    return Objective(loss=loss, criterion=criterion, combine=combine)


def lengthened(pgd: PGD, combine: Combine, models: int) -> PGD:
    """Return PGD with as many times the steps as models, where each step is taken against one of them alone."""
    return replace(pgd, steps=pgd.steps * models) if combine == "max" else pgd


def _from_index(model: Adapted, first: int) -> IndexedModel:
    """Return the model for the part of its batch that starts at row ``first``."""
    return IndexedModel(lambda images, indices: model.logits(images, indices + first))


def _differs(found: Answered, before: Answered) -> Tensor:
    """Return where (n,) two models answer differently by more than rounding."""
    same = torch.isclose(found.logits, before.logits.to(found.logits), rtol=1e-5, atol=1e-6, equal_nan=True)
    return ~same.all(1)
