"""DENT: every example of a batch moves batch-norm parameters of its own until the answers are sure and diverse.

Wang et al., "Fighting Gradients with Gradients: Dynamic Defenses against Adversarial Attacks" (2021); the numbers of
Chen et al. (table 3, DENT+) were produced by its code with the settings of ``cifar10`` here.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from seatrial.families.shared.defence_presets import DENT as PRESETS
from seatrial.families.shared.defence_presets import DentParams, Variant
from workers.defences.adamod import AdaMod
from workers.defences.copies import affine_batch_norms, copied, replace_layer, seeded, train_mode_but_norms
from workers.defences.protocol import Training, Traits
from workers.defences.registry import Plugin
from workers.models.image_classifier import ImageClassifier


class Dent:
    """Adapts each batch anew from the base; implements :class:`workers.defences.Defence`.

    Scale and shift of every BatchNorm2d layer become parameters per example (batch, channels), start at the base's at
    every call, and take a few steps down :func:`objective`; running statistics stay. Examples touch each other only
    through the mean of their answers, so a batch sorted by class is pushed away from its own labels.

    It is deterministic but for dropout, which is on while it adapts (as in the official code) and draws from the
    round's generator. Other normalisation layers answer as in eval mode throughout; the official code's networks have
    none.
    """

    def __init__(
        self, params: DentParams = PRESETS["cifar10"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled

    @property
    def traits(self) -> Traits:
        """Stateless and deterministic."""
        return Traits(is_stateful=False, is_one_round=False, is_randomized=False, is_differentiable=True)

    @property
    def batch_size(self) -> int:
        """Test points of one round."""
        return self._params.batch_size

    def check(self, base: ImageClassifier) -> None:
        """Look for what is adapted.

        Raises:
            DefenceError: As :meth:`adapt`.
        """
        affine_batch_norms(base.module, "DENT")

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> "PerExample":
        """Return the classifier with the parameters this batch arrived at.

        Raises:
            DefenceError: The model has no BatchNorm2d layer, or one without affine parameters or running statistics.
        """
        classifier = copied(base)
        network = classifier.module
        weights: dict[str, Tensor] = {}
        for name, layer in affine_batch_norms(network, "DENT").items():
            replace_layer(network, name, _StaticBatchNorm(layer))
            for kind in ("weight", "bias"):
                value = getattr(layer, kind).detach()
                weights[f"{name}.{kind}"] = value.repeat(len(batch), 1).requires_grad_()
        adapted = PerExample(classifier, weights)
        params = self._params
        optimizer = AdaMod(
            weights.values(),
            rate=params.learning_rate,
            betas=(params.beta1, params.beta2, params.beta3),
            weight_decay=params.weight_decay,
        )
        train_mode_but_norms(network)
        with seeded(generator, base.device), torch.enable_grad():
            for _ in range(params.steps):
                self._check_cancelled()
                loss = objective(adapted.logits(batch.detach()), params.variant)
                optimizer.zero_grad()
                self._check_cancelled()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        network.eval()
        return PerExample(classifier, {name: weight.detach() for name, weight in weights.items()})

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do nothing."""

    def state(self) -> dict[str, Tensor]:
        """Return nothing: no round knows of the ones before."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Do nothing."""


class PerExample:
    """A classifier with batch-norm parameters per example; implements :class:`workers.defences.Adapted`.

    Args:
        classifier: Its batch-norm layers take parameters (b, channels).
        weights: Each (batch, channels), by name within the classifier's module.
    """

    def __init__(self, classifier: ImageClassifier, weights: dict[str, Tensor]) -> None:
        self._network, self._weights = _Network(classifier), weights
        self._examples = len(next(iter(weights.values())))

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        return self._network.classifier.classes

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._network.classifier.device

    def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
        """Return logits (b, classes) of images, each with the parameters of its own row.

        Raises:
            ValueError: There are not as many images as indices, or without indices as examples it was adapted to.
        """
        expected = self._examples if indices is None else len(indices)
        if len(images) != expected:
            raise ValueError(f"parameters of {expected} examples for {len(images)} images: say which indices they are")
        weights = {
            f"module.{name}": weight if indices is None else weight[indices.to(weight.device)]
            for name, weight in self._weights.items()
        }
        logits: Tensor = functional_call(self._network, weights, (images,))
        return logits


def objective(logits: Tensor, variant: Variant = "official") -> Tensor:
    """Return what DENT descends, in nats: the mean entropy of the answers less the entropy of their mean.

    ``official`` is ``shot`` of its code, both logarithms of probabilities + 1e-5. ``paper`` is eq. 8 of Chen et al.,
    which has sums where the code has means: for b examples it is b times the code's form, exact logarithms assumed,
    plus b log b. The minimiser is the same and the gradient b times as long, which AdaMod does not see.

    Args:
        logits: (batch, classes).
        variant: Which of the two.

    >>> round(objective(torch.zeros(3, 4)).item(), 6)
    0.0
    """
    probabilities = logits.softmax(1)
    if variant == "official":
        mean = probabilities.mean(0)
        entropy = -(probabilities * (probabilities + 1e-5).log()).sum(1).mean()
        return entropy + (mean * (mean + 1e-5).log()).sum()
    total = probabilities.sum(0)
    # Where a class has no probability left, 0 log 0 = 0, with a gradient that is not NaN.
    diversity = (total * total.clamp_min(torch.finfo(total.dtype).tiny).log()).sum()
    return diversity - (probabilities * logits.log_softmax(1)).sum()


class _StaticBatchNorm(nn.Module):
    """Batch norm by running statistics, with a scale and a shift of shape (channels,) or (batch, channels)."""

    mean: Tensor
    variance: Tensor

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.register_buffer("mean", layer.running_mean)
        self.register_buffer("variance", layer.running_var)

    def forward(self, inputs: Tensor) -> Tensor:
        scale = self.weight * (self.variance + self.eps).rsqrt()
        shift = self.bias - self.mean * scale
        return inputs * scale[..., None, None] + shift[..., None, None]


class _Network(nn.Module):
    """A classifier as a module, so that its parameters can be given with its input."""

    def __init__(self, classifier: ImageClassifier) -> None:
        super().__init__()
        self.classifier, self.module = classifier, classifier.module

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier.logits(images)


DEVIATIONS = {
    "official": "DENT is its published code (variant official): its objective has means over the batch and logarithms "
    "of probabilities + 1e-5, where the paper's eq. 8 has sums; the decays of its optimiser are in that code's "
    "configuration alone.",
    "paper": "DENT's objective is the paper's eq. 8 (variant paper), with sums over the batch where its published code "
    "has means; the decays of its optimiser are in that code's configuration alone.",
}

PLUGIN = Plugin(lambda params, check_cancelled: Dent(params, check_cancelled=check_cancelled), PRESETS, DEVIATIONS)
