"""Texts of a CSV, JSON Lines or Parquet file, by row."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.texts.examples import MULTI_LABEL, Example, read_examples
from seatrial.store.settings import Settings
from workers.data import Text
from workers.errors import DataError

CHUNK_EXAMPLES = 4096
"""Examples that are Python objects at once while a file is read; afterwards their bytes are kept, and little else."""


class TableTexts:
    """Texts or pairs and their labels; implements :class:`workers.data.TextDataset`.

    Labels of multi-label texts have a column for each class name, or up to the largest class number that occurs.
    """

    def __init__(self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, limits: Settings) -> None:
        self.label_names = facts.labels
        chunks: list[Any] = []
        labels: list[NDArray[np.int64]] = []
        counts: list[NDArray[np.int64]] = []
        examples = read_examples(path, facts.format, manifest, facts.labels, limits)
        while chunk := list(islice(examples, CHUNK_EXAMPLES)):
            parts = zip(*(example.parts for example in chunk), strict=True)
            chunks.append(pa.table([pa.array(part, pa.large_string()) for part in parts], names=_names(chunk[0])))
            labels.append(label_numbers(chunk, facts.labels))
            counts.append(np.asarray([len(example.labels) for example in chunk], dtype=np.int64))
        self._texts = concatenate(chunks, facts)
        numbers = np.concatenate(labels)
        self.labels = (
            numbers if manifest.task != MULTI_LABEL else _zeros_and_ones(numbers, np.concatenate(counts), facts)
        )

    def texts(self, positions: Sequence[int]) -> list[Text]:
        """Return texts, or pairs of premise and hypothesis, in the order of ``positions``."""
        parts = [[column[int(position)].as_py() for position in positions] for column in self._texts.columns]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def of_classes(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return labels (n, classes of the dataset) for the classes of a model (n, classes): 0 where the dataset has none.

    >>> of_classes(np.array([[1, 0]]), 3).tolist()
    [[1, 0, 0]]
    """
    known = labels[:, :classes]
    return np.pad(known, ((0, 0), (0, classes - known.shape[1])))


def label_numbers(examples: Iterable[Example], names: list[str] | None) -> NDArray[np.int64]:
    """Return the class numbers of all labels of some examples, one after the other (labels,).

    Raises:
        DataError: A label has a name the facts do not know.
    """
    numbers = {name: number for number, name in enumerate(names or [])}
    try:
        found = [
            label if isinstance(label, int) else numbers[label] for example in examples for label in example.labels
        ]
    except KeyError as error:
        raise changed(f"the label {error} is new") from error
    return np.asarray(found, dtype=np.int64)


def concatenate(chunks: list[Any], facts: DatasetFacts) -> Any:
    """Return the tables of all chunks as one.

    Raises:
        DataError: They have not as many rows as the facts say.
    """
    rows = sum(chunk.num_rows for chunk in chunks)
    if rows != facts.examples or not chunks:
        raise changed(f"{rows} examples, expected {facts.examples}")
    return pa.concat_tables(chunks)


def changed(detail: str) -> DataError:
    """Return the error of a file that is not the one that was inspected."""
    return DataError("dataset-changed", "The dataset is not what it was when it was uploaded", detail)


def _names(example: Example) -> list[str]:
    return ["text"] if len(example.parts) == 1 else ["premise", "hypothesis"]


def _zeros_and_ones(numbers: NDArray[np.int64], counts: NDArray[np.int64], facts: DatasetFacts) -> NDArray[np.int64]:
    classes = len(facts.labels) if facts.labels else int(numbers.max(initial=-1)) + 1
    matrix = np.zeros((len(counts), classes), dtype=np.int64)
    matrix[np.repeat(np.arange(len(counts)), counts), numbers] = 1
    return matrix
