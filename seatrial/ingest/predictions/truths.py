"""What is true of the examples of a table of predictions: the dataset's side."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.datasets import DatasetManifest
from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.predictions.tables import ARMS, Cells, Layout, arm_of, identifier, read_table
from seatrial.ingest.texts.labels import LabelColumn
from seatrial.store.settings import Settings

NO_LABEL = -1
"""Label of an example that is of none of the classes."""

NEEDED, OPTIONAL = ("example_id", "label"), ("group", "arm", "model")
OOD = ARMS.index("ood")


@dataclass(frozen=True)
class Truths:
    """Examples of a table of predictions, each once.

    Attributes:
        ids: (n,) as the file names them; unique within an arm.
        labels: (n,) class numbers, ``NO_LABEL`` of outliers.
        arms: (n,) places in ``ARMS``.
        groups: (n,) names; None where the file has none.
        names: Class names in the order of their numbers, where the labels are names or the manifest gives them.
    """

    ids: list[str]
    labels: NDArray[np.int64]
    arms: NDArray[np.int64]
    groups: list[str] | None
    names: list[str] | None


def read_truths(path: Path, layout: Layout, manifest: DatasetManifest, limits: Settings) -> Truths:
    """Return the examples of a table of predictions.

    A table with answers of several models says the same of an example once for each: these are one example.

    Raises:
        InspectionError: With the line or row, the column, and what would be right.
    """
    named = manifest.columns or {}
    needed = {role: named.get(role, role) for role in NEEDED}
    optional = {role: named.get(role, role) for role in OPTIONAL}
    field = "/file" if manifest.labels is None else "/manifest/labels"
    column = LabelColumn(needed["label"], manifest.labels, field=field)
    found: dict[tuple[str, int], tuple[int | str, str | None, str]] = {}
    models: set[tuple[str, int, str]] = set()
    for cells in read_table(path, layout, needed, optional, limits):
        key = identifier(cells, "example_id", needed["example_id"]), arm_of(cells, optional["arm"])
        label: int | str = NO_LABEL if key[1] == OOD else column.read(cells.values["label"], cells.where)
        group = identifier(cells, "group", optional["group"]) if "group" in cells.values else None
        model = identifier(cells, "model", optional["model"]) if "model" in cells.values else ""
        if (*key, model) in models:
            raise ContentError(
                f"{cells.where}, column {needed['example_id']!r}: {key[0]!r} stands twice in the arm {ARMS[key[1]]}, "
                f"first in {found[key][2]}: every example has one row"
            )
        models.add((*key, model))
        _refuse_other(found.setdefault(key, (label, group, cells.where)), label, group, cells, key[0])
    if not found:
        raise ContentError("The file holds no examples")
    return _gathered(found, manifest.labels)


def label_counts(truths: Truths) -> dict[str, int]:
    """Return examples per class number, outliers left out."""
    counts = Counter(truths.labels[truths.labels >= 0].tolist())
    return {str(number): counts[number] for number in sorted(counts)}


def _refuse_other(
    first: tuple[int | str, str | None, str], label: int | str, group: str | None, cells: Cells, example: str
) -> None:
    if first[:2] != (label, group):
        raise ContentError(
            f"{cells.where}: the example {example!r} has the label {label!r:.100} and the group {group!r:.100}, in "
            f"{first[2]} it has {first[0]!r:.100} and {first[1]!r:.100}: models are asked about the same examples"
        )


def _gathered(found: dict[tuple[str, int], tuple[int | str, str | None, str]], known: list[str] | None) -> Truths:
    names = known or sorted({label for label, *_ in found.values() if isinstance(label, str)}) or None
    numbers = {name: number for number, name in enumerate(names or [])}
    labels = [label if isinstance(label, int) else numbers[label] for label, *_ in found.values()]
    groups = [group for _, group, _ in found.values() if group is not None]
    return Truths(
        ids=[example for example, _ in found],
        labels=np.asarray(labels, dtype=np.int64),
        arms=np.asarray([arm for _, arm in found], dtype=np.int64),
        groups=groups if len(groups) == len(found) else None,
        names=names,
    )
