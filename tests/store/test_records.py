import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seatrial.store.records import iter_records, parquet_pieces, to_parquet


def table(rows: int, image_bytes: int) -> pa.Table:
    return pa.table(
        {
            "example_id": pa.array(range(rows), pa.int64()),
            "text": [f"t{n % 7}" if n % 5 else None for n in range(rows)],
            "scores": pa.array([[n / 3, 1.0] for n in range(rows)], pa.list_(pa.float32())),
            "image": pa.array([n.to_bytes(4, "big") * (image_bytes // 4) for n in range(rows)], pa.large_binary()),
        }
    )


@pytest.mark.parametrize(("rows", "image_bytes"), [(0, 4), (1, 4), (1024, 4), (1025, 4), (4500, 16_384)])
def test_a_file_is_the_same_bytes_however_its_rows_come(rows: int, image_bytes: int) -> None:
    whole = table(rows, image_bytes)
    pieces = [whole.slice(at, 333) for at in range(0, rows, 333)] or [whole]
    data = b"".join(parquet_pieces(pieces))
    assert data == to_parquet(whole)
    assert pq.read_table(io.BytesIO(data)).equals(whole)


def test_rows_that_are_small_are_grouped_as_pyarrow_would() -> None:
    whole, buffer = table(70_000, 4), io.BytesIO()
    pq.write_table(whole, buffer, compression="zstd", row_group_size=65_536)
    assert to_parquet(whole) == buffer.getvalue()


def test_no_more_than_a_group_of_large_rows_is_read_ahead() -> None:
    read = []

    def tables() -> Iterator[pa.Table]:
        for at in range(0, 6000, 100):
            read.append(at)
            yield whole.slice(at, 100)

    whole = table(6000, 16_384)
    pieces = parquet_pieces(tables())
    next(pieces)
    assert len(read) < 12
    next(pieces)
    assert len(read) < 24


class Kept:
    def __init__(self, *tables: pa.Table) -> None:
        self._files = {str(n): to_parquet(one) for n, one in enumerate(tables)}

    def read_bytes(self, digest: str) -> bytes:
        return self._files[digest]


@pytest.mark.parametrize("offset", [0, 1, 10, 4106, 9999, 10_009, 10_010, 20_000])
def test_rows_are_read_from_anywhere(offset: int) -> None:
    whole = table(10_010, 4)
    store = Kept(whole.slice(0, 10), whole.slice(10, 9990), whole.slice(10_000))
    assert pa.concat_tables(iter_records(store, ["0", "1", "2"], offset=offset)).equals(whole.slice(offset))
