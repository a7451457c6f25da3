"""What the API accepts is what a worker reads: the same number of examples, the same texts, the same labels."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.datasets.inspection import inspect_dataset
from seatrial.contracts.datasets import DatasetFacts
from seatrial.ingest.texts.labels import _DECIMAL, _MISSING, _NUMBER
from seatrial.noise.unspaced import count_words
from seatrial.store.settings import Settings
from tests.ingest.builders import conllu, csv_table, dataset_manifest, jsonl_table, parquet_table
from tests.ingest.test_datasets import parquet
from workers.data import TaggedDataset, TextDataset
from workers.data.loading import load_tagged_dataset, load_text_dataset
from workers.errors import DataError

LIMITS = Settings()


def _facts(path: Path, data: bytes, **manifest: Any) -> DatasetFacts:
    path.write_bytes(data)
    return inspect_dataset(path, "data", dataset_manifest(**manifest), LIMITS)


def _load(path: Path, data: bytes, task: str = "text-classification", **manifest: Any) -> TextDataset:
    facts = _facts(path, data, task=task, **manifest)
    loaded = load_text_dataset(dataset_manifest(task=task, **manifest), facts, path, limits=LIMITS)
    labels = loaded.labels
    counts = Counter(labels.tolist()) if labels.ndim == 1 else dict(enumerate(labels.sum(axis=0).tolist()))
    assert {str(label): count for label, count in counts.items() if count} == facts.label_counts
    assert (len(labels), loaded.label_names) == (facts.examples, facts.labels)
    texts = loaded.texts(range(len(labels)))
    words = [sum(map(count_words, (text,) if isinstance(text, str) else text)) for text in texts]
    assert facts.mean_words == pytest.approx(np.mean(words))
    return loaded


def _load_tagged(path: Path, data: bytes, **manifest: Any) -> TaggedDataset:
    task = "token-classification"
    facts = _facts(path, data, task=task, **manifest)
    loaded = load_tagged_dataset(dataset_manifest(task=task, **manifest), facts, path, limits=LIMITS)
    sentences = [loaded.sentence(position) for position in range(len(loaded))]
    counts = Counter(tag for _, tags in sentences for tag in tags)
    assert {str(tag): count for tag, count in counts.items()} == facts.label_counts
    assert loaded.tags.tolist() == [tag for _, tags in sentences for tag in tags]
    assert len(loaded) == facts.examples
    assert facts.mean_words == pytest.approx(np.mean([len(tokens) for tokens, _ in sentences]))
    return loaded


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts") / "data"


# Everything a user may write, with what breaks tables made likely: quotes, delimiters, line breaks, emoji, RTL.
_AWKWARD = [
    '"',
    '""',
    ",",
    "\t",
    ";",
    "\n",
    "\r\n",
    "\r",
    "\ufeff",
    "\u2028",
    "\x0b",
    "🧑‍🚀",
    "שלום",
    "مرحبا",
    "\\",
    "{",
    "#",
]
_texts = st.lists(
    st.one_of(st.sampled_from(_AWKWARD), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    max_size=8,
).map("".join)
TEXTS = _texts.filter(lambda text: bool(text.strip()))
NAMES = TEXTS.map(lambda text: text.strip()[:50].strip()).filter(
    lambda name: bool(name) and not (_NUMBER.fullmatch(name) or _DECIMAL.fullmatch(name) or name in _MISSING)
)
LABELS = st.one_of(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.lists(NAMES, min_size=1, max_size=3).flatmap(lambda names: st.lists(st.sampled_from(names), min_size=1)),
)
FORMATS = ["comma", "tab", "semicolon", "quoted", "jsonl", "jsonl-ascii", "parquet"]
round_trip = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _write(layout: str, header: list[str], rows: list[tuple[Any, ...]]) -> bytes:
    if layout == "parquet":
        return parquet_table(header, rows, row_group_size=2)
    if layout.startswith("jsonl"):
        return jsonl_table(header, rows, ensure_ascii=layout == "jsonl-ascii")
    delimiter = {"tab": "\t", "semicolon": ";"}.get(layout, ",")
    return csv_table(header, rows, delimiter=delimiter, quoting=1 if layout == "quoted" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("layout", FORMATS)
@round_trip
@given(data=st.data())
def test_texts_come_back_as_they_were_written(path: Path, layout: str, data: st.DataObject) -> None:
    labels = data.draw(LABELS)
    texts = data.draw(st.lists(TEXTS, min_size=len(labels), max_size=len(labels)))
    loaded = _load(path, _write(layout, ["text", "label"], list(zip(texts, labels, strict=True))))
    assert loaded.texts(range(len(texts))) == texts
    order = sorted(set(labels))
    numbers = [order.index(label) if isinstance(label, str) else label for label in labels]
    assert loaded.labels.tolist() == numbers
    assert loaded.label_names == (order if isinstance(order[0], str) else None)


@pytest.mark.slow
@pytest.mark.parametrize("layout", FORMATS)
@round_trip
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 2)), min_size=1, max_size=5))
def test_pairs_come_back_as_they_were_written(path: Path, layout: str, pairs: list[tuple[str, str, int]]) -> None:
    header = ["premise", "hypothesis", "label"]
    loaded = _load(path, _write(layout, header, pairs), "text-pair-classification", labels=["yes", "maybe", "no"])
    assert loaded.texts(range(len(pairs))) == [pair[:2] for pair in pairs]
    assert loaded.labels.tolist() == [pair[2] for pair in pairs]


@pytest.mark.parametrize("layout", ["jsonl", "parquet", "comma"])
@round_trip
@given(rows=st.lists(st.tuples(TEXTS, st.lists(st.integers(0, 6), unique=True)), min_size=1, max_size=6))
def test_several_labels_become_zeros_and_ones(path: Path, layout: str, rows: list[tuple[str, list[int]]]) -> None:
    names = [f"class {number}" for number in range(7)]
    written = [(text, str(labels) if layout == "comma" else labels) for text, labels in rows]
    loaded = _load(path, _write(layout, ["text", "labels"], written), "multi-label-classification", labels=names)
    assert loaded.labels.dtype == np.int64
    assert loaded.labels.shape == (len(rows), 7)
    assert [np.flatnonzero(row).tolist() for row in loaded.labels] == [sorted(labels) for _, labels in rows]
    assert loaded.texts(range(len(rows))) == [text for text, _ in rows]


TOKENS = TEXTS.map(lambda text: "".join(text.split("\t")).replace("\n", "").replace("\r", "")).filter(str.strip)
SENTENCES = st.lists(
    st.lists(st.tuples(TOKENS, st.sampled_from(["NOUN", "VERB", "``", ","])), min_size=1, max_size=5).map(
        lambda pairs: (["x", *(token for token, _ in pairs)], ["X", *(tag for _, tag in pairs)])
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["jsonl", "parquet", "upos", "xpos"])
@round_trip
@given(sentences=SENTENCES)
def test_tagged_sentences_come_back_as_they_were_written(
    path: Path, layout: str, sentences: list[tuple[list[str], list[str]]]
) -> None:
    if layout in ("upos", "xpos"):
        data = conllu(sentences, 3 if layout == "upos" else 4)
        loaded = _load_tagged(path, data, columns={"tags": layout})
    else:
        loaded = _load_tagged(path, _write(layout, ["tokens", "tags"], sentences))
    names = loaded.label_names
    assert names == sorted({tag for _, tags in sentences for tag in tags})
    for position, (tokens, tags) in enumerate(sentences):
        assert loaded.sentence(position) == (tokens, [names.index(tag) for tag in tags])


def test_texts_are_given_in_the_order_asked_for_across_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.data.texts.CHUNK_EXAMPLES", 3)
    rows = [(f"text {number}", number % 2) for number in range(10)]
    loaded = _load(path, _write("jsonl", ["text", "label"], rows))
    assert loaded.texts([9, 0, 4, 4]) == ["text 9", "text 0", "text 4", "text 4"]
    assert loaded.texts([]) == []
    assert loaded.texts(np.asarray([2])) == ["text 2"]


def test_numbers_of_many_spellings_are_the_same_classes(path: Path) -> None:
    spellings = [0, 1.0, "2", " 3 ", "+4", "05"]
    loaded = _load(path, _write("jsonl", ["text", "label"], [("x", label) for label in spellings]))
    assert loaded.labels.tolist() == [0, 1, 2, 3, 4, 5]
    floats = pa.table({"text": ["a", "b"], "label": pa.array([1.0, 0.0])})
    assert _load(path, parquet(floats)).labels.tolist() == [1, 0]


def test_gaps_between_class_numbers_stay(path: Path) -> None:
    assert _facts(path, b"text,label\na,7\nb,2\n", task="text-classification").classes == 2
    loaded = _load(path, b"text,label\na,7\nb,2\n")
    assert loaded.labels.tolist() == [7, 2]
    several = _load(path, b'{"text": "a", "labels": [4]}\n', "multi-label-classification")
    assert several.labels.tolist() == [[0, 0, 0, 0, 1]]
    tagged = _load_tagged(path, b'{"tokens": ["a"], "tags": [2]}\n')
    assert (tagged.label_names, tagged.sentence(0)) == (["0", "1", "2"], (["a"], [2]))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_strings_of_every_kind(path: Path, kind: Any) -> None:
    table = pa.table(
        {"t": pa.array(["ü", "b", "c"], pa.string()).cast(kind), "label": pa.array(["y", "x", "y"]).cast(kind)}
    )
    loaded = _load(path, parquet(table), columns={"text": "t"}, labels=["y", "x"])
    assert (loaded.texts([2, 0]), loaded.labels.tolist()) == (["c", "ü"], [0, 1, 0])


def test_another_file_than_was_inspected_is_told(path: Path) -> None:
    manifest = dataset_manifest(task="text-classification")
    facts = _facts(path, b"text,label\na,x\nb,y\n", task="text-classification")
    for data, code in (
        (b"text,label\na,x\n", "dataset-changed"),
        (b"text,label\na,x\nb,z\n", "manifest-mismatch"),
        (b"text,label\n", "dataset-changed"),
        (b"text\na\n", "invalid-content"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError) as caught:
            load_text_dataset(manifest, facts, path, limits=LIMITS)
        assert caught.value.problem.code == code
    numbers = _facts(path, b"text,label\na,0\nb,1\n", task="text-classification")
    path.write_bytes(b"text,label\na,x\nb,y\n")
    with pytest.raises(DataError, match="new"):
        load_text_dataset(manifest, numbers, path, limits=LIMITS)
