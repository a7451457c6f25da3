"""The one image target: a frozen module with its normalisation inside."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workers.models import VALID_PIXELS, Box
from workers.models.passes import Passes
from workers.models.replaying import Replayed


class BilinearResize:
    """Resizes images as antialiased bilinear interpolation does, with a gradient that is the same every time.

    Interpolation weighs rows and columns independently, so it is a product with one constant matrix on either side.
    ``F.interpolate`` gives the same numbers, but its backward on CUDA adds atomically, in an order that varies.

    Args:
        before: Height and width of the images given.
        after: Height and width of the images returned.
        device: Where to compute.
    """

    def __init__(self, before: tuple[int, int], after: tuple[int, int], device: torch.device) -> None:
        self._rows = _weights(before[0], after[0]).to(device)
        self._columns = _weights(before[1], after[1]).T.contiguous().to(device)
        # The smaller intermediate is never larger than the larger of the two images.
        self._has_rows_first = after[0] * before[1] <= before[0] * after[1]

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (batch, channels, new height, new width)."""
        if self._has_rows_first:
            return (self._rows @ images) @ self._columns
        return self._rows @ (images @ self._columns)


class ImageClassifier:
    """A frozen image classifier in eval mode; implements :class:`workers.models.Classifier`.

    Args:
        module: Turns normalised images into logits (batch, classes).
        labels: Class names in the order of the logits.
        input_shape: Channels, height, width of the images it is given.
        mean: Channel means on the [0, 1] scale, one or one per channel.
        std: Channel standard deviations on the [0, 1] scale, one or one per channel.
        device: Where to compute.
        network_size: Height and width the module works at, when not the input's: images are resized inside, bilinearly,
            so gradients, distances and boxes are those of the images given.
        is_standardised: Whether each image is standardised by its own values first (Ding et al. 2020, "MMA Training").
        values_per_image: Values the module computes for one image, where a trace has counted them.
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
        is_standardised: bool = False,
        values_per_image: int | None = None,
    ) -> None:
        self.module = module.to(device).eval().requires_grad_(False)
        self.labels = labels
        self.input_shape = input_shape
        self.values_per_image = values_per_image
        self._is_standardised = is_standardised
        self.box: Box = VALID_PIXELS
        self._device = device
        self._mean = torch.tensor(mean, dtype=torch.float32, device=device).view(1, -1, 1, 1)
        self._std = torch.tensor(std, dtype=torch.float32, device=device).view(1, -1, 1, 1)
        self._replayed: Replayed | None = None
        self._resize: BilinearResize | None = None
        if network_size is not None and network_size != input_shape[1:]:
            self._resize = BilinearResize(input_shape[1:], network_size, device)

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
        # A copy whose module is another's has nothing recorded.
        replayed = self._replayed if self._replayed is not None and self._replayed.module is self.module else None
        logits: Tensor = (replayed or self.module)(self._prepared(images))
        return logits

    def replay(self, replayed: Replayed | None = None) -> None:
        """Replay passes at shapes that come again: as CUDA graphs, or as ``replayed`` does."""
        self._replayed = Replayed(self.module) if replayed is None else replayed

    @property
    def passes(self) -> int:
        """Number of forward passes whose mean probabilities are the prediction: 1 unless several are known apart."""
        return self.module.count if isinstance(self.module, Passes) else 1

    def logits_of_passes(self, images: Tensor) -> Tensor:
        """Return float32 logits (batch, passes, classes); differentiable with respect to ``images``."""
        inputs = self._prepared(images)
        found: Tensor = self.module.each(inputs) if isinstance(self.module, Passes) else self.module(inputs)[:, None]
        return found

    def _prepared(self, images: Tensor) -> Tensor:
        """Return images as the module takes them."""
        if self._resize is not None:
            images = self._resize(images)
        if self._is_standardised:
            images = standardise(images)
        return (images - self._mean) / self._std


def standardise(images: Tensor) -> Tensor:
    """Return images (batch, ...) with mean 0 and standard deviation 1 each, over all its values.

    The deviation is that of the population and at least 1 / sqrt(values), so that an image of one colour stays finite.

    >>> standardise(torch.tensor([[[[0.0, 1.0, 0.0, 1.0]]], [[[0.5, 0.5, 0.5, 0.5]]]])).flatten(1).tolist()
    [[-1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """
    flat = images.flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    # The root of the variance has no gradient at 0: the bound is taken before it.
    variance = centred.square().mean(1, keepdim=True).clamp_min(1 / flat.shape[1])
    standard: Tensor = centred / variance.sqrt()
    return standard.view_as(images)


def _weights(before: int, after: int) -> Tensor:
    """Return the matrix (after, before) float32 that interpolates one side of an image."""
    unit = torch.eye(before, dtype=torch.float64)[None, None]
    size = (after, before)
    return F.interpolate(unit, size, mode="bilinear", align_corners=False, antialias=True)[0, 0].float()
