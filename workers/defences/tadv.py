"""TADV: a network trained adversarially anew, with randomness nobody else has; the test points are not looked at.

Chen et al. (sec. 5) propose it as what survives their attacks: Gamma ignores U', so that all an attacker can do is to
train networks of his own and attack those. His copy differs from the defender's by its generator alone.
``variant = "official"`` is the code behind their tables, ``"paper"`` the text. They differ in two things: the former's
SGD has no Nesterov momentum, and its two losses of a batch are weighted by the share of the other half, which is the
same but for odd batches.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.families.shared.defence_presets import TADV as PRESETS
from seatrial.families.shared.defence_presets import TadvParams
from workers.attacks.gradients import Model
from workers.attacks.pgd import PGD
from workers.defences.copies import seeded
from workers.defences.fresh import (
    AdaptedModel,
    OneRound,
    check_finite,
    check_sample,
    descend,
    make_optimizer,
    rate_at,
    shuffled_batches,
)
from workers.defences.networks import lenet_like, resnet20
from workers.defences.pool import augmented, highest_cross_entropy
from workers.defences.protocol import Training, Traits
from workers.defences.registry import Plugin
from workers.models.image_classifier import ImageClassifier


class Tadv(OneRound):
    """Trains from scratch at every call; implements :class:`workers.defences.Defence` and ``fresh.Reloading``.

    Nothing of the base is used but its input and its classes, and nothing of the batch. As in the official code the
    images are not normalised.
    """

    def __init__(
        self, params: TadvParams = PRESETS["mnist"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled

    @property
    def traits(self) -> Traits:
        """One round, stateless, randomised, and the same whatever is asked."""
        return replace(super().traits, ignores_points=True)

    def check(self, base: ImageClassifier) -> None:
        """Make the network that would be trained.

        Raises:
            DefenceError: The images are too small for it.
        """
        with torch.random.fork_rng(devices=[]):
            self._network(base)

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> AdaptedModel:
        """Return a network trained on clean and attacked training examples; ``batch`` has no influence on it.

        Raises:
            DefenceError: There are fewer than two training examples, they do not fit the model, or training diverged.
        """
        training = check_sample("TADV", base, training, None)
        params, device = self._params, base.device
        is_official = params.variant == "official"
        with seeded(generator, device), torch.enable_grad():
            network = self._network(base).to(device)
            optimizer = make_optimizer(
                network,
                params.optimizer,
                learning_rate=params.learning_rate,
                weight_decay=params.weight_decay,
                is_nesterov=params.optimizer == "sgd" and not is_official,
            )
            for epoch in range(params.epochs):
                batches = shuffled_batches(len(training), params.batch_size, generator)
                for step, chosen in enumerate(batches):
                    images = training.images[chosen]
                    images = (augmented(images, generator) if params.is_augmented else images).to(device)
                    labels = training.labels[chosen].to(device)
                    loss = self._loss(network, images, labels, generator)
                    # The official schedule counts the step about to be taken.
                    progress = epoch + (step + 1) / len(batches)
                    descend(
                        loss,
                        optimizer,
                        rate_at(progress, params.learning_rate, params.milestones),
                        self._check_cancelled,
                    )
        check_finite("TADV", network)
        return AdaptedModel(network, base)

    def reload(self, base: ImageClassifier, state: Mapping[str, Tensor]) -> AdaptedModel:
        """Return the adapted model whose ``state()`` this is.

        Raises:
            ValueError: The state is not that of a model with these hyper-parameters for this base.
        """
        with torch.random.fork_rng(devices=[]):
            return AdaptedModel.from_state(state, self._network(base), base)

    def _loss(self, network: nn.Module, images: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Return the loss of a batch whose second half is attacked first."""
        half = len(images) // 2
        # In eval mode: the attack must not move running statistics.
        network.eval()
        is_random = bool(torch.randint(2, (), generator=generator))
        params = self._params
        pgd = PGD("linf", params.epsilon, params.step_size, params.attack_steps)
        starts = random_starts(images[half:], self._params.epsilon, generator) if is_random else None
        attacked = attack(pgd, network, images[half:], labels[half:], starts, self._check_cancelled)
        network.train()
        self._check_cancelled()
        logits = network(torch.cat([images[:half], attacked]))
        clean, adversarial = (
            F.cross_entropy(logits[:half], labels[:half]),
            F.cross_entropy(logits[half:], labels[half:]),
        )
        fraction = half / len(images) if self._params.variant == "official" else 0.5
        return (1 - fraction) * clean + fraction * adversarial

    def _network(self, base: ImageClassifier) -> nn.Module:
        if self._params.network == "resnet20":
            return resnet20(base.input_shape, base.classes)
        if self._params.network == "small":
            return lenet_like(base.input_shape, base.classes, channels=(8, 16), hidden=128)
        return lenet_like(base.input_shape, base.classes)


def random_starts(images: Tensor, epsilon: float, generator: torch.Generator) -> Tensor:
    """Return a random point of the l_inf ball around each image, in [0, 1], as the official code draws them.

    A Gaussian direction whose largest entry is uniform in [0, epsilon], where Madry et al. draw every pixel uniformly.

    Args:
        images: (n, channels, height, width) in [0, 1].
        epsilon: Radius of the ball.
        generator: On the CPU.
    """
    directions = torch.randn(images.shape, generator=generator)
    lengths = epsilon * torch.rand(len(images), generator=generator) / directions.abs().amax(dim=(1, 2, 3))
    return (images + (directions * lengths.view(-1, 1, 1, 1)).to(images.device)).clamp(0.0, 1.0)


def attack(
    pgd: PGD,
    model: Model,
    images: Tensor,
    labels: Tensor,
    starts: Tensor | None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return the iterate with the largest cross-entropy for each image, the image itself among them.

    Args:
        pgd: Radius, step size and steps.
        model: In eval mode.
        images: (n, channels, height, width) in [0, 1].
        labels: (n,) int64.
        starts: First iterates, in the ball; None: the images.
        check_cancelled: Called before every forward pass.
    """
    return pgd.run([model], images, highest_cross_entropy(labels), starts=starts, check_cancelled=check_cancelled).best


DEVIATIONS = {
    "official": "TADV is the code behind the paper's tables (variant official): its SGD has no Nesterov momentum, and "
    "in an odd batch each half weighs as much as the other has examples; the paper's text has Nesterov momentum and "
    "equal weights.",
    "paper": "TADV is the paper's text (variant paper): its SGD has Nesterov momentum and both halves of a batch weigh "
    "the same; the code behind the paper's tables has neither.",
}

PLUGIN = Plugin(lambda params, check_cancelled: Tadv(params, check_cancelled=check_cancelled), PRESETS, DEVIATIONS)
