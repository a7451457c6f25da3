"""From a stored file to a classifier: the one way in."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import torch

from app.contracts.targets import IMAGES, TAGGING, ModelManifest
from app.core.archives import extract_archive
from app.core.inspection.errors import InspectionError
from app.core.settings import Settings, get_settings
from workers.errors import TargetError
from workers.targets import TextClassifier
from workers.targets.hf_image import load_huggingface_image
from workers.targets.hf_text import load_huggingface_text
from workers.targets.hf_tokens import load_huggingface_tokens
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
    if manifest.task != IMAGES:
        raise _wrong_task(manifest, "classifies texts, and images are to be classified")
    if format == "safetensors":
        return load_torch_image(manifest, path, device, limits=limits)
    with _unpacked(path, limits) as (folder, names):
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


def load_text_classifier(
    manifest: ModelManifest, path: Path, format: str, device: torch.device, *, limits: Settings | None = None
) -> TextClassifier:
    """Return the classifier of texts, of pairs of them, or of tokens, an uploaded Hugging Face folder makes.

    Args:
        manifest: As uploaded; its architecture is ``huggingface``.
        path: The stored archive.
        format: ``archive``, as the API found it.
        device: Where to compute.
        limits: What an archive may unpack to; the process's settings by default.

    Raises:
        TargetError: The file and its manifest make no text classifier; the problem says why.
    """
    if manifest.task == IMAGES:
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
    with _unpacked(path, limits) as (folder, names):
        found = folder / _parent_of("config.json", names)
        if manifest.task == TAGGING:
            return load_huggingface_tokens(manifest, found, device)
        return load_huggingface_text(manifest, found, device)


@contextmanager
def _unpacked(path: Path, limits: Settings | None) -> Iterator[tuple[Path, list[str]]]:
    with tempfile.TemporaryDirectory(prefix="seatrial-model-") as scratch:
        folder = Path(scratch) / "model"
        try:
            entries = extract_archive(path, folder, limits or get_settings())
        except InspectionError as error:
            raise TargetError(error.code, error.title, error.detail, field=error.field) from error
        yield folder, [entry.name for entry in entries]


def _wrong_task(manifest: ModelManifest, why: str) -> TargetError:
    return TargetError(
        "task-mismatch", "The model is for another task", f"task is {manifest.task}, {why}", field="/manifest/task"
    )


def _parent_of(filename: str, names: list[str]) -> str:
    found = sorted((name for name in names if PurePosixPath(name).name == filename), key=lambda name: name.count("/"))
    if not found:
        raise TargetError("file-missing", "A file is missing", f"the archive has no {filename}", field="/file")
    return str(PurePosixPath(found[0]).parent)
