import gzip
import json
import pickle
import re
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.datasets.inspection import inspect_dataset
from app.datasets.texts import _TextStatistics
from app.web.services import Services
from seatrial.contracts.datasets import DatasetRead
from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.texts.examples import Example
from seatrial.store.settings import Settings
from tests.ingest.builders import (
    conllu,
    csv_table,
    dataset_manifest,
    jsonl_table,
    parquet_table,
    tarred,
    zipped,
)
from tests.ingest.test_datasets import parquet
from tests.uploads import assert_nothing_stored, npz, upload
from tests.web.test_problems import assert_problem

ONE = "text-classification"
PAIR = "text-pair-classification"
MANY = "multi-label-classification"
TAGS = "token-classification"


def _manifest(task: str = ONE, **more: Any) -> dict[str, Any]:
    return {"name": "texts", "version": "1", "task": task, **more}


def _facts(client: httpx.Client, data: bytes, task: str = ONE, **more: Any) -> dict[str, Any]:
    answer = upload(client, "datasets", _manifest(task, **more), data)
    assert answer.status_code == 201, answer.text
    return DatasetRead.model_validate(answer.json()).facts.model_dump(exclude_none=True)


def test_facts_of_reviews_in_every_format(client: httpx.Client) -> None:
    header, rows = (
        ["id", "review", "stars"],
        [(1, "So good.", "good"), (2, "Bad", "bad"), (3, "very\ngood, it is", "good")],
    )
    for name, layout, data in (
        ("comma", "csv", csv_table(header, rows)),
        ("tab", "csv", csv_table(header, rows, delimiter="\t")),
        ("semicolon", "csv", csv_table(header, rows, delimiter=";", lineterminator="\n")),
        ("bom", "csv", b"\xef\xbb\xbf" + csv_table(header, rows)),
        ("lines", "jsonl", jsonl_table(header, rows)),
        ("windows", "jsonl", b"\xef\xbb\xbf\n" + jsonl_table(header, rows).replace(b"\n", b"\r\n\r\n")),
        ("parquet", "parquet", parquet_table(header, rows)),
    ):
        about = {"name": name, "columns": {"text": "review", "label": "stars"}}
        assert _facts(client, data, **about) == {
            "format": layout,
            "examples": 3,
            "classes": 2,
            "label_counts": {"0": 1, "1": 2},
            "labels": ["bad", "good"],
            "mean_words": pytest.approx(7 / 3),
            "word_means": [1.0, 2.0, 4.0],
        }
    listed = _facts(client, data, name="listed", columns=about["columns"], labels=["good", "so so", "bad"])
    assert (listed["labels"], listed["label_counts"]) == (["good", "so so", "bad"], {"0": 2, "2": 1})
    assert listed["classes"] == 3


def test_facts_of_pairs_and_of_several_labels(client: httpx.Client) -> None:
    pair = csv_table(["premise", "hypothesis", "label"], [("It rains.", "It is wet, outside", 1), ("a", "b", 0)])
    facts = _facts(client, pair, PAIR, labels=["no", "yes"])
    assert (facts["mean_words"], facts["labels"], facts["label_counts"]) == (4, ["no", "yes"], {"0": 1, "1": 1})
    many = b'{"text": "a", "labels": ["joy", "fear"]}\n{"text": "b c", "labels": []}\n{"text": "d", "labels": ["joy"]}'
    facts = _facts(client, many, MANY, name="many")
    assert (facts["examples"], facts["labels"], facts["label_counts"]) == (3, ["fear", "joy"], {"0": 1, "1": 2})
    in_csv = b'text,labels\na,"[""joy"", ""fear""]"\nb c,[]\nd,"[""joy""]"\n'
    assert _facts(client, in_csv, MANY, name="csv") == {**facts, "format": "csv"}


TREEBANK = b"""# newdoc

# sent_id = 1
1-2\tvamonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tVMI\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tPP\t_\t1\tobj\t_\t_
2.1\tnull\t_\t_\t_\t_\t_\t_\t_\t_

1\t_\t_\tSYM\tF\t_\t0\troot\t_\t_
"""


def test_facts_of_a_treebank(client: httpx.Client) -> None:
    facts = _facts(client, TREEBANK, TAGS)
    assert facts == {
        "format": "conllu",
        "examples": 2,
        "classes": 3,
        "label_counts": {"0": 1, "1": 1, "2": 1},
        "labels": ["PRON", "SYM", "VERB"],
        "mean_words": 1.5,
        "word_means": [1.0, 2.0],
    }
    answer = upload(client, "datasets", _manifest(TAGS, name="x", columns={"tags": "XPOS"}), TREEBANK)
    assert answer.json()["facts"]["labels"] == ["F", "PP", "VMI"]
    content = client.get(f"/v1/datasets/{answer.json()['id']}/content")
    assert content.content == TREEBANK
    assert 'filename="x-1.conllu"' in content.headers["content-disposition"]
    without_comments = TREEBANK.partition(b"\n\n")[2].partition(b"\n")[2]
    assert _facts(client, without_comments, TAGS, name="plain") == facts


def test_class_names_that_hugging_face_left_in_a_parquet(tmp_path: Path) -> None:
    names = ["O", "B", "I"]
    label = {"names": names, "_type": "ClassLabel"}
    for feature in ({"feature": label, "_type": "Sequence"}, [label], {"feature": label, "_type": "List"}):
        info = json.dumps({"info": {"features": {"tags": feature}}})
        table = pa.table({"tokens": [["a", "b"]], "tags": [[2, 0]]}).replace_schema_metadata({"huggingface": info})
        path = tmp_path / "hf.parquet"
        path.write_bytes(parquet(table))
        facts = inspect_dataset(path, "hf", dataset_manifest(task=TAGS), Settings())
        assert (facts.labels, facts.classes, facts.label_counts) == (names, 3, {"0": 1, "2": 1})
    for wrong in ("\0", "\ud800"):
        path.write_bytes(
            parquet(table.replace_schema_metadata({"huggingface": info.replace('"B"', json.dumps(wrong))}))
        )
        with pytest.raises(ContentError, match="class name"):
            inspect_dataset(path, "hf", dataset_manifest(task=TAGS), Settings())


def _rows(*labels: object, start: int = 0) -> bytes:
    return b"".join(json.dumps({"text": "a b", "label": label}).encode() + b"\n" for label in labels)


def _tagged(**row: object) -> bytes:
    return json.dumps({"tokens": ["a", "b"], "tags": ["X", "Y"], **row}).encode()


WORD = "1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n"
LONG = "x" * 100_001

REFUSED: dict[str, tuple[dict[str, Any], bytes, int, str, str]] = {
    # What is no table of texts at all.
    "nothing": (_manifest(), b"", 422, "/file", "no bytes"),
    "page": (_manifest(), b"<!DOCTYPE html><html><body>Log in</body></html>", 415, "/file", "HTML page"),
    "pickle": (_manifest(), pickle.dumps({"text": ["a"], "label": [0]}), 415, "/file", "pickle"),
    "zip": (_manifest(), zipped({"a.csv": b"text,label\na,0\n"}), 415, "/file", "look like zip.*unpacked"),
    "tar": (_manifest(), tarred({"a.csv": b"text,label\na,0\n"}), 415, "/file", "look like tar.*unpacked"),
    "gzip": (_manifest(), gzip.compress(b"text,label\na,0\n"), 415, "/file", "look like gzip.*unpacked"),
    "npz": (_manifest(), npz(), 415, "/manifest/task", "image-classification"),
    "xlsx": (_manifest(), zipped({"[Content_Types].xml": b"<x/>", "xl/w.xml": b""}), 415, "/file", "spreadsheet"),
    "xls": (_manifest(), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), 415, "/file", "spreadsheet"),
    "image": (_manifest(), b"\x89PNG\r\n\x1a\n" + bytes(50), 415, "/file", "look like image"),
    "array": (_manifest(), b'[{"text": "a", "label": 0}]', 415, "/file", "JSON array.*lines"),
    "csv of images": (_manifest("image-classification"), b"text,label\na,0\n", 415, "/file", "set task to text-class"),
    # Encodings.
    "latin-1": (
        _manifest(),
        "text,label\na,0\ncafé,1\n".encode("latin-1"),
        422,
        "/file",
        "Line 3 is not UTF-8.*0xE9.*caf",
    ),
    "utf-16": (_manifest(), "text,label\na,0\n".encode("utf-16"), 422, "/file", "UTF-16.*UTF-8"),
    "nul": (_manifest(), b"text,label\na,0\na\0b,1\n", 422, "/file", "Line 3 holds a NUL byte"),
    "nul in json": (_manifest(), b'{"text": "a\\u0000", "label": 0}', 422, "/file", "Line 1, column 'text'.*NUL"),
    "surrogate": (_manifest(), b'{"text": "a\\ud83d", "label": 0}', 422, "/file", "surrogate"),
    # Columns.
    "no header": (_manifest(), b"good,1\nbad,0\n", 422, "/manifest/columns/text", "has: good, 1.*first line"),
    "blank lines": (_manifest(), b"\n\n", 422, "/manifest/columns/text", "has: nothing"),
    "no label": (_manifest(), b"text,stars\na,0\n", 422, "/manifest/columns/label", "it has: text, stars"),
    "no column": (
        _manifest(columns={"label": "stars"}),
        b"text,label\na,0\n",
        422,
        "/manifest/columns/label",
        "no column 'stars'",
    ),
    "twins": (_manifest(), b"text,text,label\na,b,0\n", 422, "/manifest/columns/text", "2 columns 'text'"),
    "half a key": (_manifest(), b'{"\\ud83d": 1}', 422, "/manifest/columns/text", r"it has: \?\."),
    "no key": (
        _manifest(),
        _rows(0) + b'{"text": "a"}',
        422,
        "/manifest/columns/label",
        "Line 2 has no column 'label'",
    ),
    "parquet column": (_manifest(), parquet_table(["a"], [("x",)]), 422, "/manifest/columns/text", "it has: a"),
    "parquet numbers": (
        _manifest(),
        parquet_table(["text", "label"], [(1, 1)]),
        422,
        "/manifest/columns/text",
        "int64.*strings",
    ),
    "parquet booleans": (
        _manifest(),
        parquet_table(["text", "label"], [("a", True)]),
        422,
        "/manifest/columns/label",
        "bool.*class numbers",
    ),
    "parquet lists": (
        _manifest(),
        parquet_table(["text", "label"], [("a", [1])]),
        422,
        "/manifest/columns/label",
        "multi-label",
    ),
    "pairs": (_manifest(), b"premise,hypothesis,label\na,b,0\n", 422, "/manifest/columns/text", f"task is {PAIR}"),
    "parquet pairs": (
        _manifest(),
        parquet_table(["premise", "hypothesis", "label"], [("a", "b", 0)]),
        422,
        "/manifest/columns/text",
        f"task is {PAIR}",
    ),
    "unknown role": (_manifest(columns={"premise": "a"}), b"text,label\na,0\n", 422, "/manifest/columns", "no column"),
    # Rows.
    "no rows": (_manifest(), b"text,label\n", 422, "/file", "no examples"),
    "ragged": (_manifest(), b'text,label\n"a\nb",0\na, b,1\n', 422, "/file", "Line 4 has 3 cells, the header has 2"),
    "short": (_manifest(), b"text,label\na,0\nb\n", 422, "/file", "Line 3 has 1 cells"),
    "quote": (_manifest(), b'text,label\n"a" b,0\n', 422, "/file", "line 2 has a quote in the wrong place.*doubled"),
    "open quote": (_manifest(), b'text,label\na,0\n"b,1\nc,0\n', 422, "/file", "line 3 has a quote"),
    "mac": (_manifest(), b"text,label\ra,0\rb,1\r", 422, "/file", "line 1 holds a lone carriage return"),
    "no json": (_manifest(), b'{"text": "a", "label": 0}\n{"text": "a" 0}\n', 422, "/file", "Line 2 is not JSON.*char"),
    "cut json": (
        _manifest(),
        b'{"text": "a", "label": 0}\n{"text": "b", "label": 1\n',
        422,
        "/file",
        "Line 2 is not JSON.*at character 25",
    ),
    "spread json": (
        _manifest(),
        b'{\n"text": "a",\n"label": 0}\n',
        422,
        "/file",
        "Line 1 is not JSON.*one whole object",
    ),
    "no object": (_manifest(), _rows(0) + b'["a", 0]', 422, "/file", "Line 2 is a JSON array"),
    "json twins": (_manifest(), b'{"text": "a", "text": "b", "label": 0}', 422, "/file", "'text' stands twice"),
    "deep json": (_manifest(), b'{"text": ' + b"[" * 99_999, 422, "/file", "Line 1 cannot be read as JSON"),
    # Texts.
    "empty": (_manifest(), b"text,label\na,0\n,1\n", 422, "/file", "Line 3, column 'text': the text is empty"),
    "blank": (_manifest(), b'text,label\n" \t\n",0\n', 422, "/file", "Line 2, column 'text': the text is empty"),
    "null text": (_manifest(), b'{"text": null, "label": 0}', 422, "/file", "the text is missing"),
    "number": (_manifest(), b'{"text": 4, "label": 0}', 422, "/file", "the text is a int"),
    "null in parquet": (
        _manifest(),
        parquet_table(["text", "label"], [("a", 0), (None, 1)]),
        422,
        "/file",
        r"Row 1 \(counted from 0\), column 'text': the text is missing",
    ),
    "empty hypothesis": (
        _manifest(PAIR),
        b"premise,hypothesis,label\na,,0\n",
        422,
        "/file",
        "column 'hypothesis': the text is empty",
    ),
    "long": (_manifest(), f"text,label\na,0\n{LONG},1\n".encode(), 413, "/file", "Line 3.*100,001 characters"),
    "long in parquet": (
        _manifest(),
        parquet_table(["text", "label"], [("a", 0), (LONG, 1)]),
        413,
        "/file",
        "Row 1.*100,001 characters",
    ),
    # Labels.
    "blank label": (
        _manifest(),
        b"text,label\na,0\nb, \n",
        422,
        "/file",
        "Line 3, column 'label': the label is missing",
    ),
    "null label": (_manifest(), _rows(0, None), 422, "/file", "Line 2, column 'label': the label is missing"),
    "nan": (_manifest(), _rows(1.0, float("nan")), 422, "/file", "the label is missing"),
    "nan in csv": (_manifest(), b"text,label\na,x\nb,nan\n", 422, "/file", "the label is missing"),
    "true": (_manifest(), _rows(True), 422, "/file", "the label is true.*0 or 1"),
    "half": (_manifest(), _rows(0.5), 422, "/file", "0.5.*whole"),
    "infinite": (_manifest(), _rows(float("inf")), 422, "/file", "inf.*whole"),
    "decimal in csv": (_manifest(), b"text,label\na,1.0\n", 422, "/file", "without decimals"),
    "list": (_manifest(), _rows([1]), 422, "/manifest/task", "multi-label"),
    "object": (_manifest(), _rows({"a": 1}), 422, "/file", "an object"),
    "negative": (_manifest(), _rows(0, -1), 422, "/file", "Line 2, column 'label': the label is -1.*leave out"),
    "huge": (_manifest(), _rows(10**400), 422, "/file", "class numbers from 0 to 99,999"),
    "long number": (_manifest(), _rows("9" * 30), 422, "/file", "class numbers from 0 to 99,999"),
    "mixed": (_manifest(), _rows(0, "pos"), 422, "/file", "Line 2.*'pos' is a name, but Line 1, column 'label' has 0"),
    "mixed csv": (_manifest(), b"text,label\na,pos\nb,1\n", 422, "/file", "'1' is a number, but Line 2"),
    "text as label": (_manifest(), _rows("word " * 50), 422, "/file", "249 characters.*right column"),
    "beyond the names": (_manifest(labels=["a", "b"]), _rows(0, 2), 422, "/manifest/labels", "is 2.* 0 to 1"),
    "unknown name": (
        _manifest(labels=["neg", "pos"]),
        _rows("neg", "posi"),
        422,
        "/manifest/labels",
        r"Line 2.*'posi' is not among the class names \(neg, pos\)",
    ),
    "equal names": (_manifest(labels=["a", "a"]), _rows(0), 422, "/manifest/labels", "equal"),
    "stars": (_manifest(labels=["1", "2", "3"]), _rows(1, 3, 2), 422, "/manifest/labels", "is 3.*write them from 0"),
    "two readings": (_manifest(labels=["1", "0"]), _rows(1, 0), 422, "/manifest/labels", "names of other classes"),
    # Several labels.
    "one for several": (_manifest(MANY), b'{"text": "a", "labels": 1}', 422, "/manifest/task", "no list"),
    "null for several": (_manifest(MANY), b'{"text": "a", "labels": null}', 422, "/file", "list of labels is missing"),
    "null among several": (
        _manifest(MANY),
        b'{"text": "a", "labels": [0, null]}',
        422,
        "/file",
        "item 1: the label is",
    ),
    "twice": (_manifest(MANY), b'{"text": "a", "labels": [3, 3]}', 422, "/file", "the label 3 stands twice"),
    "csv cell": (_manifest(MANY), b"text,labels\na,0 2\n", 422, "/file", "JSON list"),
    "python list": (_manifest(MANY), b"text,labels\na,\"['x', 'y']\"\n", 422, "/file", "JSON list"),
    "none at all": (_manifest(MANY), b'{"text": "a", "labels": []}', 422, "/manifest/labels", "No example has a label"),
    "flat parquet": (
        _manifest(MANY),
        parquet_table(["text", "labels"], [("a", 1)]),
        422,
        "/manifest/columns/labels",
        "lists of class numbers",
    ),
    # Tags.
    "tags in csv": (_manifest(TAGS), b"tokens,tags\na b,X Y\n", 415, "/file", "one text; send CoNLL-U"),
    "lengths": (_manifest(TAGS), _tagged(tags=["X"]), 422, "/file", "Line 1 has 2 tokens .* 1 tags"),
    "no tokens": (_manifest(TAGS), _tagged(tokens=[], tags=[]), 422, "/file", "no tokens"),
    "text for tokens": (_manifest(TAGS), _tagged(tokens="a b"), 422, "/file", "column 'tokens': a list"),
    "null tags": (_manifest(TAGS), _tagged(tags=None), 422, "/file", "column 'tags': a list"),
    "empty token": (_manifest(TAGS), _tagged(tokens=["a", " "]), 422, "/file", "item 1: the token is empty"),
    "number token": (_manifest(TAGS), _tagged(tokens=[1, "b"]), 422, "/file", "item 0: the token is a int"),
    "mixed tags": (_manifest(TAGS), _tagged(tags=["X", 1]), 422, "/file", "item 1: the label 1 is a number"),
    "long sentence": (_manifest(TAGS), _tagged(tokens=["a", LONG]), 413, "/file", "100,003 characters"),
    "nine columns": (_manifest(TAGS), WORD.replace("\t_\n", "\n").encode(), 422, "/file", "Line 1 has 9 columns"),
    "untagged": (
        _manifest(TAGS),
        (WORD + WORD).replace("1\ta\t_\tX", "2\tb\t_\t_").encode(),
        422,
        "/file",
        "the id '2'",
    ),
    "no blank line": (_manifest(TAGS), (WORD * 2).encode(), 422, "/file", "Line 2 has the id '1', expected 2"),
    "underscore": (
        _manifest(TAGS),
        WORD.replace("X", "_").encode(),
        422,
        "/manifest/columns/tags",
        "Line 1: the word 'a' has no UPOS tag",
    ),
    "no xpos": (
        _manifest(TAGS, columns={"tags": "xpos"}),
        WORD.encode(),
        422,
        "/manifest/columns/tags",
        "no XPOS tag.*upos",
    ),
    "feats": (_manifest(TAGS, columns={"tags": "feats"}), WORD.encode(), 422, "/manifest/columns/tags", "upos or xpos"),
    "lemmas": (_manifest(TAGS, columns={"tokens": "lemma"}), WORD.encode(), 422, "/manifest/columns/tokens", "FORM"),
    "only comments": (_manifest(TAGS), b"# a\n# b\n\n", 422, "/file", "no examples"),
    "masked": (_manifest(TAGS), conllu([(["_", "_"], ["X", "Y"])]), 422, "/file", "text was left out"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_says_where_and_leaves_nothing(client: httpx.Client, services: Services, case: str) -> None:
    manifest, data, status, pointer, says = REFUSED[case]
    problem = assert_problem(upload(client, "datasets", manifest, data), status)
    assert problem.errors is not None
    assert [error.pointer for error in problem.errors] == [pointer]
    (error,) = problem.errors
    assert re.search(says, error.detail), error.detail
    assert_nothing_stored(services)


def test_lengths_are_kept_in_groups_of_equal_size() -> None:
    statistics = _TextStatistics()
    for words in [*range(1, 39), 500, 700]:
        statistics.add(Example(("word " * words,), (0,)))
    means = statistics.word_means(is_tokens=False)
    assert means == [1.5 + 2 * group for group in range(19)] + [600.0]
    one = _TextStatistics()
    for words in (1, 2, 3, *[9] * 27):
        one.add(Example(("word " * words,), (0,)))
    # Twenty groups of one and a half texts.
    assert one.word_means(is_tokens=False)[:3] == [1.3, 2.7, 9.0]
