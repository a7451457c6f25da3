"""Inspecting a table of predictions: what is true of its examples, as the workers will read it."""

from pathlib import Path

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.inspection.errors import ManifestMismatchError
from seatrial.ingest.predictions.tables import table_layout
from seatrial.ingest.predictions.truths import label_counts, read_truths
from seatrial.store.settings import Settings


def inspect_predictions(path: Path, where: str, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of a table of predictions: ids, labels, arms and groups; the answers in it are a model's.

    Args:
        path: The upload on disk.
        where: The upload, as its sender knows it.
        manifest: What its sender said of it.
        limits: Most examples.

    Raises:
        InspectionError: With the line or row, the column and what would be right.
    """
    if manifest.labels is not None and len(set(manifest.labels)) != len(manifest.labels):
        raise ManifestMismatchError(
            "Two labels of the manifest are equal: class names differ", field="/manifest/labels"
        )
    layout = table_layout(path, where)
    truths = read_truths(path, layout, manifest, limits)
    counts = label_counts(truths)
    return DatasetFacts(
        format=layout,
        examples=len(truths.ids),
        classes=len(truths.names) if truths.names else len(counts),
        label_counts=counts,
        labels=truths.names,
    )
