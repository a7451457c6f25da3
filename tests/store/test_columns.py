"""Records that are read column by column are those that are read whole, wherever they lie."""

import os
import tempfile

import pyarrow as pa
import pytest

from seatrial.statistics.samples import Sample
from seatrial.store import columns
from seatrial.store.columns import ColumnFile, read_by_column
from seatrial.store.records import read_records, to_parquet
from workers.runtime.stored import StoredRecords

ROWS = 300
TABLE = pa.table(
    {
        "example_id": range(ROWS),
        "errored": [number % 7 == 3 for number in range(ROWS)],
        "score": [None if number % 7 == 3 else number / ROWS for number in range(ROWS)],
        "right": [None if number % 7 == 3 else number % 2 == 0 for number in range(ROWS)],
        "text": [None if number % 5 else f"text {number}" for number in range(ROWS)],
        "scores": [None if number % 7 == 3 else [number / ROWS, 0.5] for number in range(ROWS)],
        "nothing": pa.nulls(ROWS),
    }
)


class Parts:
    """A store of a table's shards, by their first row."""

    def read_bytes(self, digest: str) -> bytes:
        return to_parquet(TABLE.slice(int(digest), 3))


DIGESTS = [str(first) for first in range(0, ROWS, 3)]


@pytest.fixture(params=[0, 10**9], ids=["in a file", "in memory"])
def held(request, monkeypatch) -> bool:
    monkeypatch.setattr(columns, "HELD_BYTES", request.param)
    return bool(request.param)


def test_columns_are_those_of_the_whole(held) -> None:
    found, whole = read_by_column(Parts(), DIGESTS), read_records(Parts(), DIGESTS)
    assert isinstance(found, ColumnFile) is not held
    assert whole.equals(TABLE)
    assert (found.num_rows, found.column_names) == (ROWS, TABLE.column_names)
    for name in TABLE.column_names:
        assert found.column(name).equals(whole.column(name))
    with pytest.raises(KeyError):
        found.column("never")


def test_a_sample_of_a_file_is_one_of_the_table(held, monkeypatch) -> None:
    found, expected = Sample(read_by_column(Parts(), DIGESTS)), Sample(TABLE)
    # No room to keep anything: each column is read again.
    monkeypatch.setattr("seatrial.statistics.samples.KEPT_BYTES", 0)
    assert (found.size, found.valid) == (expected.size, expected.valid) == (ROWS, ROWS - 43)
    for _ in range(2):
        for name in ("example_id", "score", "right", "scores", "text"):
            assert found[name].dtype == expected[name].dtype
            assert found[name].tolist() == expected[name].tolist()
    assert found.has("score")
    assert not found.has("never")


def test_stages_are_read_either_way_and_cut_where_a_look_takes_fewer(held) -> None:
    done = StoredRecords({"attack": DIGESTS, "begun": []}, Parts(), {"attack": 100})
    assert done.by_column("attack").column("text").equals(TABLE["text"][:100])
    assert done["attack"].equals(TABLE[:100])
    assert (done.by_column("begun"), done.by_column("never"), "begun" in done) == (None, None, True)
    whole = StoredRecords({"attack": DIGESTS}, Parts())
    assert whole.by_column("attack").num_rows == ROWS
    assert whole["attack"].equals(TABLE)
    assert whole.each_by_column()["attack"].column("score").equals(TABLE["score"])


def test_a_file_has_no_name_and_ends_with_its_records(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = ColumnFile([TABLE])
    assert list(tmp_path.iterdir()) == []
    number = found._file.fileno()
    found.column("score")
    del found
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)
