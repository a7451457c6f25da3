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
    """

    def __init__(self, digests: Mapping[str, Sequence[str]], store: Files) -> None:
        self._digests = digests
        self._store = store
        self._read: dict[str, Records] = {}

    def __getitem__(self, stage: str) -> Records:
        if stage not in self._read:
            self._read[stage] = read_records(self._store, self._digests[stage])
        return self._read[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)
