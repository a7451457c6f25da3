"""Taking a base classifier apart without touching it: copies, batch-norm layers, penultimate features."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from workers.defences.protocol import DefenceError
from workers.models.image_classifier import ImageClassifier


class Frozen:
    """A classifier none of whose weights belongs to an example; implements :class:`workers.defences.Adapted`.

    Args:
        classifier: In eval mode; nobody may change it afterwards.
    """

    def __init__(self, classifier: ImageClassifier) -> None:
        self._classifier = classifier

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        return self._classifier.classes

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._classifier.device

    def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
        """Return logits (b, classes); ``indices`` is of no meaning here."""
        return self._classifier.logits(images)


def copied(classifier: ImageClassifier) -> ImageClassifier:
    """Return a classifier that computes the same with weights of its own, in the same mode."""
    twin = copy.copy(classifier)
    twin.module = copy.deepcopy(classifier.module)
    return twin


def frozen_copy(classifier: ImageClassifier) -> Frozen:
    """Return what a classifier computes now in eval mode, whatever happens to it later."""
    twin = copied(classifier)
    twin.module.eval().requires_grad_(False)
    return Frozen(twin)


def affine_batch_norms(module: nn.Module, defence: str) -> dict[str, nn.BatchNorm2d]:
    """Return the batch-norm layers over images by name, in the module's order.

    Raises:
        DefenceError: There is none, or one has no affine parameters or no running statistics.
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.BatchNorm2d)}
    if not layers:
        raise DefenceError(
            f"{defence} moves the affine parameters of batch normalisation, and this model has no BatchNorm2d layer"
        )
    for name, layer in layers.items():
        if layer.weight is None or layer.bias is None or layer.running_mean is None or layer.running_var is None:
            raise DefenceError(f"{defence} needs affine parameters and running statistics, and {name!r} lacks them")
    return layers


def replace_layer(module: nn.Module, name: str, layer: nn.Module) -> None:
    """Put a layer in the place of the one of that name, below ``module``."""
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)


def train_mode_but_norms(module: nn.Module) -> None:
    """Put dropout and the like into training mode and leave running statistics as they are."""
    module.train()
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.eval()


def penultimate(classifier: ImageClassifier, images: Tensor) -> Tensor:
    """Return the features (b, dimensions) of images: the input of the last linear layer a forward pass reaches.

    Differentiable with respect to ``images``. The classifier is listened to and left as it was.

    Raises:
        DefenceError: No linear layer is reached, or its input is not one row or block per image.
    """
    seen: list[Tensor] = []

    def listen(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen[:] = [inputs[0]]

    hooks = [
        layer.register_forward_pre_hook(listen) for layer in classifier.module.modules() if isinstance(layer, nn.Linear)
    ]
    try:
        classifier.logits(images)
    finally:
        for hook in hooks:
            hook.remove()
    if not seen or len(seen[0]) != len(images):
        raise DefenceError("this model has no linear layer at its end whose input could serve as features of an image")
    return seen[0].flatten(1)


@contextmanager
def seeded(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Let torch's own random numbers (dropout) depend on the generator alone inside, and on nothing here outside."""
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
