"""The one image target: a frozen module with its normalisation inside."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ImageClassifier:
    """A frozen image classifier in eval mode; implements :class:`workers.targets.Classifier`.

    Args:
        module: Turns normalised images into logits (batch, classes).
        labels: Class names in the order of the logits.
        input_shape: Channels, height, width of the images it is given.
        mean: Channel means on the [0, 1] scale, one or one per channel.
        std: Channel standard deviations on the [0, 1] scale, one or one per channel.
        device: Where to compute.
        network_size: Height and width the module works at, when not the input's: images are resized inside, bilinearly,
            so gradients, distances and boxes are those of the images given.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        labels: list[str],
        input_shape: tuple[int, int, int],
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device,
        network_size: tuple[int, int] | None = None,
    ) -> None:
        self.module = module.to(device).eval().requires_grad_(False)
        self.labels = labels
        self.input_shape = input_shape
        self._device = device
        self._mean = torch.tensor(mean, dtype=torch.float32, device=device).view(1, -1, 1, 1)
        self._std = torch.tensor(std, dtype=torch.float32, device=device).view(1, -1, 1, 1)
        self._network_size = None if network_size == input_shape[1:] else network_size

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def logits(self, images: Tensor) -> Tensor:
        """Return float32 logits (batch, classes) of images (batch, channels, height, width) in [0, 1].

        Differentiable with respect to ``images``.
        """
        if self._network_size is not None:
            images = F.interpolate(images, self._network_size, mode="bilinear", align_corners=False, antialias=True)
        logits: Tensor = self.module((images - self._mean) / self._std)
        return logits
