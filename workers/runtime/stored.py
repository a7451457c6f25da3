"""The records of a check's stages, as they were stored."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seatrial.statistics.samples import ByColumn
from seatrial.store.columns import ColumnFile, read_by_column
from seatrial.store.records import read_records
from workers.families.contexts import Records
from workers.runtime.executor import Files


class StoredRecords(Mapping[str, Records]):
    """The records of finished stages, each read when it is first asked for: whole, or column by column.

    Args:
        digests: Artifacts of each stage's shards, in order; stages in the order they were begun.
        store: Where they are.
        most: Stage to the examples that are taken of it, the first ones; of others, all.
    """

    def __init__(
        self, digests: Mapping[str, Sequence[str]], store: Files, most: Mapping[str, int] | None = None
    ) -> None:
        self._digests = digests
        self._store = store
        self._most = {} if most is None else most
        self._read: dict[str, Any] = {}

    def __getitem__(self, stage: str) -> Records:
        if stage not in self._read:
            read = read_records(self._store, self._digests[stage])
            self._read[stage] = read if read is None else read.slice(0, self._most.get(stage))
        elif isinstance(self._read[stage], ColumnFile):
            self._read[stage] = self._read[stage].table()
        return self._read[stage]

    def by_column(self, stage: str) -> ByColumn | None:
        """Return the records of a stage of which few columns are asked for at a time.

        None where there are none: it was not begun, or is begun and nothing is measured.
        """
        if stage not in self._read and stage in self._digests:
            found = self._read[stage] = read_by_column(self._store, self._digests[stage])
            if found is not None and found.num_rows > self._most.get(stage, found.num_rows):
                self._read[stage] = self[stage].slice(0, self._most[stage])
        return self._read.get(stage)

    def each_by_column(self) -> dict[str, ByColumn | None]:
        """Return those of every stage so, None of one that is begun and of which nothing is measured."""
        return {stage: self.by_column(stage) for stage in self}

    def __contains__(self, stage: object) -> bool:
        # A mapping's own way is to read it.
        return stage in self._digests

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)
