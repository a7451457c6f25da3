"""From a stored file to a classifier: the one way in."""

from pathlib import Path

import torch

from seatrial.contracts.models import ARRAYS, TAGGING, ModelManifest
from seatrial.store.settings import Settings, get_settings
from workers.errors import TargetError
from workers.models import TextClassifier
from workers.models.hf_image import load_huggingface_image
from workers.models.hf_text import load_huggingface_text
from workers.models.hf_tokens import load_huggingface_tokens
from workers.models.image_classifier import ImageClassifier
from workers.models.recalibration import Recalibrated, map_of
from workers.models.torch_exported import load_exported_image
from workers.models.torch_image import load_torch_image, load_torch_images
from workers.models.torch_onnx import load_onnx
from workers.models.unpacking import unpacked_folder, unpacked_weights


def load_image_classifier(
    manifest: ModelManifest,
    path: Path,
    format: str,
    device: torch.device,
    *,
    limits: Settings | None = None,
    scratch: Path | None = None,
) -> ImageClassifier:
    """Return the image classifier an uploaded file and its manifest describe, on ``device``, frozen, in eval mode.

    Args:
        manifest: As uploaded.
        path: The stored file.
        format: ``safetensors`` or ``archive``, as the API found it.
        device: Where to compute.
        limits: What an archive may unpack to and a model may compute; the process's settings by default.
        scratch: Where an archive is unpacked while it is loaded; the system's folder for temporary files by default.

    Raises:
        TargetError: The file and its manifest make no image classifier; the problem says why.
    """
    if manifest.task not in ARRAYS:
        raise _wrong_task(manifest, "classifies texts, and images are to be classified")
    classifier = _load_image(manifest, path, format, device, limits=limits, scratch=scratch)
    how = map_of(manifest, classifier.classes)
    if how is not None:
        classifier.module = Recalibrated(classifier.module, how).eval()
    return classifier


def _load_image(
    manifest: ModelManifest,
    path: Path,
    format: str,
    device: torch.device,
    *,
    limits: Settings | None,
    scratch: Path | None,
) -> ImageClassifier:
    if format == "safetensors":
        return load_torch_image(manifest, path, device, limits=limits)
    bounds = limits or get_settings()
    kind = manifest.architecture.kind
    if kind == "onnx":
        return load_onnx(manifest, path, device, limits=bounds)
    if kind == "exported":
        return load_exported_image(manifest, path, device, limits=bounds)
    if kind == "huggingface":
        with unpacked_folder(path, manifest, bounds, scratch=scratch) as folder:
            return load_huggingface_image(manifest, folder, device, limits=limits)
    wanted = len(getattr(manifest.architecture, "members", ()))
    with unpacked_weights(path, kind, bounds, scratch=scratch, members=wanted) as weights:
        return load_torch_images(manifest, weights, device, limits=limits)


def load_text_classifier(
    manifest: ModelManifest,
    path: Path,
    format: str,
    device: torch.device,
    *,
    scratch: Path | None = None,
) -> TextClassifier:
    """Return the classifier of texts, of pairs of them, or of tokens, an uploaded Hugging Face folder makes.

    Args:
        manifest: As uploaded; its architecture is ``huggingface``.
        path: The stored archive.
        format: ``archive``, as the API found it.
        device: Where to compute.
        scratch: Where an archive is unpacked while it is loaded; the system's folder for temporary files by default.

    Raises:
        TargetError: The file and its manifest make no text classifier; the problem says why.
    """
    if manifest.task in ARRAYS:
        raise _wrong_task(manifest, "and texts are to be classified")
    kind = manifest.architecture.kind
    if format != "archive" or kind != "huggingface":
        raise TargetError(
            "folder-needed",
            "A text model is a Hugging Face folder",
            f"architecture {kind}, a {format} file: {manifest.task} takes an archive of a folder with config.json, "
            "safetensors and a tokenizer",
            field="/file",
        )
    with unpacked_folder(path, manifest, get_settings(), scratch=scratch) as folder:
        if manifest.task == TAGGING:
            return load_huggingface_tokens(manifest, folder, device)
        classifier = load_huggingface_text(manifest, folder, device)
    classifier.recalibrate(map_of(manifest, classifier.classes))
    return classifier


def _wrong_task(manifest: ModelManifest, why: str) -> TargetError:
    return TargetError(
        "task-mismatch", "The model is for another task", f"task is {manifest.task}, {why}", field="/manifest/task"
    )
