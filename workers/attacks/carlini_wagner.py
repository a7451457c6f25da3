"""Attacks through differences of logits: the many runs DENT is attacked with, and the least l_2 perturbation.

The logits' differences do not saturate where a softmax does. Which class is easiest to reach differs from example to
example, so DENT is attacked by several untargeted runs and one run towards each other class, and every example keeps
the run that makes some wrong class most probable (Chen et al., app. A.3). Carlini and Wagner's own attack (S&P 2017)
looks for the smallest perturbation instead, whatever its length: it slips through where large ones are noticed (Chen et
al., Figure 1 (b)).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.autoattack.dlr import lead
from workers.attacks.gradients import Combine, IndexedModel, Loss, Model, input_gradient, joined
from workers.attacks.losses import margin
from workers.attacks.model_space import Found, descend, lengthened
from workers.attacks.pgd import PGD
from workers.attacks.regions import per_example
from workers.models.memory import run_with_oom_split

INSIDE = 1e-6
"""How far from -1 and 1 the images' arctanh begins."""

BETA1, BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8
"""Of Adam, as everywhere."""


def untargeted(logits: Tensor, labels: Tensor) -> Tensor:
    """Return L1 = -z_y + max_{k != y} z_k (n,), which an attack raises: positive when misclassified.

    >>> untargeted(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0])).item()
    -2.0
    """
    return -margin(logits, labels)


def targeted(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return L2 = -z_y + z_t (n,), which an attack raises.

    >>> targeted(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0]), torch.tensor([2])).item()
    -4.0
    """
    return lead(logits, labels, targets)


def wrong_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the softmax probability of the likeliest wrong class, max_{k != y} p_k (n,), in float64.

    >>> wrong_confidence(torch.zeros(1, 4), torch.tensor([2])).item()
    0.25
    """
    return logits.double().softmax(1).scatter(1, labels.unsqueeze(1), 0.0).amax(1)


@dataclass(frozen=True)
class RaiseWrongConfidence:
    """Runs of PGD, untargeted from several random starts and then once towards each of several wrong classes.

    Guarantee: against one model, some wrong class is at least as probable as at the clean image. In a run the best
    iterate of its own loss counts; between runs and the clean image, the first with the largest
    :func:`wrong_confidence`. Against several models that is their sum or, under ``max``, the least of them. A
    generator's draws are those of the first run, then those of the second, and so on.

    Attributes:
        pgd: Norm, radius, step size; ``steps`` are those of one run against one model.
        starts: Untargeted runs.
        targets: Most targeted runs; example by example the classes after the true one, round the end, up to C - 1.

    Raises:
        ValueError: A number is out of range, or untargeted runs could only repeat each other.
    """

    pgd: PGD
    starts: int = 5
    targets: int = 9

    def __post_init__(self) -> None:
        if self.starts < 1 or self.targets < 0:
            raise ValueError(f"not an attack: {self}")
        if self.starts > 1 and not self.pgd.random_start:
            raise ValueError("untargeted runs repeat each other unless random_start is true")

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
        """Perturb a batch; see :class:`workers.attacks.model_space.Perturb`."""
        pgd = lengthened(self.pgd, combine, len(models))
        best, best_value = images, torch.empty(0)
        non_finite = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for shift in [0] * self.starts + list(range(1, self.targets + 1)):
            objective = descend(_loss(labels, shift), combine)
            outcome = pgd.run(models, images, objective, generators=generators, check_cancelled=check_cancelled)
            if len(best_value) == 0:
                best_value = _value(outcome.start_logits, labels, combine)
            value = _value(outcome.best_logits, labels, combine)
            better = value > best_value
            best = torch.where(per_example(better, images), outcome.best, best)
            best_value = torch.where(better, value, best_value)
            non_finite = non_finite | outcome.non_finite
            if shift == outcome.start_logits.shape[-1] - 1:
                break
        return Found(best, non_finite)


@dataclass(frozen=True)
class LeastPerturbation:
    """Carlini and Wagner's l_2 attack at one constant: ||x' - x||^2 + c max(z_y - max_{k != y} z_k, -kappa), descended.

    Guarantee: what is returned is in [0, 1], and is the image itself unless it is classified wrongly. Limit: it has no
    radius. As in the authors' code of Chen et al. there is no search for c, Adam goes on x' = (tanh(w) + 1) / 2 from
    the image, the smallest perturbation that is classified wrongly counts, and a run ends where, every tenth of the
    steps, its cost is found risen. There a batch ends together; here an example ends alone, whatever is beside it.
    Pixels of 0 or 1, where w is infinite, stay there; here they begin 5e-7 inside, as in Carlini and Wagner's code.

    Attributes:
        steps: Steps of Adam.
        learning_rate: Its learning rate, in the space of w.
        c: Weight of the logits.
        kappa: By how much a wrong class is to lead.

    Raises:
        ValueError: A number is out of range.
    """

    steps: int = 100
    learning_rate: float = 0.01
    c: float = 1.0
    kappa: float = 0.0

    def __post_init__(self) -> None:
        if not (self.steps >= 1 and self.learning_rate > 0 and self.c > 0 and self.kappa >= 0):
            raise ValueError(f"not an attack: {self}")

    def run(
        self, model: Model, images: Tensor, labels: Tensor, *, check_cancelled: Callable[[], None] = lambda: None
    ) -> Found:
        """Return the batch perturbed; a batch that does not fit in memory is split.

        Args:
            model: Images to logits.
            images: (n, ...) in [0, 1].
            labels: (n,) true labels, beside them.
            check_cancelled: Called before every forward pass; may raise.
        """

        def piece(start: int, stop: int) -> Found:
            return self._run(model, images[start:stop].detach(), labels[start:stop], check_cancelled)

        pieces = run_with_oom_split(piece, 0, len(images))
        return Found(torch.cat([one.images for one in pieces]), torch.cat([one.non_finite for one in pieces]))

    def _run(self, model: Model, images: Tensor, labels: Tensor, check_cancelled: Callable[[], None]) -> Found:
        best, best_length = images.clone(), images.new_full((len(images),), torch.inf)
        cost_before, goes_on = best_length.clone(), torch.ones_like(labels, dtype=torch.bool)
        non_finite = torch.zeros_like(goes_on)
        w = torch.atanh((2 * images - 1) * (1 - INSIDE))
        first, second = torch.zeros_like(w), torch.zeros_like(w)
        for step in range(self.steps):
            check_cancelled()
            inputs = w.detach().requires_grad_()
            with torch.enable_grad():
                perturbed = (torch.tanh(inputs) + 1) / 2
                length = (perturbed - images).square().flatten(1).sum(1)
                logits = model(perturbed)
                cost = length + self.c * margin(logits, labels).clamp_min(-self.kappa)
                gradient = input_gradient(cost, inputs)
            non_finite |= ~logits.isfinite().all(1)
            shorter = goes_on & (logits.argmax(1) != labels) & (length < best_length)
            best = torch.where(per_example(shorter, images), perturbed.detach(), best)
            best_length = torch.where(shorter, length.detach(), best_length)
            first = BETA1 * first + (1 - BETA1) * gradient
            second = BETA2 * second + (1 - BETA2) * gradient.square()
            mean, square = first / (1 - BETA1 ** (step + 1)), second / (1 - BETA2 ** (step + 1))
            w = torch.where(per_example(goes_on, w), w - self.learning_rate * mean / (square.sqrt() + ADAM_EPSILON), w)
            if step % max(1, self.steps // 10) == 0:
                # Examples that end stay in the batch: what is computed of the others must not depend on them.
                goes_on = goes_on & ~(cost.detach() > cost_before)
                cost_before = cost.detach()
            if not bool(goes_on.any()):
                break
        return Found(best, non_finite)


def _loss(labels: Tensor, shift: int) -> Loss:
    """Return what the run towards the ``shift``-th class after the true one descends; 0: the untargeted run."""

    def loss(logits: Tensor, indices: Tensor) -> Tensor:
        own = labels[indices]
        return -targeted(logits, own, (own + shift) % logits.shape[1]) if shift else -untargeted(logits, own)

    return loss


def _value(logits: Tensor, labels: Tensor, combine: Combine) -> Tensor:
    """Return what runs are compared by (n,), of logits (n, models, classes); -inf where it cannot be told."""
    lost = torch.stack([-wrong_confidence(one, labels) for one in logits.unbind(1)], 1)
    return -joined(lost, combine).nan_to_num(nan=torch.inf)
