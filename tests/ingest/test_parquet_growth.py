"""Parquet files of some kilobytes that would unpack to gigabytes: refused in a child with little memory and time."""

import base64
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.inspection import inspect_dataset
from seatrial.contracts.datasets import DatasetFacts
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.inspection.parquet_file import open_parquet, read_batches
from seatrial.ingest.inspection.parquet_footer import MAX_CHUNKS, MAX_SCHEMA_DEPTH
from seatrial.store.settings import Settings
from tests.bounded import MIB, bounded
from tests.ingest.builders import dataset_manifest, png

LIMITS = Settings()
TEXTS = "text-classification"


def _file(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{"compression": "zstd", "write_statistics": False, **options})
    return buffer.getvalue()


def _inspect(
    tmp_path: Path, data: bytes, *, extra_bytes: int = 384 * MIB, deadline_s: float = 30.0, **manifest: Any
) -> DatasetFacts | InspectionError:
    path = tmp_path / "upload"
    path.write_bytes(data)

    def inspect() -> DatasetFacts | InspectionError:
        try:
            return inspect_dataset(path, "upload", dataset_manifest(**manifest), LIMITS)
        except InspectionError as refusal:
            return type(refusal)(refusal.detail)

    return bounded(inspect, extra_bytes=extra_bytes, deadline_s=deadline_s)


def _named_often(value: Any, rows: int, kind: Any) -> Any:
    """A column whose rows all name one value, without writing it out."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], kind))


LARGE_PNG = png((8, 8)) + bytes(60 * MIB)
ONE_DICTIONARY = {"dictionary_pagesize_limit": 2**30}


@pytest.mark.drill
@pytest.mark.slow
def test_one_large_image_named_by_many_rows_is_read_once(tmp_path: Path) -> None:
    images = _named_often(LARGE_PNG, 64, pa.binary())
    data = _file(pa.table({"image": images, "label": np.arange(64) % 2}), **ONE_DICTIONARY)
    assert len(data) < 10_000
    facts = _inspect(tmp_path, data)
    assert isinstance(facts, DatasetFacts)
    assert (facts.examples, facts.shape) == (64, [3, 8, 8])


def test_a_large_image_in_many_row_groups_is_refused(tmp_path: Path) -> None:
    images = _named_often(LARGE_PNG, 64, pa.binary())
    table = pa.table({"image": images, "label": np.arange(64) % 2})
    refusal = _inspect(tmp_path, _file(table, row_group_size=8, **ONE_DICTIONARY))
    assert isinstance(refusal, InspectionError)
    assert "bomb" in refusal.detail


@pytest.mark.slow
def test_images_in_structs_stay_a_dictionary(tmp_path: Path) -> None:
    images = pa.StructArray.from_arrays([_named_often(LARGE_PNG, 64, pa.binary())], ["bytes"])
    data = _file(pa.table({"image": images, "label": np.arange(64) % 2}), **ONE_DICTIONARY)
    assert isinstance(_inspect(tmp_path, data), DatasetFacts)


@pytest.mark.parametrize("rows", [64, 4_000_000])
def test_texts_named_by_many_rows_are_counted(tmp_path: Path, rows: int) -> None:
    texts = _named_often("word " * 19_000 if rows > 64 else "x" * 33 * MIB, rows, pa.string())
    data = _file(pa.table({"text": texts, "label": np.arange(rows) % 2}), use_dictionary=True, **ONE_DICTIONARY)
    assert len(data) < 100_000
    refusal = _inspect(tmp_path, data, task=TEXTS)
    assert isinstance(refusal, InspectionError)


def test_lists_that_name_one_token_are_counted(tmp_path: Path) -> None:
    items = 8_000_000
    tokens = pa.ListArray.from_arrays(
        pa.array(np.arange(0, items + 1, 80_000), pa.int32()), _named_often("t" * 50_000, items, pa.string())
    )
    tags = pa.ListArray.from_arrays(tokens.offsets, pa.array(np.zeros(items, np.int8)))
    data = _file(pa.table({"tokens": tokens, "tags": tags}), **ONE_DICTIONARY)
    assert len(data) < 100_000
    refusal = _inspect(tmp_path, data, task="token-classification")
    assert isinstance(refusal, InspectionError)


@pytest.mark.slow
def test_one_list_of_a_hundred_million_items_is_refused(tmp_path: Path) -> None:
    items = 25_000_000
    tags = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.array(np.zeros(items, np.int8)))
    data = _file(pa.table({"text": ["a"], "labels": tags}))
    refusal = _inspect(tmp_path, data, task="multi-label-classification")
    assert isinstance(refusal, InspectionError)
    assert "row_group_size" in refusal.detail


@pytest.mark.slow
def test_repeated_prefixes_are_counted(tmp_path: Path) -> None:
    texts = pa.array(["word " * 18_000] * 2000)
    data = _file(
        pa.table({"text": texts, "label": np.arange(2000) % 2}),
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY", "label": "PLAIN"},
        data_page_size=2**40,
        write_batch_size=2**20,
    )
    assert len(data) < 200_000
    refusal = _inspect(tmp_path, data, task=TEXTS)
    assert isinstance(refusal, InspectionError)
    texts = pa.array([f"word {number}" for number in range(3000)])
    data = _file(
        pa.table({"text": texts, "label": np.arange(3000) % 2}),
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY", "label": "PLAIN"},
    )
    assert isinstance(_inspect(tmp_path, data, task=TEXTS), DatasetFacts)


@pytest.mark.drill
@pytest.mark.slow
def test_large_plain_pages_are_read_one_by_one(tmp_path: Path) -> None:
    encoded = [png((8, 8), seed=seed) + np.random.default_rng(seed).bytes(24 * MIB) for seed in range(5)]
    data = _file(
        pa.table({"image": encoded, "label": np.arange(5) % 2}),
        use_dictionary=False,
        write_batch_size=1,
        compression="none",
    )
    facts = _inspect(tmp_path, data, extra_bytes=160 * MIB)
    assert isinstance(facts, DatasetFacts)


def _varint(number: int, length: int = 0) -> bytes:
    """A number as Thrift writes it, padded to some bytes."""
    parts = []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    while len(parts) < length:
        parts[-1] |= 128
        parts.append(0)
    return bytes(parts)


@pytest.mark.parametrize("claim", [2**31 - 1, 2**30, 300 * MIB])
def test_a_page_that_claims_gigabytes_is_not_unpacked(tmp_path: Path, claim: int) -> None:
    schema = pa.schema([pa.field("text", pa.string(), nullable=False), pa.field("label", pa.int64(), nullable=False)])
    table = pa.table({"text": ["a" * 5000] * 3, "label": [0, 1, 0]}, schema)
    data = bytearray(_file(table, use_dictionary=False, compression="snappy", write_page_checksum=True))
    at = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset
    start = data.index(size := b"\x15\x00\x15" + _varint(2 * 15_012) + b"\x15", at)
    packed = start + len(size)
    checksum = packed + next(n for n in range(9) if data[packed + n] < 128) + 1
    # What the checksum leaves free takes the larger size.
    end = checksum + 1 + next(n for n in range(9) if data[checksum + 1 + n] < 128) + 1
    assert (data[checksum], data[end]) == (0x15, 0x1C)
    claimed = b"\x15\x00\x15" + _varint(2 * claim) + b"\x15"
    room = end - start - len(claimed)
    length = (int.from_bytes([data[packed] & 127], "little")) | (data[packed + 1] & 127) << 7
    data[start : end + 1] = claimed + _varint(length, room) + b"\x2c"
    refusal = _inspect(tmp_path, bytes(data), extra_bytes=192 * MIB, task=TEXTS)
    assert isinstance(refusal, InspectionError)
    assert "page" in refusal.detail or "bomb" in refusal.detail


def _with_footer(footer: bytes) -> bytes:
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _list_header(count: int, kind: int = 12) -> bytes:
    return bytes([0xF0 | kind]) + _varint(count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [900_000, 2**31])
@pytest.mark.parametrize("field", [2, 4, 5])
def test_footers_that_claim_many_parts_are_refused(tmp_path: Path, count: int, field: int) -> None:
    parts = b"\x00" * min(count, 1_000_000)
    footer = b"\x15\x02" + bytes([(field - 1) << 4 | 9]) + _list_header(count) + parts + b"\x00"
    refusal = _inspect(tmp_path, _with_footer(footer), extra_bytes=160 * MIB)
    assert isinstance(refusal, InspectionError)


@pytest.mark.slow
def test_many_column_chunks_are_refused(tmp_path: Path) -> None:
    chunk = b"\x26\x00\x00"
    group = b"\x19" + _list_header(MAX_CHUNKS // 2 + 1) + chunk * (MAX_CHUNKS // 2 + 1) + b"\x16\x00\x16\x02\x00"
    footer = b"\x15\x02\x39" + _list_header(2) + group * 2 + b"\x00"
    refusal = _inspect(tmp_path, _with_footer(footer), extra_bytes=160 * MIB)
    assert isinstance(refusal, InspectionError)
    assert "row_group_size" in refusal.detail


def test_wide_and_deep_schemas_are_refused(tmp_path: Path) -> None:
    wide = pa.table({f"c{number}": pa.array([0], pa.int8()) for number in range(12_000)})
    kind: Any = pa.int8()
    for _ in range(MAX_SCHEMA_DEPTH):
        kind = pa.struct([("x", kind)])
    deep = pa.table({"deep": pa.array([None], kind)})
    for table, what in ((wide, "columns"), (deep, "deep")):
        refusal = _inspect(tmp_path, _file(table, compression="none"))
        assert isinstance(refusal, InspectionError)
        assert what in refusal.detail


def _with_stored_schema(schema: bytes) -> bytes:
    table = pa.table({"text": ["a", "b"], "label": [0, 1]})
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(schema).decode()})
    return buffer.getvalue()


@pytest.mark.slow
def test_a_stored_schema_is_not_looked_at(tmp_path: Path) -> None:
    fields = [pa.field(f"f{number}", pa.int8(), metadata={"k": "v"}) for number in range(60_000)]
    data = _with_stored_schema(pa.schema(fields).serialize().to_pybytes())
    facts = _inspect(tmp_path, data, task=TEXTS, extra_bytes=64 * MIB)
    assert isinstance(facts, DatasetFacts)


def test_metadata_made_of_brackets_is_not_parsed(tmp_path: Path) -> None:
    for info in ("[" + "[]," * 5_000_000 + "0]", '{"info": ' * 100_000):
        table = pa.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({"huggingface": info})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, store_schema=False)
        facts = _inspect(tmp_path, buffer.getvalue(), task=TEXTS, extra_bytes=128 * MIB)
        assert isinstance(facts, DatasetFacts)


READ: list[Callable[[pa.Table], bytes]] = [
    lambda table: _file(table),
    lambda table: _file(table, use_dictionary=False),
    lambda table: _file(table, row_group_size=7),
    lambda table: _file(table, dictionary_pagesize_limit=100, data_page_size=50, write_batch_size=3),
    lambda table: _file(table, data_page_version="2.0", compression="none"),
    lambda table: _file(table, use_dictionary=False, column_encoding="DELTA_LENGTH_BYTE_ARRAY"),
    lambda table: _file(table, use_dictionary=["text"], dictionary_pagesize_limit=100, compression="gzip"),
]


@pytest.mark.parametrize("write", READ)
def test_what_is_read_is_what_arrow_reads(tmp_path: Path, write: Callable[[pa.Table], bytes]) -> None:
    random = np.random.default_rng(0)
    words = [f"word {number} ü" for number in random.integers(0, 12, 100)]
    table = pa.table(
        {
            "text": pa.array([None if number % 9 == 0 else word for number, word in enumerate(words)]),
            "large": pa.array(words, pa.large_string()),
            "kind": pa.array(words).dictionary_encode(),
            "struct": pa.array([{"bytes": word.encode(), "path": word} for word in words]),
            "list": pa.array([None if number % 11 == 0 else words[: number % 4] for number in range(100)]),
        }
    )
    if "DELTA" in str(write.__code__.co_consts):
        table = table.select(["text", "large"])
    path = tmp_path / "file"
    path.write_bytes(write(table))
    with open_parquet(path, LIMITS) as opened:
        batches = list(read_batches(opened, table.column_names, LIMITS))
    for name in table.column_names:
        assert [value for batch in batches for value in batch.column(name).to_pylist()] == table[name].to_pylist()


def test_class_names_that_are_stored_are_found(tmp_path: Path) -> None:
    info = {"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}
    table = pa.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({"huggingface": json.dumps(info)})
    facts = _inspect(tmp_path, _file(table), task=TEXTS)
    assert isinstance(facts, DatasetFacts)
    assert facts.labels == ["no", "yes"]


def test_values_outside_of_their_dictionary_are_refused(tmp_path: Path) -> None:
    words = [f"word {number}" for number in range(5)]
    table = pa.table({"text": pa.array(words, pa.string()), "label": [0, 1, 0, 1, 0]})
    data = _file(
        table.cast(pa.schema([pa.field("text", pa.string(), nullable=False), table.schema.field(1)])),
        use_dictionary=["text"],
        compression="none",
    )
    # Three bits each, eight at a time, behind the width: 0, 1, 2, 3, 4 and three that do not count.
    packed = bytes([3, 3, 0b10_001_000, 0b0_100_011_0, 0])
    assert data.count(packed) == 1
    wrong = data.replace(packed, bytes([3, 3, 0b10_001_111, 0b0_100_011_0, 0]))
    assert isinstance(_inspect(tmp_path, data, task=TEXTS), DatasetFacts)
    refusal = _inspect(tmp_path, wrong, task=TEXTS)
    assert isinstance(refusal, InspectionError)
    assert "outside of its dictionary" in refusal.detail


def test_a_histogram_of_a_wrong_length_does_not_end_the_process(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "label": [0, 1]})
    data = bytearray(_file(table, write_statistics=True))
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # The column is made a required one: then the histogram of its definition levels has one place too many.
    at = data.index(b"text", start) - 4
    assert data[at : at + 4] == bytes([0x25, 0x02, 0x18, 0x04])
    data[at + 1] = 0
    refusal = _inspect(tmp_path, bytes(data), task=TEXTS)
    assert isinstance(refusal, InspectionError)
