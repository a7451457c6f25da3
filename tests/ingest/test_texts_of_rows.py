import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.texts.conllu_rows import read_conllu
from seatrial.ingest.texts.csv_rows import read_csv
from seatrial.ingest.texts.jsonl_rows import read_jsonl
from seatrial.ingest.texts.labels import LabelColumn
from seatrial.store.settings import Settings
from tests.ingest.builders import csv_table

LIMITS = Settings()
AB = {"text": "a", "label": "b"}


def _csv(path: Path, data: bytes) -> list[tuple[int, tuple[str, ...]]]:
    path.write_bytes(data)
    return [tuple(row) for row in read_csv(path, AB, LIMITS)]


CELLS = st.text(st.sampled_from("a\" ,;\t\n\r'\\é🧑"), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=5), quoting=st.sampled_from([0, 1]))
def test_csv_is_read_as_arrow_reads_it(tmp_path: Path, rows: list[tuple[str, str]], quoting: int) -> None:
    data = csv_table(["a", "b"], rows, quoting=quoting)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    convert = pa.csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()}, strings_can_be_null=False)
    table = pa.csv.read_csv(io.BytesIO(data), parse_options=parse, convert_options=convert)
    assert [values for _, values in _csv(tmp_path / "a", data)] == [tuple(row.values()) for row in table.to_pylist()]


def test_csv_rows_know_the_line_they_begin_in(tmp_path: Path) -> None:
    data = b'\n\na,b\r\n"1\n\n2",x\r\n\r\n3,"y\n"\n4,z'
    assert _csv(tmp_path / "a", data) == [(4, ("1\n\n2", "x")), (8, ("3", "y\n")), (10, ("4", "z"))]


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("a,b", ","),
        ("b,a", ","),
        ("a;b", ";"),
        ("a\tb", "\t"),
        ('"a";"b"', ";"),
        (" a , b ", ","),
        ("with, comma;a;b", ";"),
        ("with; semicolon\ta\tb", "\t"),
        ("b,a,c;d;e;f", ","),
    ],
)
def test_the_header_shows_the_delimiter(tmp_path: Path, header: str, delimiter: str) -> None:
    names = [name.strip(' "') for name in header.split(delimiter)]
    row = delimiter.join(f"value of {name}" for name in names).encode()
    assert _csv(tmp_path / "a", header.encode() + b"\n" + row) == [(2, ("value of a", "value of b"))]


def test_columns_nobody_wants_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"a": "x", "b": 1, "c": {"a": [NaN, null, "\\ud800"]}}\n \n{"b": 2, "a": "y"}')
    assert [tuple(row) for row in read_jsonl(path, AB, LIMITS)] == [(1, ("x", 1)), (3, ("y", 2))]
    assert _csv(path, b"id,a,b\n,x,0") == [(2, ("x", "0"))]


def test_words_of_a_treebank(tmp_path: Path) -> None:
    path = tmp_path / "a"
    blanks, eight = "\t_" * 5, "\t_" * 8
    path.write_bytes(
        f"# text = du\r\n1-2\tdu{eight}\r\n1\tde\tde\tADP\tP{blanks}\r\n2\tle le\tle\tDET\tD{blanks}\r\n"
        f'2.1\tx{eight}\r\n\r\n\r\n#\r\n1\t#\t#\tSYM\t"{blanks}'.encode()
    )
    tokens = {"tokens": "FORM"}
    rows = [tuple(row) for row in read_conllu(path, {**tokens, "tags": "tags"}, LIMITS)]
    assert rows == [(3, (["de", "le le"], ["ADP", "DET"])), (9, (["#"], ["SYM"]))]
    rows = [tuple(row) for row in read_conllu(path, {**tokens, "tags": "xpos"}, LIMITS)]
    assert rows == [(3, (["de", "le le"], ["P", "D"])), (9, (["#"], ['"']))]


def test_names_are_taken_as_listed_and_else_without_spaces_around() -> None:
    column = LabelColumn("label", [" odd", "even", "1.5", "nan"])
    assert [column.read(value, "Line 1") for value in (" odd", "even ", "1.5", "nan")] == [" odd", "even", "1.5", "nan"]
    free = LabelColumn("label", None)
    assert [free.read(value, "Line 1") for value in ("x", " x", "y\n", "true")] == ["x", "x", "y", "true"]


def test_numbers_are_names_only_where_there_are_no_numbers() -> None:
    assert LabelColumn("tags", None, only_names=True).read("1", "Line 1") == "1"
    assert LabelColumn("tags", None).read("1", "Line 1") == 1


def test_an_empty_label_is_missing_and_no_name_among_numbers() -> None:
    column = LabelColumn("label", None)
    column.read("1", "Line 1")
    with pytest.raises(ContentError, match="Line 2, column 'label': the label is missing"):
        column.read("", "Line 2")
