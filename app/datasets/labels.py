"""Counting label numbers and agreeing on label names, for every format alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.datasets import DatasetManifest
from seatrial.ingest.inspection.errors import ContentError, ManifestMismatchError
from seatrial.ingest.texts.labels import MAX_CLASSES, check_characters


class LabelCounter:
    """Counts label numbers chunk by chunk and refuses the first that is out of range.

    Args:
        names: Class names, when known: labels must be below their number.
        field: JSON pointer to blame.
    """

    def __init__(self, names: Sequence[str] | None, field: str = "/file") -> None:
        self._limit = MAX_CLASSES if names is None else len(names)
        self._names = names
        self._field = field
        self._counts = np.zeros(0, dtype=np.int64)
        self._seen = 0

    def add(self, labels: NDArray[Any]) -> None:
        """Count some integer labels (n,).

        Raises:
            ContentError: A label is negative or names no class.
        """
        if not len(labels):
            return
        wrong = np.flatnonzero((labels < 0) | (labels >= self._limit))
        if len(wrong):
            at, label = self._seen + int(wrong[0]), int(labels[wrong[0]])
            known = (
                f"{self._limit} class names are given"
                if self._names
                else f"at most {MAX_CLASSES:,} classes are accepted"
            )
            raise ContentError(
                f"labels[{at}] is {label}: labels are class numbers from 0 to {self._limit - 1} ({known})",
                field=self._field,
            )
        counts = np.bincount(labels.astype(np.int64), minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._seen += len(labels)

    @property
    def examples(self) -> int:
        """Labels counted."""
        return self._seen

    @property
    def classes(self) -> int:
        """Number of class names when known, else of distinct labels."""
        return len(self._names) if self._names else int(np.count_nonzero(self._counts))

    @property
    def counts(self) -> dict[str, int]:
        """Examples per label number that occurs."""
        return {str(label): int(count) for label, count in enumerate(self._counts) if count}


def agree_on_names(in_file: list[str] | None, manifest: DatasetManifest) -> list[str] | None:
    """Return the class names of a dataset: the file's, or the manifest's.

    Raises:
        ContentError: The file's names are not distinct, or cannot be stored.
        ManifestMismatchError: Both have names and they differ.
    """
    if in_file is None:
        return manifest.labels
    if len(set(in_file)) != len(in_file):
        raise ContentError("The class names in the file are not distinct")
    for name in in_file:
        check_characters(name, f"The class name {name!r:.200} in the file")
    if manifest.labels is not None and manifest.labels != in_file:
        raise ManifestMismatchError(
            f"The file names its classes {_some(in_file)}, the manifest {_some(manifest.labels)}: leave labels out, "
            "or make them equal and in the same order",
            field="/manifest/labels",
        )
    return in_file


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:5])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 5 else shown
