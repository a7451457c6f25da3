"""Inspecting a table of numbers: every value is read once, as the workers will read it."""

from collections import Counter
from pathlib import Path

import numpy as np

from app.datasets.labels import agree_on_names
from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.contracts.models import TABLES
from seatrial.ingest.inspection.errors import ContentError, UnsupportedFormatError
from seatrial.ingest.inspection.magic import Kind, looks_like, refuse_impostor, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.tables import Table, TableFormat, read_table
from seatrial.store.settings import Settings

WANTED = (
    "columns of numbers and one of labels as CSV with a header or Parquet, or an .npz with the arrays features and "
    "labels"
)


def inspect_table(path: Path, where: str, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of a table: its columns, the least and greatest value of each, and its labels.

    Raises:
        InspectionError: With the row, the column and what would be right.
    """
    layout = table_format(path, where)
    facts = [_facts(table, layout, where, manifest) for table in read_table(path, layout, manifest, limits)]
    return facts[0]


def _facts(table: Table, layout: TableFormat, where: str, manifest: DatasetManifest) -> DatasetFacts:
    names = agree_on_names(table.names, manifest)
    smallest = largest = None
    counts: Counter[int | str] = Counter()
    for block in table.blocks:
        low, high = block.values.min(0), block.values.max(0)
        smallest = low if smallest is None else np.minimum(smallest, low)
        largest = high if largest is None else np.maximum(largest, high)
        counts.update(block.labels)
    if smallest is None or largest is None:
        raise ContentError(f"{where} holds no examples")
    if names is None and any(isinstance(label, str) for label in counts):
        names = sorted(str(label) for label in counts)
    numbers = {name: number for number, name in enumerate(names or [])}
    by_number = {label if isinstance(label, int) else numbers[label]: count for label, count in counts.items()}
    return DatasetFacts(
        format=layout,
        examples=sum(counts.values()),
        classes=len(names) if names else len(by_number),
        shape=[1, 1, len(smallest)],
        label_counts={str(number): count for number, count in sorted(by_number.items())},
        labels=names,
        features=table.columns,
        smallest=smallest.tolist(),
        largest=largest.tolist(),
    )


def table_format(path: Path, where: str) -> TableFormat:
    """Return the format of a table of numbers, judged by its first bytes.

    Raises:
        InspectionError: It is none.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    kind = sniff(head, path.stat().st_size)
    refuse_impostor(kind, where, WANTED)
    if kind is Kind.PARQUET:
        return "parquet"
    if kind is Kind.ZIP and b".npy" in head[:200]:
        return "npz"
    if kind in (Kind.TEXT, Kind.UNKNOWN) and b"\0" not in head and not head.lstrip().startswith((b"{", b"[")):
        return "csv"
    raise UnsupportedFormatError(f"{where} is not a dataset of {TABLES}: {looks_like(kind)}; send {WANTED}")
