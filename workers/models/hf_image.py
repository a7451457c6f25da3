"""Loading Hugging Face image classification folders: local files only, safetensors only, no code of theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.contracts.models import MAX_IMAGE_VALUES, MAX_SIDE, ModelManifest
from seatrial.store.settings import Settings, get_settings
from workers.errors import TargetError, log_fault
from workers.models.hf_folders import (
    check_size,
    class_names,
    describe,
    load_config,
    load_weights,
    read_json,
    refusing,
)
from workers.models.image_classifier import ImageClassifier
from workers.models.tracing import TRACED_IMAGES, ValueCount, check_values

KIND = "an image classifier"
UNUSABLE = f"transformers cannot load the folder as {KIND}"
PART = "the model of config.json and its weights"


class PixelLogits(nn.Module):
    """A transformers model reduced to images in, logits out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes) of normalised images."""
        logits: Tensor = self.model(pixel_values=images).logits
        return logits


@dataclass(frozen=True)
class Preprocessing:
    """What a folder does to an image before its network sees it, on the [0, 1] scale.

    Attributes:
        size: Height and width the network works at.
        mean: Channel means.
        std: Channel standard deviations.
    """

    size: tuple[int, int] | None
    mean: list[float]
    std: list[float]


def load_huggingface_image(
    manifest: ModelManifest, folder: Path, device: torch.device, *, limits: Settings | None = None
) -> ImageClassifier:
    """Return the classifier of a Hugging Face folder.

    The manifest's ``input`` and ``labels`` win over the folder's; a different input size is resized inside the target.

    Raises:
        TargetError: The folder is no image classifier, its weights are incomplete, manifest and folder disagree, or the
            model computes too much for one image.
    """
    config = load_config(folder, KIND)
    labels = class_names(config, manifest)
    stated = _preprocessing(read_json(folder / "preprocessor_config.json"), config)
    network_size = stated.size
    if manifest.input is not None:
        channels, height, width = manifest.input.shape
        mean, std = list(manifest.input.mean), list(manifest.input.std)
        _check_normalisation(mean, std, stated, has_file=(folder / "preprocessor_config.json").exists())
    else:
        if network_size is None:
            raise TargetError(
                "input-missing",
                "Nothing says how large the images are",
                "neither preprocessor_config.json nor config.json gives an image size: add input to the manifest",
                field="/manifest/input",
            )
        channels, (height, width) = int(getattr(config, "num_channels", 3)), network_size
        mean, std = stated.mean, stated.std
    network_shape = (channels, *(network_size or (height, width)))
    _check_image_size(network_shape)
    model, values_per_image = _load_model(config, folder, network_shape, limits or get_settings())
    return ImageClassifier(
        PixelLogits(model),
        labels=labels,
        input_shape=(channels, height, width),
        mean=mean,
        std=std,
        device=device,
        network_size=network_size,
        values_per_image=values_per_image,
    )


def _load_model(config: Any, folder: Path, network_shape: tuple[int, ...], limits: Settings) -> tuple[nn.Module, int]:
    """Return the model and the values it computes per image; what it would be is traced before it is allocated."""
    from transformers import AutoModelForImageClassification

    with refusing(UNUSABLE, PART):
        empty = describe(AutoModelForImageClassification, config)
        check_size(empty, folder)
    with refusing("The model does not take its own input", "the model of config.json"):
        values = _count_values(PixelLogits(empty.eval()), network_shape)
    check_values(values, limits, field="/file")
    with refusing(UNUSABLE, PART):
        model = load_weights(AutoModelForImageClassification, config, folder)
    return model, values // TRACED_IMAGES


def _count_values(empty: nn.Module, network_shape: tuple[int, ...]) -> int:
    count = ValueCount()
    with torch.device("meta"), torch.no_grad(), count:
        empty(torch.empty(TRACED_IMAGES, *network_shape))
    return count.values


def _check_image_size(network_shape: tuple[int, ...]) -> None:
    is_possible = all(1 <= side <= MAX_SIDE for side in network_shape)
    if not is_possible or prod(network_shape) > MAX_IMAGE_VALUES:
        raise TargetError(
            "image-size-refused",
            "The folder asks for images of an impossible size",
            f"preprocessor_config.json and config.json make the network's images {list(network_shape)} (channels, "
            f"height, width): each must lie between 1 and {MAX_SIDE}, and their product be at most "
            f"{MAX_IMAGE_VALUES:,}",
            field="/file",
        )


def _preprocessing(stated: Mapping[str, Any], config: Any) -> Preprocessing:
    try:
        return _read_preprocessing(stated, config)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise TargetError(
            "malformed-file",
            "A file of the folder is damaged",
            f"preprocessor_config.json or config.json holds what is no number of its place ({log_fault(error)})",
            field="/file",
        ) from error


def _read_preprocessing(stated: Mapping[str, Any], config: Any) -> Preprocessing:
    channels = int(getattr(config, "num_channels", 3))
    if not 1 <= channels <= MAX_SIDE:
        raise TargetError(
            "malformed-file",
            "A file of the folder is damaged",
            f"config.json: num_channels is {channels}, must lie between 1 and {MAX_SIDE}",
            field="/file",
        )
    mean = _channel_values(stated.get("image_mean"), channels, 0.0)
    std = _channel_values(stated.get("image_std"), channels, 1.0)
    if not stated.get("do_normalize", "image_mean" in stated):
        mean, std = [0.0] * channels, [1.0] * channels
    # Images come in [0, 1]; the folder may scale bytes by another factor than 1/255, or not at all.
    scale = 255.0 * float(stated.get("rescale_factor", 1 / 255)) if stated.get("do_rescale", True) else 255.0
    return Preprocessing(_size(stated, config), [value / scale for value in mean], [value / scale for value in std])


def _size(stated: Mapping[str, Any], config: Any) -> tuple[int, int] | None:
    candidates = [getattr(config, "image_size", None)]
    candidates.insert(0, stated.get("crop_size") if stated.get("do_center_crop") else None)
    candidates.insert(1, stated.get("size") if stated.get("do_resize", True) else None)
    for size in candidates:
        if isinstance(size, int):
            return (size, size)
        if isinstance(size, list) and len(size) == 2:
            return (int(size[0]), int(size[1]))
        if isinstance(size, dict) and "height" in size and "width" in size:
            return (int(size["height"]), int(size["width"]))
        if isinstance(size, dict) and "shortest_edge" in size:
            return (int(size["shortest_edge"]), int(size["shortest_edge"]))
    return None


def _channel_values(values: Any, channels: int, default: float) -> list[float]:
    if values is None:
        return [default] * channels
    numbers = [float(value) for value in values] if isinstance(values, list) else [float(values)]
    return numbers if len(numbers) in (1, channels) else [default] * channels


def _check_normalisation(mean: list[float], std: list[float], stated: Preprocessing, *, has_file: bool) -> None:
    if not has_file:
        return
    for name, given, wanted in (("mean", mean, stated.mean), ("std", std, stated.std)):
        spread = torch.tensor(given).expand(len(wanted)) if len(given) == 1 else torch.tensor(given)
        if len(spread) != len(wanted) or not torch.allclose(spread, torch.tensor(wanted), atol=2e-3):
            raise TargetError(
                "normalisation-mismatch",
                "Manifest and folder normalise differently",
                f"preprocessor_config.json amounts to a {name} of {_rounded(wanted)} on the [0, 1] scale, the "
                f"manifest says {_rounded(given)}",
                field=f"/manifest/input/{name}",
            )


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]
