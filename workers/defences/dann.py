"""DANN: a network trained anew on labelled training data until nobody can tell its test points' features from theirs.

Ganin et al., "Domain-Adversarial Training of Neural Networks" (JMLR 2016), used as a defence by Chen et al. (sec. 5):
the test points, attacked or not, are the target domain. ``mnist`` is the official code. That of CIFAR-10 was never
published; ``cifar10`` has the numbers of the paper's text and, where it says nothing, what
:func:`workers.defences.networks.resnet_domain_network` says.
"""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.families.shared.defence_presets import DANN as PRESETS
from seatrial.families.shared.defence_presets import DannParams
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
from workers.defences.networks import (
    DomainNetwork,
    Standardise,
    convolutional_domain_network,
    resnet_domain_network,
)
from workers.defences.protocol import DefenceError, Training
from workers.defences.registry import Plugin
from workers.models.image_classifier import ImageClassifier

TARGET = 1
"""Domain of the test points; the training data's is 0."""


class Dann(OneRound):
    """Trains from scratch at every call; implements :class:`workers.defences.Defence` and ``fresh.Reloading``.

    Nothing of the base is used but its input and its classes. Initial weights, order and dropout come from the round's
    generator: two defenders who see the same points answer with different networks.

    As in the official code, the predictor sees the test points in training too. Nothing it says of them is scored, but
    its batch-norm statistics are those of both domains.
    """

    def __init__(
        self, params: DannParams = PRESETS["mnist"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled

    def check(self, base: ImageClassifier) -> None:
        """Make the network that would be trained.

        Raises:
            DefenceError: The images are too small for it.
        """
        with torch.random.fork_rng(devices=[]):
            self._network(base, Standardise.nothing(base.input_shape[0]))

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> AdaptedModel:
        """Return a network trained on labelled source ``training`` and unlabelled target ``batch``.

        Raises:
            DefenceError: There is no training data, fewer than two examples or points, they do not fit the model, or
                training diverged.
        """
        training = check_sample("DANN", base, training, batch)
        params, device = self._params, base.device
        with seeded(generator, device), torch.enable_grad():
            network = self._network(base, self._standardise(training)).to(device).train()
            optimizer = make_optimizer(
                network,
                params.optimizer,
                learning_rate=params.learning_rate,
                weight_decay=params.weight_decay,
                is_nesterov=params.optimizer == "sgd",
            )
            for epoch in range(params.epochs):
                sources = shuffled_batches(len(training), params.batch_size, generator)
                targets = shuffled_batches(len(batch), params.batch_size, generator)
                steps = min(len(sources), len(targets))
                for step in range(steps):
                    alpha = alpha_at((step + epoch * steps) / (params.epochs * steps), params.alpha)
                    images = training.images[sources[step]].to(device)
                    labels = training.labels[sources[step]].to(device)
                    points = batch[targets[step].to(batch.device)].detach().to(device)
                    loss = self._loss(network, images, labels, points, alpha)
                    rate = rate_at(epoch, params.learning_rate, params.milestones)
                    descend(loss, optimizer, rate, self._check_cancelled)
        check_finite("DANN", network)
        return AdaptedModel(network.classifier, base)

    def reload(self, base: ImageClassifier, state: Mapping[str, Tensor]) -> AdaptedModel:
        """Return the adapted model whose ``state()`` this is.

        Raises:
            ValueError: The state is not that of a model with these hyper-parameters for this base.
        """
        standardise = Standardise.nothing(base.input_shape[0])
        with torch.random.fork_rng(devices=[]):
            return AdaptedModel.from_state(state, self._network(base, standardise).classifier, base)

    def _loss(self, network: DomainNetwork, images: Tensor, labels: Tensor, points: Tensor, alpha: float) -> Tensor:
        """Return the cross-entropy of the training labels plus those of either domain, each a mean over its batch."""
        self._check_cancelled()
        answers, domains = network(images, alpha)
        self._check_cancelled()
        _, domains_of_points = network(points, alpha)
        source, target = torch.zeros_like(labels), labels.new_full((len(points),), TARGET)
        return (
            F.cross_entropy(answers, labels)
            + F.cross_entropy(domains, source)
            + F.cross_entropy(domains_of_points, target)
        )

    def _standardise(self, training: Training) -> Standardise:
        mean, std, channels = self._params.mean, self._params.std, training.images.shape[1]
        if mean is None or std is None:
            return Standardise.of(training.images)
        if {len(mean), len(std)} - {1, channels}:
            raise DefenceError(
                f"the mean {mean} and deviation {std} are not one, or one for each of {channels} channels"
            )
        # One per channel in every case, so that a state fits whichever way they were given.
        return Standardise(mean * (channels // len(mean)), std * (channels // len(std)))

    def _network(self, base: ImageClassifier, standardise: Standardise) -> DomainNetwork:
        if self._params.network == "resnet18":
            return resnet_domain_network(base.input_shape, base.classes, standardise)
        if self._params.network == "small":
            return convolutional_domain_network(
                base.input_shape, base.classes, standardise, channels=(16, 32), hidden=64, depths=(1, 1, 1)
            )
        return convolutional_domain_network(base.input_shape, base.classes, standardise)


def alpha_at(progress: float, largest: float) -> float:
    """Return the weight of the reversed gradient, (2 / (1 + exp(-10 p)) - 1) times its largest (Ganin et al., sec. 5).

    Args:
        progress: p, the share of all steps that have been taken, in [0, 1).
        largest: 0.1 in the official MNIST code, 1 for CIFAR-10.

    >>> alpha_at(0.0, 0.1), round(alpha_at(0.1, 1.0), 6)
    (0.0, 0.462117)
    """
    return (2 / (1 + math.exp(-10 * progress)) - 1) * largest


DEVIATIONS = {
    "official": "DANN on MNIST is the authors' code (variant official), whose network takes one channel where the "
    "paper's text prints three; that of CIFAR-10 was never published, and what its text leaves open is ours.",
}

PLUGIN = Plugin(lambda params, check_cancelled: Dann(params, check_cancelled=check_cancelled), PRESETS, DEVIATIONS)
