"""From a stored file to a dataset: the one way in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.predictions.answers import Answers, read_answers
from seatrial.ingest.predictions.tables import table_layout
from seatrial.ingest.predictions.truths import Truths, read_truths
from seatrial.store.settings import Settings, get_settings
from workers.data import ImageDataset, TaggedDataset, TextDataset
from workers.data.arrays import ArrayImages
from workers.data.image_folder import FolderImages
from workers.data.parquet import ParquetImages
from workers.data.tables import TableRows
from workers.data.tagged import TableSentences
from workers.data.texts import TableTexts
from workers.errors import DataError, TargetError


def load_image_dataset(
    manifest: DatasetManifest,
    facts: DatasetFacts,
    path: Path,
    *,
    channels: int | None = None,
    limits: Settings | None = None,
) -> ImageDataset:
    """Return the images and labels of a stored dataset.

    Args:
        manifest: As uploaded.
        facts: As found by the API when it was uploaded.
        path: The stored file.
        channels: Channels wanted: 1 turns colour to grey (ITU-R 601 luma), 3 repeats grey. The file's own by default.
        limits: What an archive may unpack to; the process's settings by default.

    Raises:
        DataError: The file is not what its facts say.
    """
    wanted = channels or (facts.shape[0] if facts.shape else 3)
    with _readable():
        if facts.format == "npz":
            return ArrayImages(manifest, facts, path, wanted, limits or get_settings())
        if facts.format == "parquet":
            return ParquetImages(manifest, facts, path, wanted, limits or get_settings())
        return FolderImages(manifest, facts, path, wanted, limits or get_settings())


def load_table_dataset(
    manifest: DatasetManifest, facts: DatasetFacts, path: Path, *, limits: Settings | None = None
) -> TableRows:
    """Return the rows of a stored table of numbers; arguments and errors as for images."""
    with _readable():
        return TableRows(manifest, facts, path, limits or get_settings())


def load_text_dataset(
    manifest: DatasetManifest, facts: DatasetFacts, path: Path, *, limits: Settings | None = None
) -> TextDataset:
    """Return the texts and labels of a stored dataset of texts, pairs or multi-label texts.

    Args:
        manifest: As uploaded.
        facts: As found by the API when it was uploaded.
        path: The stored file.
        limits: Longest text and most examples; the process's settings by default.

    Raises:
        DataError: The file is not what its facts say.
    """
    with _readable():
        return TableTexts(manifest, facts, path, limits or get_settings())


def load_tagged_dataset(
    manifest: DatasetManifest, facts: DatasetFacts, path: Path, *, limits: Settings | None = None
) -> TaggedDataset:
    """Return the sentences of a stored dataset of tagged texts; arguments and errors as for texts."""
    with _readable():
        return TableSentences(manifest, facts, path, limits or get_settings())


def load_truths(manifest: DatasetManifest, path: Path, *, limits: Settings | None = None) -> Truths:
    """Return what is true of the examples of a stored table of predictions; errors as for texts."""
    with _readable():
        return read_truths(path, table_layout(path, "The file"), manifest, limits or get_settings())


def load_answers(manifest: ModelManifest, path: Path, *, limits: Settings | None = None) -> Answers:
    """Return what a model answered, of a stored table of predictions.

    Raises:
        TargetError: The file is not what was inspected.
    """
    try:
        return read_answers(path, table_layout(path, "The file"), manifest, limits or get_settings())
    except InspectionError as error:
        raise TargetError(error.code, error.title, error.detail, field=error.field) from error


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what the API would have refused into an error of the dataset."""
    try:
        yield
    except InspectionError as error:
        raise DataError(error.code, error.title, error.detail, field=error.field) from error
