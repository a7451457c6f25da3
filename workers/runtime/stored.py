"""The records of a check's stages, as they were stored."""

from collections.abc import Iterator, Mapping, Sequence

from seatrial.store.records import read_records
from workers.families.contexts import Records
from workers.runtime.executor import Files


class StoredRecords(Mapping[str, Records]):
    """The records of finished stages, each read when it is first asked for.

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
        self._read: dict[str, Records] = {}

    def __getitem__(self, stage: str) -> Records:
        if stage not in self._read:
            read = read_records(self._store, self._digests[stage])
            self._read[stage] = read if read is None else read.slice(0, self._most.get(stage))
        return self._read[stage]

    def __contains__(self, stage: object) -> bool:
        # A mapping's own way is to read it.
        return stage in self._digests

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)
