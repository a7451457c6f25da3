"""TENT: batch statistics and entropy minimisation over the affine parameters of batch normalisation.

Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization" (ICLR 2021), a reference beside DENT: no
parameters per example, no term for diversity, and no claim of robustness by its authors.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.families.shared.defence_presets import TENT as PRESETS
from seatrial.families.shared.defence_presets import TentParams
from workers.defences.copies import (
    Frozen,
    affine_batch_norms,
    copied,
    frozen_copy,
    replace_layer,
    seeded,
    train_mode_but_norms,
)
from workers.defences.protocol import DefenceError, Training, Traits
from workers.defences.registry import Plugin
from workers.defences.states import moments, set_moments
from workers.models.image_classifier import ImageClassifier

WEIGHTS = "weights."


class Tent:
    """Descends the mean entropy of each batch's answers; implements :class:`workers.defences.Defence`.

    A round is answered with the batch's own statistics, frozen with the answer, and, as in the official code, by the
    forward pass whose gradient the last update is made of: with one step an update helps only the batches after it.
    Unlike there, dropout is off in the answer, since what was adapted is a classifier in eval mode. What lasts: the
    affine parameters and Adam's moments. If ``check_cancelled`` raises, restore an earlier state before going on.
    """

    def __init__(
        self, params: TentParams = PRESETS["cifar10"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled
        self._state: dict[str, Tensor] = {}

    @property
    def traits(self) -> Traits:
        """Deterministic; stateful unless episodic."""
        is_stateful = not self._params.is_episodic
        return Traits(is_stateful=is_stateful, is_one_round=False, is_randomized=False, is_differentiable=True)

    @property
    def batch_size(self) -> int:
        """Test points of one round."""
        return self._params.batch_size

    def check(self, base: ImageClassifier) -> None:
        """Look for what is adapted.

        Raises:
            DefenceError: The model has no BatchNorm2d layer, or one without affine parameters or running statistics.
        """
        affine_batch_norms(base.module, "TENT")

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> Frozen:
        """Return the classifier that answers this batch, and move on for the next.

        Raises:
            DefenceError: The model has no BatchNorm2d layer, one without affine parameters or running statistics, or
                one that sees a single value per channel.
        """
        classifier = copied(base)
        network = classifier.module
        weights: dict[str, nn.Parameter] = {}
        for name, layer in affine_batch_norms(network, "TENT").items():
            own = _OwnStatistics(layer)
            replace_layer(network, name, own)
            weights |= {f"{name}.weight": own.weight, f"{name}.bias": own.bias}
        parameters = list(weights.values())
        optimizer = torch.optim.Adam(parameters, lr=self._params.learning_rate)
        self._load(weights, optimizer)
        train_mode_but_norms(network)
        answer = Frozen(classifier)
        with seeded(generator, base.device), torch.enable_grad():
            for step in range(self._params.steps):
                self._check_cancelled()
                loss = entropy(classifier.logits(batch.detach()))
                optimizer.zero_grad()
                self._check_cancelled()
                loss.backward()  # type: ignore[no-untyped-call]
                if step == self._params.steps - 1:
                    answer = frozen_copy(classifier)
                optimizer.step()
        if not self._params.is_episodic:
            kept = {f"{WEIGHTS}{name}": weight.detach().cpu().clone() for name, weight in weights.items()}
            self._state = kept | moments(optimizer, parameters)
        return answer

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do nothing: the update was made while adapting."""

    def state(self) -> dict[str, Tensor]:
        """Return affine parameters and moments; empty before the first round and if episodic."""
        return {name: value.clone() for name, value in self._state.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state; the empty one is the base."""
        self._state = {name: value.cpu().clone() for name, value in state.items()}

    @torch.no_grad()
    def _load(self, weights: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        if self._state:
            for name, weight in weights.items():
                weight.copy_(self._state[f"{WEIGHTS}{name}"])
            set_moments(optimizer, list(weights.values()), self._state)


def entropy(logits: Tensor) -> Tensor:
    """Return the mean entropy of the answers (batch, classes) in nats.

    >>> round(entropy(torch.zeros(3, 4)).item(), 4)
    1.3863
    """
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


class _OwnStatistics(nn.Module):
    """Batch norm by the statistics of the batch in training mode, by those of the last such batch in eval mode."""

    mean: Tensor
    variance: Tensor

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = nn.Parameter(layer.bias.detach().clone())
        self.eps = layer.eps
        self.register_buffer("mean", layer.running_mean)
        self.register_buffer("variance", layer.running_var)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return F.batch_norm(inputs, self.mean, self.variance, self.weight, self.bias, eps=self.eps)
        if inputs.numel() == inputs.shape[1]:
            raise DefenceError("TENT normalises by the batch's own statistics, and one value per channel has none")
        self.variance, self.mean = torch.var_mean(inputs.detach(), (0, 2, 3), correction=0)
        return F.batch_norm(inputs, None, None, self.weight, self.bias, training=True, eps=self.eps)


PLUGIN = Plugin(lambda params, check_cancelled: Tent(params, check_cancelled=check_cancelled), PRESETS)
