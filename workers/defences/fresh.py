"""Networks a defence trains from nothing: what they are checked against, their batches and steps, how one is kept."""

import sys
from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from seatrial.families.shared.defence_presets import OptimizerName
from workers.defences.copies import Frozen
from workers.defences.protocol import DefenceError, Training, Traits
from workers.models.adapted import Adapted
from workers.models.image_classifier import ImageClassifier

WHOLE_SAMPLE: Final = sys.maxsize
"""Test points of a round of a one-round defence: all there are."""

MOMENTUM: Final = 0.9


class OneRound:
    """What defences that train from nothing on the whole sample have in common: they remember nothing."""

    @property
    def traits(self) -> Traits:
        """One round, stateless, randomised."""
        return Traits(is_stateful=False, is_one_round=True, is_randomized=True, is_differentiable=True)

    @property
    def batch_size(self) -> int:
        """The whole sample."""
        return WHOLE_SAMPLE

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do nothing."""

    def state(self) -> dict[str, Tensor]:
        """Return nothing: no round knows of another."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Do nothing."""


@runtime_checkable
class Storable(Adapted, Protocol):
    """An adapted model that can be stored; a :class:`Reloading` defence makes it from its state again."""

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that makes it what it is, on the CPU."""
        ...


@runtime_checkable
class Reloading(Protocol):
    """What a defence can do besides adapting when what it adapts is worth storing: training takes minutes to hours.

    Its adapted models are :class:`Storable`. A game that goes on where it was stopped reloads them.
    """

    def reload(self, base: ImageClassifier, state: Mapping[str, Tensor]) -> Adapted:
        """Return the adapted model whose ``state()`` this is; it answers as that one did, bit for bit on its device.

        Raises:
            ValueError: The state is not that of a model of this defence, these hyper-parameters and this base.
        """
        ...


class AdaptedModel(Frozen):
    """A network that has been trained; implements :class:`workers.defences.protocol.Adapted`.

    Args:
        network: Images in [0, 1] to logits, whatever normalises them inside. Put into eval mode and frozen for good.
        base: Says the input's shape and the device.
        labels: Class names in the order of the logits; None: the base's.
    """

    def __init__(self, network: nn.Module, base: ImageClassifier, labels: list[str] | None = None) -> None:
        super().__init__(
            ImageClassifier(
                network,
                labels=base.labels if labels is None else labels,
                input_shape=base.input_shape,
                mean=[0.0],
                std=[1.0],
                device=base.device,
            )
        )

    def state(self) -> dict[str, Tensor]:
        """Return copies of all weights and running statistics, on the CPU."""
        kept = self._classifier.module.state_dict()
        return {name: value.detach().cpu().clone() for name, value in kept.items()}

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Tensor],
        network: nn.Module,
        base: ImageClassifier,
        labels: list[str] | None = None,
    ) -> Self:
        """Return the model whose :meth:`state` this is.

        Args:
            state: Weights and running statistics by name.
            network: Network of the same architecture; its weights are replaced.
            base: As for the class.
            labels: As for the class.

        Raises:
            ValueError: Names or shapes differ from the network's.
        """
        try:
            network.load_state_dict(dict(state))
        except RuntimeError as error:
            raise ValueError(f"not a state of this network: {error}") from error
        return cls(network, base, labels)


def check_sample(defence: str, base: ImageClassifier, training: Training | None, batch: Tensor | None) -> Training:
    """Return the training data if a network for this base can be trained on them and on the test points.

    Args:
        defence: Its name, for the message.
        base: Says the input's shape and the number of classes.
        training: Labelled examples.
        batch: (b, channels, height, width), the test points; None: they are not trained on.

    Raises:
        DefenceError: There are fewer than two of either, or they do not fit the model.
    """
    if training is None:
        raise DefenceError(f"{defence} trains a network on labelled examples: name a training dataset")
    samples = {"training images": training.images} | ({} if batch is None else {"test points": batch})
    for what, images in samples.items():
        shape = tuple(images.shape[1:])
        if len(images) < 2 or shape != tuple(base.input_shape):
            raise DefenceError(
                f"{defence} needs at least two {what} of the model's shape {tuple(base.input_shape)}, "
                f"and has {len(images)} of {shape}"
            )
    low, high = int(training.labels.min()), int(training.labels.max())
    if low < 0 or high >= base.classes:
        raise DefenceError(f"training labels are {low} to {high}, and the model has {base.classes} classes")
    return training


def check_finite(defence: str, network: nn.Module) -> None:
    """Pass if every weight is a number.

    Raises:
        DefenceError: Training has diverged.
    """
    if not all(bool(parameter.isfinite().all()) for parameter in network.parameters()):
        raise DefenceError(f"the network {defence} trained has weights that are not finite: lower the learning rate")


def shuffled_batches(count: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """Return the positions of ``count`` examples in random order, cut into batches.

    A last batch of one joins the one before it: batch norm after pooling refuses it in training mode.

    >>> [len(batch) for batch in shuffled_batches(9, 4, torch.Generator())]
    [4, 5]
    """
    batches = list(torch.split(torch.randperm(count, generator=generator), size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def make_optimizer(
    network: nn.Module,
    name: OptimizerName,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    is_nesterov: bool = False,
) -> torch.optim.Optimizer:
    """Return Adam, or SGD with momentum 0.9, over all of a network's parameters."""
    if name == "adam":
        return torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    return torch.optim.SGD(
        network.parameters(), lr=learning_rate, momentum=MOMENTUM, weight_decay=weight_decay, nesterov=is_nesterov
    )


def rate_at(epoch: float, learning_rate: float, milestones: tuple[int, ...]) -> float:
    """Return the learning rate: a tenth of what it was from each milestone, in epochs, on.

    >>> [rate_at(epoch, 1.0, (50, 75)) for epoch in (49.9, 50, 75)]
    [1.0, 0.1, 0.01]
    """
    return learning_rate / 10.0 ** sum(epoch >= milestone for milestone in milestones)


def descend(loss: Tensor, optimizer: torch.optim.Optimizer, rate: float, check_cancelled: Callable[[], None]) -> None:
    """Take one step of an optimiser at a learning rate down a loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    check_cancelled()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
