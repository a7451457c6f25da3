"""Checks an uploaded dataset before it is stored, and says what it holds."""

from pathlib import Path
from typing import Any

from app.datasets.arrays import inspect_arrays
from app.datasets.image_folders import inspect_image_folder
from app.datasets.parquet import inspect_parquet
from app.datasets.predictions import inspect_predictions
from app.datasets.tables import inspect_table
from app.datasets.texts import inspect_texts
from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.contracts.models import IMAGES, PREDICTIONS, TABLES
from seatrial.ingest.archives import walk_archive
from seatrial.ingest.inspection.errors import ContentError, UnsupportedFormatError, UploadTooLargeError
from seatrial.ingest.inspection.magic import ARCHIVES, Kind, looks_like, refuse_impostor, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.store.settings import Settings

WANTED = (
    "an .npz with images and labels, a .zip or .tar of class folders of images, "
    "or a Parquet file with images and labels"
)


def inspect_dataset(path: Path, filename: str, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of an uploaded dataset after reading all of it once, in pieces.

    The file is judged by its bytes; its name only appears in messages. Every value is looked at: numbers are finite and
    in range, labels count from 0, images have readable headers, texts are there and of an accepted length.

    Args:
        path: The upload on disk.
        filename: What its sender called it.
        manifest: What its sender said of it.
        limits: Sizes and counts the operator allows.

    Raises:
        InspectionError: With the reason, the field to blame and what would be right.
    """
    size = path.stat().st_size
    where = repr(filename[:200])
    if size > limits.max_dataset_bytes:
        raise UploadTooLargeError(
            f"{where} has {size:,} bytes; datasets of at most {limits.max_dataset_bytes:,} are accepted"
        )
    if manifest.task == TABLES:
        return inspect_table(path, where, manifest, limits)
    if manifest.task == PREDICTIONS:
        return inspect_predictions(path, where, manifest, limits)
    if manifest.task != IMAGES:
        return inspect_texts(path, where, manifest, limits)
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES), size)
    refuse_impostor(kind, where, WANTED)
    if kind is Kind.PARQUET:
        facts = inspect_parquet(path, manifest, limits)
    elif kind is Kind.ZIP and _holds_arrays(path, limits):
        facts = inspect_arrays(path, manifest, limits)
    elif kind in ARCHIVES:
        facts = inspect_image_folder(path, manifest, limits)
    else:
        hint = "" if kind is not Kind.TEXT else ", or set task to text-classification or another task of texts"
        raise UnsupportedFormatError(f"{where} is not a dataset of images: {looks_like(kind)}; send {WANTED}{hint}")
    if facts.examples == 0:
        raise ContentError(f"{where} holds no examples")
    return facts


def dataset_facts(path: Path, filename: str, manifest: DatasetManifest, limits: Settings) -> dict[str, Any]:
    """Return the facts of an uploaded dataset as JSON; see :func:`inspect_dataset`."""
    return inspect_dataset(path, filename, manifest, limits).model_dump(mode="json")


def _holds_arrays(path: Path, limits: Settings) -> bool:
    """Return whether a zip is an ``.npz``: its first file is an array."""
    with walk_archive(path, limits) as walk:
        first = next(walk, None)
        return first is not None and first[0].name.endswith(".npy")
