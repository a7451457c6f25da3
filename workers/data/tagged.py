"""Tagged sentences of a CoNLL-U, JSON Lines or Parquet file, by row."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.texts.examples import read_examples
from seatrial.store.settings import Settings
from workers.data.texts import CHUNK_EXAMPLES, concatenate, label_numbers


class TableSentences:
    """Sentences and the tag of every token; implements :class:`workers.data.TaggedDataset`.

    Tags that are numbers without names are named by their numbers, up to the largest that occurs.
    """

    def __init__(self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, limits: Settings) -> None:
        self.label_names = facts.labels or [str(tag) for tag in range(max(map(int, facts.label_counts)) + 1)]
        chunks: list[Any] = []
        examples = read_examples(path, facts.format, manifest, facts.labels, limits)
        while chunk := list(islice(examples, CHUNK_EXAMPLES)):
            tokens = pa.array([example.parts for example in chunk], pa.large_list(pa.large_string()))
            tags = pa.LargeListArray.from_arrays(tokens.offsets, pa.array(label_numbers(chunk, facts.labels)))
            chunks.append(pa.table([tokens, tags], names=["tokens", "tags"]))
        self._sentences = concatenate(chunks, facts)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return int(self._sentences.num_rows)

    @property
    def tags(self) -> NDArray[np.int64]:
        """Tag numbers (tokens,) of all sentences, one after the other."""
        return np.asarray(pc.list_flatten(self._sentences["tags"]), dtype=np.int64)

    def sentence(self, position: int) -> tuple[list[str], list[int]]:
        """Return the tokens of a sentence and their tag numbers."""
        tokens, tags = (column[int(position)].as_py() for column in self._sentences.columns)
        return tokens, tags
