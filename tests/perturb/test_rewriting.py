"""Files rewritten: what is no text stays, to the byte where the format allows."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.perturb.rewriting import (
    Copy,
    Parts,
    Rewriting,
    rewrite_conllu,
    rewrite_csv,
    rewrite_jsonl,
    rewrite_lines,
)
from app.perturb.rewriting_parquet import rewrite_parquet
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.perturb import Cell
from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.texts.csv_rows import read_csv
from seatrial.ingest.texts.examples import read_examples
from seatrial.store.settings import Settings

LIMITS = Settings()
CELLS = (Cell("visual", 0.5, 0), Cell("truncate", 0.2, 1))

CONLLU = (
    "# newdoc id = weblog\n"
    "# sent_id = 1\n"
    "# text = Don't leave.\n"
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
    "3\tleave\tleave\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n"
    "3.1\tleave\t_\t_\t_\t_\t_\t_\t0:x\t_\n"
    "4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_\n"
    "\n"
    "# sent_id = 2\n"
    "1\tleave\tleave\tNOUN\tNN\t_\t0\troot\t_\t_\n"
)


def upper(number: int, parts: Parts, is_tagged: bool) -> Iterator[Copy]:
    """One copy, in capitals."""
    yield Copy(CELLS[0], tuple(part.upper() for part in parts))


def twice(number: int, parts: Parts, is_tagged: bool) -> Iterator[Copy]:
    """Two copies, which tell what they were made from."""
    for cell in CELLS:
        yield Copy(cell, tuple(f"{part}/{number}{cell.draw}{'t' if is_tagged else ''}" for part in parts))


def rewritten(rewrite: object, data: bytes, how: Rewriting) -> bytes:
    sink = io.BytesIO()
    rewrite(io.BytesIO(data), sink, how)  # type: ignore[operator]
    return sink.getvalue()


def plan(change: object = upper, *, notes: bool = False, **named: str) -> Rewriting:
    return Rewriting(change, None, named, notes, LIMITS)  # type: ignore[arg-type]


def test_lines_keep_their_ends() -> None:
    assert rewritten(rewrite_lines, b"one\r\n\ntwo", plan()) == b"ONE\r\n\nTWO"
    assert rewritten(rewrite_lines, b"one\r\ntwo", plan(twice)) == b"one/00\r\none/01\r\ntwo/10\ntwo/11"
    assert rewritten(rewrite_lines, b"", plan()) == b""


def test_objects_keep_their_other_fields_in_their_order() -> None:
    line = '{"id": 7, "text": "café", "label": [1.5, null], "zoë": {"a": true}}\n\n'.encode()
    assert (
        rewritten(rewrite_jsonl, line, plan())
        == '{"id": 7, "text": "CAFÉ", "label": [1.5, null], "zoë": {"a": true}}\n'.encode()
    )


def test_half_a_surrogate_pair_in_another_field_stays() -> None:
    line = b'{"text": "a", "note": "\\ud83d"}\n'
    assert json.loads(rewritten(rewrite_jsonl, line, plan())) == {"text": "A", "note": "\ud83d"}


def test_notes_tell_how_a_row_was_perturbed() -> None:
    rows = rewritten(rewrite_jsonl, b'{"text": "a"}\n{"text": "b"}', plan(twice, notes=True)).splitlines()
    assert [json.loads(row) for row in rows] == [
        {"text": f"{text}/{number}{cell.draw}", **cell._asdict()} for number, text in enumerate("ab") for cell in CELLS
    ]
    table = rewritten(rewrite_csv, b"text,label\na,1\n", plan(notes=True))
    assert table == b"text,label,attacker,level,draw\nA,1,visual,0.5,0\n"
    with pytest.raises(ContentError, match="'level' already"):
        rewritten(rewrite_jsonl, b'{"text": "a", "level": 1}', plan(notes=True))


@pytest.mark.parametrize(
    ("row", "perturbed"),
    [
        ({"premise": "a", "hypothesis": "b", "text": "c"}, ("premise", "hypothesis")),
        ({"tokens": ["a", "b"], "text": "a b", "tags": [0, 1]}, ("tokens",)),
        ({"text": "a", "tags": ["b"]}, ("text",)),
    ],
    ids=["pair", "tokens", "text"],
)
def test_columns_tell_what_is_perturbed(row: dict[str, object], perturbed: tuple[str, ...]) -> None:
    found = json.loads(rewritten(rewrite_jsonl, json.dumps(row).encode(), plan()))
    assert tuple(name for name in row if found[name] != row[name]) == perturbed


def test_columns_may_have_other_names() -> None:
    row = b'{"text": "a", "review": "b"}'
    assert json.loads(rewritten(rewrite_jsonl, row, plan(text="review"))) == {"text": "a", "review": "B"}
    assert rewritten(rewrite_csv, b"a;b;label\nx;y;1\n", plan(premise="b", hypothesis="a")) == b"a;b;label\nX;Y;1\n"


@pytest.mark.parametrize(
    ("rewrite", "data", "told"),
    [
        (rewrite_jsonl, b'{"text": "a"}\n{"text": null}', "Line 2, column 'text': the text is missing"),
        (rewrite_jsonl, b'{"text": "a"}\n[1]', "Line 2 is a JSON array"),
        (rewrite_jsonl, b'{"review": "a"}', "Line 1 has no column 'text'"),
        (rewrite_jsonl, b'{"tokens": ["a", 1]}', "Line 1, column 'tokens', item 1: the token is an integer"),
        (rewrite_jsonl, b'{"tokens": ["a", "\\t "]}', "Line 1, column 'tokens', item 1: the token is empty"),
        (rewrite_jsonl, b'{"text": "\\ud83d"}', "Line 1, column 'text': the text holds half of a surrogate"),
        (rewrite_csv, b"text,label\na,1\nb\n", "Line 3 has 1 cells"),
        (rewrite_csv, b"tokens,tags\na,1\n", "no lists of tokens"),
        (rewrite_lines, b"a\n\xff\n", "Line 2 is not UTF-8"),
        (rewrite_conllu, b"1\ta\n", "Line 1 has 2 columns"),
        (rewrite_conllu, CONLLU.replace("2\tn't", "7\tn't").encode(), "Line 6 has the id '7', expected 2"),
        (rewrite_conllu, b"1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n2\t_\t_\t_\t_\t_\t_\t_\t_\t_\n", "its text was left out"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or (value if isinstance(value, str) else ""),
)
def test_what_is_wrong_is_told_with_its_place(rewrite: object, data: bytes, told: str) -> None:
    with pytest.raises(ContentError, match=told.replace("[", r"\[")):
        rewritten(rewrite, data, plan())


def test_conllu_changes_forms_of_words_and_nothing_else() -> None:
    found = rewritten(rewrite_conllu, CONLLU.encode(), plan()).decode()
    expected = CONLLU
    for before, after in (("1\tDo\t", "1\tDO\t"), ("2\tn't\t", "2\tN'T\t"), ("\n3\tleave\t", "\n3\tLEAVE\t")):
        expected = expected.replace(before, after)
    assert found == expected.replace("# sent_id = 2\n1\tleave", "# sent_id = 2\n1\tLEAVE")


def test_copies_of_a_sentence_are_sentences_with_its_tags(tmp_path: Path) -> None:
    path = tmp_path / "copies.conllu"
    path.write_bytes(rewritten(rewrite_conllu, CONLLU.encode(), plan(twice, notes=True)))
    manifest = DatasetManifest(name="d", version="1", task="token-classification")
    examples = list(read_examples(path, "conllu", manifest, None, LIMITS))
    assert [one.parts for one in examples] == [
        tuple(f"{word}/{number}{draw}t" for word in words)
        for number, words in enumerate((("Do", "n't", "leave", "."), ("leave",)))
        for draw in (0, 1)
    ]
    assert [one.labels for one in examples[1:3]] == [("AUX", "PART", "VERB", "PUNCT"), ("NOUN",)]
    assert path.read_text().count("# noise = truncate 0.2 1\n") == 2


def test_what_stands_around_sentences_stays() -> None:
    lone = "# a comment\n\n\n# more\n"
    assert rewritten(rewrite_conllu, lone.encode(), plan()) == lone.encode()
    windows = CONLLU.replace("\n", "\r\n")
    assert rewritten(rewrite_conllu, windows.encode(), plan()).count(b"\r\n") == windows.count("\r\n")


_CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(
    rows=st.lists(st.tuples(_CELL, _CELL), min_size=1, max_size=4),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(deadline=None)
def test_a_csv_file_reads_back_with_other_texts(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str, end: str
) -> None:
    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    lines = [f"text{delimiter}note", *(f"{quoted(text)}{delimiter}{quoted(note)}" for text, note in rows)]
    path = tmp_path_factory.mktemp("csv") / "out.csv"
    path.write_bytes(rewritten(rewrite_csv, (end.join(lines) + end).encode(), plan()))
    found = [row.values for row in read_csv(path, {"text": "text", "label": "note"}, LIMITS)]
    assert found == [(text.upper(), note) for text, note in rows]


def test_parquet_keeps_columns_types_and_metadata(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int16()), ("text", pa.large_string()), ("label", pa.dictionary(pa.int8(), pa.string()))],
        metadata={"huggingface": "{}"},
    )
    labels = pa.array(["a", "b", None]).dictionary_encode().cast(schema.field("label").type)
    table = pa.table([pa.array([3, 1, 2], pa.int16()), pa.array(["x", "", "z"], pa.large_string()), labels], schema)
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)
    with target.open("wb") as sink:
        rewrite_parquet(source, sink, plan(twice, notes=True))
    found = pq.read_table(target)
    assert found.schema.remove(3).remove(3).remove(3).equals(schema)
    assert found.schema.metadata[b"huggingface"] == b"{}"
    assert found.column("text").to_pylist() == ["x/00", "x/01", "/10", "/11", "z/20", "z/21"]
    assert found.column("label").to_pylist() == ["a", "a", "b", "b", None, None]
    assert found.column("draw").to_pylist() == [0, 1] * 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.list_(pa.string()), ["a", "b"]), (pa.large_list(pa.large_string()), ["a"])],
    ids=["list", "large list"],
)
def test_parquet_holds_tokens_too(tmp_path: Path, kind: object, value: list[str]) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"tokens": pa.array([value] * 200, kind), "tags": [[0]] * 200}), source)
    with target.open("wb") as sink:
        rewrite_parquet(source, sink, plan())
    found = pq.read_table(target)
    assert found.column("tokens").to_pylist() == [[one.upper() for one in value]] * 200
    assert found.schema.field("tokens").type == kind


def test_dictionary_texts_become_strings(tmp_path: Path) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"text": pa.array(["a", "b"]).dictionary_encode()}), source)
    with target.open("wb") as sink:
        rewrite_parquet(source, sink, plan())
    assert pq.read_table(target).column("text").to_pylist() == ["A", "B"]


def test_parquet_without_texts_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": [1, 2]}), source)
    with pytest.raises(ContentError, match="'text' has type int64"):
        rewrite_parquet(source, io.BytesIO(), plan())
    pq.write_table(pa.table({"text": ["a", None]}), source)
    with pytest.raises(ContentError, match=r"Row 1 \(counted from 0\), column 'text': the text is missing"):
        rewrite_parquet(source, io.BytesIO(), plan())
