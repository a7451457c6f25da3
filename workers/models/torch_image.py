"""Loading safetensors weights into a built-in architecture."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from seatrial.contracts.architectures import EnsembleArchitecture
from seatrial.contracts.models import InputSpec, ModelManifest
from seatrial.store.settings import Settings, get_settings
from workers.errors import TargetError, log_fault
from workers.models.architectures import build_architecture, check_shapes
from workers.models.ensembles import load_members
from workers.models.image_classifier import ImageClassifier
from workers.models.passes import DropoutPasses, seed_of_weights
from workers.models.state_dicts import fit_state, normalisation_mismatch, strip_prefixes, take_normalisation
from workers.models.table_classifier import TableClassifier
from workers.models.tracing import TRACED_IMAGES, check_values


def load_torch_image(
    manifest: ModelManifest, path: Path, device: torch.device, *, limits: Settings | None = None
) -> ImageClassifier:
    """Return the classifier a safetensors file and its manifest describe.

    Raises:
        TargetError: The weights do not fit the architecture, the input or the labels.
    """
    return load_torch_images(manifest, [path], device, limits=limits)


def load_torch_images(
    manifest: ModelManifest, paths: Sequence[Path], device: torch.device, *, limits: Settings | None = None
) -> ImageClassifier:
    """Return the same of several safetensors files: those of an ensemble's members, in order.

    Raises:
        TargetError: The weights do not fit the architecture, the input or the labels.
    """
    states = [_read(path) for path in paths]
    module: nn.Module
    architecture = manifest.architecture
    if isinstance(architecture, EnsembleArchitecture):
        module, values_per_image = load_members(manifest, architecture, states, partial(_load, limits=limits))
        check_values(values_per_image * TRACED_IMAGES, limits or get_settings(), field="/manifest/architecture/members")
    else:
        module, values_per_image = _load(manifest, states[0], 0, limits=limits)
    # build_architecture has refused a manifest without them.
    return make_classifier(module, manifest, device, values_per_image)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return strip_prefixes(load_file(path))
    except (SafetensorError, OSError) as error:
        raise TargetError(
            "weights-unreadable",
            "The weights cannot be read",
            f"not a safetensors file ({log_fault(error)})",
            field="/file",
        ) from error


def _load(
    manifest: ModelManifest, given: Mapping[str, Tensor], member: int, *, limits: Settings | None
) -> tuple[nn.Module, int]:
    """Return one network with its weights, and the values it computes for one image."""
    state = strip_prefixes(given)
    with torch.device("meta"):
        module = build_architecture(manifest, set(state))
    values_per_image = check_shapes(module, manifest, limits=limits)
    _check_normalisation(manifest, take_normalisation(state, module.state_dict()))
    fit_state(module, state, manifest.architecture.kind)
    if any(buffer.is_meta for buffer in module.buffers()):
        # What is computed when a network is built, and not saved with it. It has been found to fit its weights, so
        # that it is no larger than they are.
        with torch.random.fork_rng(devices=[]):
            module = build_architecture(manifest, set(state)).eval()
        fit_state(module, state, manifest.architecture.kind)
    passes = getattr(manifest.architecture, "dropout", None)
    if passes is None:
        return module, values_per_image
    check_values(
        values_per_image * passes * TRACED_IMAGES, limits or get_settings(), field="/manifest/architecture/dropout"
    )
    seed = seed_of_weights(state, member=member)
    return DropoutPasses(module, passes, seed, kind=manifest.architecture.kind), values_per_image * passes


def _check_normalisation(manifest: ModelManifest, held: dict[str, list[float]]) -> None:
    # Of rows, the columns' means are the manifest's alone.
    if manifest.input is None or not held:
        return
    if different := normalisation_mismatch(held, {"mean": manifest.input.mean, "std": manifest.input.std}):
        raise TargetError(
            "normalisation-mismatch",
            "Weights and manifest normalise images differently",
            f"{different}: state in the manifest what the network was trained with, or leave out of the file what it "
            "does not use",
            field="/manifest/input",
        )


def make_classifier(
    module: nn.Module, manifest: ModelManifest, device: torch.device, values_per_image: int
) -> ImageClassifier:
    """Return a module as the target of its manifest, which states labels and input."""
    labels = cast(list[str], manifest.labels)
    if manifest.features is not None:
        return TableClassifier(
            module, labels=labels, features=manifest.features, device=device, values_per_row=values_per_image
        )
    spec = cast(InputSpec, manifest.input)
    channels, height, width = spec.shape
    return ImageClassifier(
        module,
        labels=labels,
        input_shape=(channels, height, width),
        mean=spec.mean,
        std=spec.std,
        is_standardised=spec.standardise == "per_image",
        device=device,
        values_per_image=values_per_image,
    )
