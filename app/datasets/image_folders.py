"""Inspecting an archive of class folders of images."""

from pathlib import Path, PurePosixPath

import numpy as np

from app.datasets.image_headers import MAX_IMAGE_BYTES, ShapeSummary, read_image_shape
from app.datasets.labels import LabelCounter
from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.archives import drain, walk_archive
from seatrial.ingest.inspection.errors import ContentError, UnsafeArchiveError, UploadTooLargeError
from seatrial.ingest.inspection.image_layout import IMAGE_SUFFIXES, TEXT_SUFFIXES, index_image_folder
from seatrial.ingest.inspection.magic import ARCHIVES, Kind, refuse_impostor, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.store.settings import Settings


def inspect_image_folder(path: Path, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of a ``.zip``, ``.tar`` or ``.tar.gz`` of class folders.

    Raises:
        InspectionError: With the entry and what would be right.
    """
    shapes: dict[str, tuple[int, int, int]] = {}
    known: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            where = f"The archive entry {entry.name!r:.300}"
            if PurePosixPath(entry.name).suffix.lower() not in IMAGE_SUFFIXES:
                head = stream.read(HEAD_BYTES)
                _refuse_unless_text(entry.name, sniff(head, entry.size))
                drain(stream)
                continue
            if entry.size > MAX_IMAGE_BYTES:
                raise ContentError(
                    f"{where} has {entry.size:,} bytes; images of at most {MAX_IMAGE_BYTES:,} are accepted"
                )
            if len(shapes) >= limits.max_examples:
                raise UploadTooLargeError(f"The archive holds more than {limits.max_examples:,} images")
            data = stream.read(entry.size)
            refuse_impostor(sniff(data[:HEAD_BYTES], len(data)), where, "an image")
            shape = read_image_shape(data, where)
            # Hundreds of thousands of equal tuples would take more memory than the names.
            shapes[entry.name] = known.setdefault(shape, shape)
    index = index_image_folder(list(shapes), manifest)
    counter, summary = LabelCounter(index.names), ShapeSummary()
    counter.add(np.asarray(index.labels))
    for name in index.paths:
        summary.add(shapes[name])
    return DatasetFacts(
        format="image_folder",
        examples=counter.examples,
        classes=counter.classes,
        shape=summary.shape,
        label_counts=counter.counts,
        labels=index.names,
        on_grid=True,
    )


def _refuse_unless_text(name: str, kind: Kind) -> None:
    where = f"The archive entry {name!r:.300}"
    if kind is Kind.EMPTY:
        return
    refuse_impostor(kind, where, "images")
    if kind in ARCHIVES:
        raise UnsafeArchiveError(f"{where} is itself an archive: send its images as they are")
    if kind is not Kind.TEXT or PurePosixPath(name).suffix.lower() not in TEXT_SUFFIXES:
        raise ContentError(
            f"{where} is neither an image nor a note: class folders of {', '.join(sorted(IMAGE_SUFFIXES))} files "
            "are expected"
        )
