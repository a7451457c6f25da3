"""From a stored file to a classifier: the one way in."""

import tempfile
from pathlib import Path, PurePosixPath

import torch

from app.contracts.targets import ModelManifest
from app.core.archives import extract_archive
from app.core.inspection.errors import InspectionError
from app.core.settings import Settings, get_settings
from workers.errors import TargetError
from workers.targets.hf_image import load_huggingface_image
from workers.targets.image_classifier import ImageClassifier
from workers.targets.torch_image import load_torch_image


def load_image_classifier(
    manifest: ModelManifest, path: Path, format: str, device: torch.device, *, limits: Settings | None = None
) -> ImageClassifier:
    """Return the image classifier an uploaded file and its manifest describe, on ``device``, frozen, in eval mode.

    Args:
        manifest: As uploaded.
        path: The stored file.
        format: ``safetensors`` or ``archive``, as the API found it.
        device: Where to compute.
        limits: What an archive may unpack to and a model may compute; the process's settings by default.

    Raises:
        TargetError: The file and its manifest make no image classifier; the problem says why.
    """
    if manifest.task != "image-classification":
        raise TargetError(
            "task-not-supported",
            "Models for this task cannot be loaded yet",
            f"task is {manifest.task}: this version loads image-classification",
            field="/manifest/task",
        )
    if format == "safetensors":
        return load_torch_image(manifest, path, device, limits=limits)
    with tempfile.TemporaryDirectory(prefix="seatrial-model-") as scratch:
        folder = Path(scratch) / "model"
        try:
            entries = extract_archive(path, folder, limits or get_settings())
        except InspectionError as error:
            raise TargetError(error.code, error.title, error.detail, field=error.field) from error
        names = [entry.name for entry in entries]
        if manifest.architecture.kind == "huggingface":
            found = folder / _parent_of("config.json", names)
            return load_huggingface_image(manifest, found, device, limits=limits)
        weights = [name for name in names if name.endswith(".safetensors")]
        if len(weights) != 1:
            raise TargetError(
                "weights-ambiguous",
                "The archive does not hold one safetensors file",
                f"it holds {len(weights)}: architecture {manifest.architecture.kind} takes exactly one",
                field="/file",
            )
        return load_torch_image(manifest, folder / weights[0], device, limits=limits)


def _parent_of(filename: str, names: list[str]) -> str:
    found = sorted((name for name in names if PurePosixPath(name).name == filename), key=lambda name: name.count("/"))
    if not found:
        raise TargetError("file-missing", "A file is missing", f"the archive has no {filename}", field="/file")
    return str(PurePosixPath(found[0]).parent)
