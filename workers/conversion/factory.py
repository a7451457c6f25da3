"""Exporting the network that somebody's own code builds."""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.contracts.models import InputSpec, ModelManifest
from seatrial.store.settings import Settings
from workers.conversion.errors import ConversionError
from workers.errors import TargetError
from workers.models.torch_exported import load_exported_image

PROGRAM = "model.pt2"


def make(factory: str) -> nn.Module:
    """Return the network that ``package.module:name`` gives, imported from the folder one stands in or installed.

    Raises:
        ConversionError: There is no such function, or it returns something else.
    """
    module_name, _, name = factory.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        built = getattr(importlib.import_module(module_name), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConversionError(f"--factory {factory} cannot be called: {error}") from error
    if not isinstance(built, nn.Module):
        raise ConversionError(f"--factory {factory} returned {type(built).__name__}: a torch.nn.Module is wanted")
    return built.eval().requires_grad_(False)


def give_weights(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Load a state dict into a network.

    Raises:
        ConversionError: Its names or shapes are other ones.
    """
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ConversionError(f"the weights do not fit the network of the factory: {str(error)[:600]}") from error


def export(module: nn.Module, shape: list[int], path: Path) -> None:
    """Write the network as an exported program, for any batch where it allows that, else for one image.

    Raises:
        ConversionError: It cannot be traced; says what to change.
    """
    batch = torch.export.Dim("batch", min=1, max=4096)
    attempts: list[dict[str, Any]] = [{"dynamic_shapes": ({0: batch},)}, {}]
    for number, how in enumerate(attempts):
        example = torch.rand(2 if how else 1, *shape)
        try:
            torch.export.save(torch.export.export(module, (example,), strict=False, **how), path)
        # What tracing somebody's code raises has no common ancestor.
        except Exception as error:
            if number + 1 < len(attempts):
                continue
            raise ConversionError(
                f"the network cannot be exported: {type(error).__name__}: {str(error)[:600]}. Wrap it in a module "
                "whose `forward(images)` returns the logits alone, and take out control flow that depends on values"
            ) from error
        return


def check_export(module: nn.Module, manifest: ModelManifest, path: Path) -> float:
    """Load a program as a worker does, and return by how much its logits differ from the network's own.

    Raises:
        ConversionError: A worker would refuse it; says why.
    """
    spec = manifest.input
    if spec is None:
        raise ConversionError("--shape is needed: channels,height,width of the images")
    # The network itself is compared: what the manifest normalises stands outside of both.
    plain = manifest.model_copy(update={"input": InputSpec(shape=spec.shape, mean=[0.0], std=[1.0])})
    try:
        loaded = load_exported_image(plain, path, torch.device("cpu"), limits=Settings())
    except TargetError as error:
        raise ConversionError(f"the program would be refused: {error.problem.detail}") from error
    images = torch.rand(3, *spec.shape)
    with torch.no_grad():
        return float((loaded.logits(images) - module(images).float()).abs().max())


def classes_of(module: nn.Module, shape: list[int]) -> int:
    """Return the number of logits a network gives.

    Raises:
        ConversionError: It does not take images of this shape, or does not give a row of logits for each.
    """
    try:
        with torch.no_grad():
            logits = module(torch.rand(2, *shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ConversionError(f"the network does not take images of shape {shape}: {str(error)[:300]}") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 2:
        raise ConversionError(
            "the network must return one tensor of logits (batch, classes): wrap it in a module whose `forward` does"
        )
    return int(logits.shape[1])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for what is not yet known to be right."""
    return tempfile.TemporaryDirectory(prefix="seatrial-convert-")
