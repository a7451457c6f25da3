"""Tables of predictions: three formats say the same, and a mistake is named by row and column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.inspection import inspect_dataset
from app.models.inspection import inspect_model
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.predictions.answers import Answers, read_answers
from seatrial.ingest.predictions.tables import table_layout
from seatrial.ingest.predictions.truths import Truths, read_truths
from seatrial.store.settings import Settings
from workers.data.predictions import join_predictions
from workers.errors import PreflightError

LIMITS = Settings()
COLUMNS = {"probabilities": ["p_cat", "p_dog"]}
HEADER = "example_id,label,p_cat,p_dog\n"


def model(labels: tuple[str, ...] = ("cat", "dog"), **architecture: Any) -> ModelManifest:
    return ModelManifest.model_validate(
        {
            **{"name": "m", "version": "1", "task": "predictions", "labels": list(labels)},
            "architecture": {"kind": "predictions", **architecture},
        }
    )


def data(**more: Any) -> DatasetManifest:
    said = {"name": "d", "version": "1", "task": "predictions", "labels": ["cat", "dog"], **more}
    return DatasetManifest.model_validate(said)


def answers_of(path: Path, **architecture: Any) -> Answers:
    manifest = model(**(architecture or COLUMNS))
    inspect_model(path, path.name, manifest, LIMITS)
    return read_answers(path, table_layout(path, path.name), manifest, LIMITS)


def truths_of(path: Path, **more: Any) -> Truths:
    inspect_dataset(path, path.name, data(**more), LIMITS)
    return read_truths(path, table_layout(path, path.name), data(**more), LIMITS)


def text(folder: Path, content: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


ROWS: list[dict[str, Any]] = [
    {"example_id": "a", "label": "cat", "group": "n", "arm": "clean", "probabilities": [0.75, 0.25]},
    {"example_id": "a", "label": "cat", "group": "n", "arm": "attacked", "probabilities": [0.25, 0.75]},
    {"example_id": "7", "label": "dog", "group": "s", "arm": "clean", "probabilities": [0.5, 0.5]},
    {"example_id": "z", "label": None, "group": "s", "arm": "ood", "probabilities": [1.0, 0.0]},
]


def test_every_format_says_the_same_with_lists_and_with_columns(tmp_path: Path) -> None:
    lines = text(tmp_path, "\n".join(map(json.dumps, ROWS)), "t.jsonl")
    table = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), table)
    wide = [{**row, "p_cat": row["probabilities"][0], "p_dog": row["probabilities"][1]} for row in ROWS]
    flat = tmp_path / "flat.parquet"
    kinds = pa.schema([("p_cat", pa.float32()), ("p_dog", pa.float32())])
    columns = pa.Table.from_pylist(
        [{name: one for name, one in row.items() if name != "probabilities"} for row in wide]
    )
    pq.write_table(
        columns.select(["example_id", "label", "group", "arm"])
        .append_column(kinds[0], [pa.array([row["p_cat"] for row in wide], pa.float32())])
        .append_column(kinds[1], [pa.array([row["p_dog"] for row in wide], pa.float32())]),
        flat,
    )
    header = "example_id,label,group,arm,p_cat,p_dog\n"
    body = "".join(
        ",".join(str(row[name]) if row[name] is not None else "" for name in header.strip().split(",")) + "\n"
        for row in wide
    )
    cells = text(tmp_path, header + body)
    for path, said in ((lines, {"probabilities": ["probabilities"]}), (table, {}), (flat, COLUMNS), (cells, COLUMNS)):
        manifest = model(**said)
        found = read_answers(path, table_layout(path, path.name), manifest, LIMITS)
        assert (found.ids, found.arms) == (["a", "a", "7", "z"], [0, 1, 0, 2])
        assert found.scores.tolist() == [row["probabilities"] for row in ROWS]
        truths = truths_of(path)
        assert truths.labels.tolist() == [0, 0, 1, -1]
        assert (truths.groups, truths.names) == (["n", "n", "s", "s"], ["cat", "dog"])
        joined = join_predictions(truths, found, np.array([2, 1]))
        assert (joined.labels.tolist(), joined.scores.tolist()) == ([1, 0], [[0.5, 0.5], [0.25, 0.75]])
    facts = inspect_dataset(cells, "t.csv", data(), LIMITS)
    assert (facts.examples, facts.classes, facts.label_counts) == (4, 2, {"0": 2, "1": 1})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("b,dog,nan,0.4", "Line 3, column 'p_cat': the probability is nan"),
        ("b,dog,inf,0.4", "Line 3, column 'p_cat': the probability is inf"),
        ("b,dog,-0.2,1.2", "Line 3, column 'p_cat': the probability is -0.2, outside of [0, 1]: if these are logits"),
        ("b,dog,0.9,0.4", "Line 3, column 'p_cat' to 'p_dog': the probabilities add up to 1.3, not to 1"),
        ("b,dog,,0.4", "Line 3, column 'p_cat': the probability is '': write a number"),
        ("a,dog,0.6,0.4", "Line 3, column 'example_id': 'a' stands twice in the arm clean, first in Line 2"),
        (",dog,0.6,0.4", "Line 3, column 'example_id': the example_id is missing"),
        ("b,dog,0.6", "Line 3 has 3 cells, the header has 4"),
    ],
)
def test_a_bad_answer_is_named_by_row_and_column(row: str, said: str, tmp_path: Path) -> None:
    path = text(tmp_path, f"{HEADER}a,cat,0.7,0.3\n{row}\n")
    with pytest.raises(InspectionError) as refused:
        answers_of(path)
    assert said in refused.value.detail


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("b,cow,0.6,0.4", "Line 3, column 'label': the label 'cow' is not among the class names (cat, dog)"),
        ("b,,0.6,0.4", "Line 3, column 'label': the label is missing"),
        ("a,dog,0.6,0.4", "Line 3, column 'example_id': 'a' stands twice"),
    ],
)
def test_a_bad_label_is_named_by_row_and_column(row: str, said: str, tmp_path: Path) -> None:
    path = text(tmp_path, f"{HEADER}a,cat,0.7,0.3\n{row}\n")
    with pytest.raises(InspectionError) as refused:
        truths_of(path)
    assert said in refused.value.detail


def test_rounded_probabilities_are_judged_by_their_digits_and_classes(tmp_path: Path) -> None:
    thirds = ("p_cat", "p_dog", "p_eel")
    labels = ("cat", "dog", "eel")
    manifest = model(labels, probabilities=list(thirds))
    rounded = text(tmp_path, "example_id,p_cat,p_dog,p_eel\na,0.33,0.33,0.33\n")
    assert read_answers(rounded, "csv", manifest, LIMITS).scores.sum() == pytest.approx(0.99)
    exact = text(tmp_path, "example_id,p_cat,p_dog,p_eel\na,0.3300001,0.33,0.33\n")
    with pytest.raises(InspectionError, match=r"add up to 0\.99"):
        read_answers(exact, "csv", manifest, LIMITS)


def test_of_several_models_one_is_read_and_the_examples_are_one_each(tmp_path: Path) -> None:
    path = text(
        tmp_path,
        "example_id,label,model,p_cat,p_dog\na,cat,one,0.7,0.3\na,cat,two,0.1,0.9\nb,dog,one,0.6,0.4\nb,dog,two,0,1\n",
    )
    assert answers_of(path, **COLUMNS, model="two").scores.tolist() == [[0.1, 0.9], [0.0, 1.0]]
    assert truths_of(path).ids == ["a", "b"]
    with pytest.raises(InspectionError, match="of several models say which"):
        answers_of(path, **COLUMNS)
    with pytest.raises(InspectionError, match="no answers of the model 'three'"):
        answers_of(path, **COLUMNS, model="three")
    torn = text(tmp_path, "example_id,label,model,p\na,cat,one,1\na,dog,two,1\n")
    with pytest.raises(InspectionError, match="models are asked about the same examples"):
        truths_of(torn)


def test_logits_may_be_any_numbers_and_lists_have_one_for_each_label(tmp_path: Path) -> None:
    path = text(tmp_path, '{"example_id": 3, "label": 0, "z": [-3.5, 12]}\n', "t.jsonl")
    found = answers_of(path, logits=["z"])
    assert (found.ids, found.scores.tolist(), found.is_logits) == (["3"], [[-3.5, 12.0]], True)
    short = text(tmp_path, '{"example_id": 3, "z": [1.0]}\n', "s.jsonl")
    with pytest.raises(InspectionError, match="1 logits for 2 labels"):
        answers_of(short, logits=["z"])
    wordy = text(tmp_path, '{"example_id": 3, "z": [1.0, "much"]}\n', "w.jsonl")
    with pytest.raises(InspectionError, match="column 'z', item 1: the logit is 'much'"):
        answers_of(wordy, logits=["z"])


def test_a_column_that_is_not_there_is_asked_for_where_it_is_named(tmp_path: Path) -> None:
    path = text(tmp_path, f"{HEADER}a,cat,0.7,0.3\n")
    for said, field in ((["p_cat", "p_cow"], "probabilities"), (["odds"], "probabilities")):
        with pytest.raises(InspectionError) as refused:
            answers_of(path, probabilities=said)
        assert f"has no column {said[-1]!r}; it has: example_id, label, p_cat, p_dog" in refused.value.detail
        assert refused.value.field == f"/manifest/architecture/{field}"
    with pytest.raises(InspectionError) as refused:
        answers_of(path, **COLUMNS, example_id="key")
    assert refused.value.field == "/manifest/architecture/example_id"


def test_an_example_without_an_answer_is_named(tmp_path: Path) -> None:
    path = text(tmp_path, f"{HEADER}a,cat,0.7,0.3\nb,dog,0.6,0.4\n")
    fewer = text(tmp_path, f"{HEADER}a,cat,0.7,0.3\n", "fewer.csv")
    with pytest.raises(PreflightError) as refused:
        join_predictions(truths_of(path), answers_of(fewer), np.arange(2))
    assert "1 of the 2 examples looked at have no answer, the first is 'b' (clean)" in refused.value.problem.detail


def test_what_is_no_table_is_refused_for_what_it_is(tmp_path: Path) -> None:
    image = tmp_path / "t.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    with pytest.raises(InspectionError, match="is not a table of predictions"):
        table_layout(image, "t.png")
    with pytest.raises(ValueError, match="predictions"):
        ModelManifest.model_validate(
            {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "predictions"}}
        )
    with pytest.raises(ValueError, match="labels is required"):
        ModelManifest.model_validate(
            {"name": "m", "version": "1", "task": "predictions", "architecture": {"kind": "predictions"}}
        )
