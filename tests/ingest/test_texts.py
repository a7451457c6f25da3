"""How large, how long and how many texts may be, and what inspecting them takes."""

import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.datasets.inspection import inspect_dataset
from seatrial.ingest.inspection.errors import ContentError, InspectionError, UploadTooLargeError
from seatrial.store.settings import Settings
from tests.ingest.builders import conllu, csv_table, dataset_manifest, jsonl_table, parquet_table

ONE, MANY, TAGS = "text-classification", "multi-label-classification", "token-classification"


def _inspect(path: Path, data: bytes, task: str = ONE, limits: Settings | None = None) -> Any:
    path.write_bytes(data)
    return inspect_dataset(path, "upload", dataset_manifest(task=task), limits or Settings())


def test_as_many_and_as_long_as_allowed(tmp_path: Path) -> None:
    limits = Settings(max_examples=3, max_text_chars=5)
    header = ["text", "label"]
    for write in (csv_table, jsonl_table, parquet_table):
        assert _inspect(tmp_path / "a", write(header, [("12345", 0)] * 3), limits=limits).examples == 3
        with pytest.raises(UploadTooLargeError, match="at most 5 are"):
            _inspect(tmp_path / "a", write(header, [("123456", 0)]), limits=limits)
        with pytest.raises(UploadTooLargeError, match=r"at most 20 are accepted|at most 5 are"):
            _inspect(tmp_path / "a", write(header, [("a", 0), ("1" * 21, 0)]), limits=limits)
        with pytest.raises(UploadTooLargeError, match=r"at most 3|more than 3"):
            _inspect(tmp_path / "a", write(header, [("1", 0)] * 4), limits=limits)
    assert _inspect(tmp_path / "a", conllu([(["12", "45"], ["X", "Y"])]), TAGS, limits).examples == 1
    for sentence in (["12", "456"], ["1", "2", "3", "4"]):
        with pytest.raises(UploadTooLargeError, match="5"):
            _inspect(tmp_path / "a", conllu([(sentence, ["X"] * len(sentence))]), TAGS, limits)


def test_a_matrix_of_several_labels_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.texts.MAX_MULTI_LABEL_VALUES", 100)
    assert _inspect(tmp_path / "a", b'{"text": "a", "labels": [99]}', MANY).examples == 1
    with pytest.raises(UploadTooLargeError, match="1 texts and 101 classes"):
        _inspect(tmp_path / "a", b'{"text": "a", "labels": [100]}', MANY)


def test_too_many_names_are_no_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.ingest.texts.labels.MAX_CLASSES", 10)
    names = csv_table(["text", "label"], [("a", f" name {number} ") for number in range(10)])
    assert _inspect(tmp_path / "a", names).classes == 10
    with pytest.raises(ContentError, match=r"Line 12.*more than 10 different names"):
        _inspect(tmp_path / "a", names + b"b,another\n")


ENDLESS = {
    "one line": (b"", b"all on one line "),
    "a quote left open": (b'text,label\na,0\n"b', b"c,1\n"),
    "a JSON line": (b'{"text": "', b"abc "),
    "a treebank": (b"# ", b"comment\t"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_memory_does_not_grow_with_what_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr("seatrial.ingest.texts.lines._OTHER_COLUMNS_BYTES", 2**18)
    start, more = ENDLESS[what]
    path = tmp_path / "endless"
    path.write_bytes(start + more * (2**23 // len(more)))
    manifest = dataset_manifest(task=TAGS if what == "a treebank" else ONE)
    tracemalloc.start()
    with pytest.raises(InspectionError, match="does not end within"):
        inspect_dataset(path, "endless", manifest, Settings(max_text_chars=1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Of a row of 256 KiB some copies, one at four bytes a character.
    assert peak < 3 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("write", [csv_table, jsonl_table, parquet_table])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "long"
    path.write_bytes(write(["text", "label"], [("word" * 2500 + str(number), number % 3) for number in range(2000)]))
    if write is not parquet_table:
        assert path.stat().st_size > 20 * 10**6
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    facts = inspect_dataset(path, "long", dataset_manifest(task=ONE), Settings())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (facts.examples, facts.classes) == (2000, 3)
    assert peak < 4 * 2**20
    assert pa.total_allocated_bytes() <= before
