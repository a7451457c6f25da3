"""What a table may be, and the refusals: each names the field and what would be right."""

import io
import json
import math
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.console.manifests import model_manifest
from seatrial.contracts.models import ModelManifest
from tests.ingest.exported_programs import BATCH, exported, tensor
from tests.tables import flowers
from tests.tables.test_audits import post


def parquet(*, edit: dict[str, Any] | None = None) -> bytes:
    values, labels = flowers.flowers()
    table = {name: values[:, at].tolist() for at, name in enumerate(flowers.COLUMNS)}
    table |= {"species": [flowers.LABELS[label] for label in labels], **(edit or {})}
    file = io.BytesIO()
    pq.write_table(pa.table(table), file)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    values, labels = flowers.flowers()
    file = io.BytesIO()
    np.savez(file, **{"features": values, "labels": labels, **arrays})
    return file.getvalue()


def add(client: httpx.Client, data: bytes, **changes: Any) -> httpx.Response:
    return post(client, "/v1/datasets", flowers.dataset_manifest(**changes), "data", data)


def test_csv_parquet_and_npz_hold_the_same(client: httpx.Client) -> None:
    names = np.array(flowers.COLUMNS)
    told = [
        add(client, flowers.csv(), name="a").json()["facts"],
        add(client, parquet(), name="b").json()["facts"],
        add(client, npz(feature_names=names), name="c", columns=None).json()["facts"],
    ]
    assert [one.pop("format") for one in told] == ["csv", "parquet", "npz"]
    assert told[0] == told[1] == told[2]
    assert told[0]["shape"] == [1, 1, 4]
    assert told[0]["features"] == flowers.COLUMNS
    assert told[0]["smallest"] == flowers.flowers()[0].min(0).tolist()
    assert told[0]["label_counts"] == {"0": 50, "1": 50, "2": 50}


SPECIES = [flowers.LABELS[label] for label in flowers.flowers()[1]]


@pytest.mark.parametrize(
    ("data", "changes", "field", "said"),
    [
        (
            flowers.csv(edit={(1, 2): "nan"}),
            {},
            "/manifest/features",
            "Line 3, column 'petal length': the value",
        ),
        (flowers.csv(edit={(0, 0): ""}), {}, "/manifest/features", "Line 2, column 'sepal length': the value is empty"),
        (flowers.csv(edit={(0, 0): "tall"}), {}, "/manifest/features", "'tall', no number"),
        (flowers.csv(), {"features": ["petal length", "age"]}, "/manifest/features", "no column 'age'"),
        (flowers.csv(), {"columns": None}, "/manifest/columns/label", "no column 'label'"),
        (flowers.csv(), {"labels": ["setosa", "virginica"]}, "/manifest/labels", "'versicolor' is not among"),
        (
            parquet(edit={"petal width": [None] + [1.0] * 149}),
            {},
            "/manifest/features",
            "'petal width': the value",
        ),
        (parquet(edit={"petal width": ["x"] * 150}), {}, "/manifest/features", "'petal width' has type string"),
        (parquet(edit={"sepal width": [math.inf] * 150}), {}, "/manifest/features", "Row 0 (counted from 0)"),
        (npz(labels=np.arange(149)), {"columns": None}, "/file", "149 values"),
        (npz(features=np.zeros((150, 2, 2))), {"columns": None}, "/file", "(rows, columns)"),
        (npz(), {"columns": None, "features": ["a"]}, "/manifest/features", "has 4 columns, and 1 different"),
        (npz(labels=np.full(150, 7)), {"columns": None}, "/manifest/labels", "the label is 7"),
        (b'{"a": 1}\n', {}, "/file", "send columns of numbers"),
    ],
)
def test_a_table_that_is_none_is_refused(
    client: httpx.Client, data: bytes, changes: dict[str, Any], field: str, said: str
) -> None:
    answer = add(client, data, **changes)
    assert answer.status_code in (415, 422), answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == field
    assert said in error["detail"]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"features": None}, "/manifest/features", "features is required"),
        ({"labels": None}, "/manifest/labels", "labels is required"),
        ({"features": {"columns": ["a", "a"]}}, "/manifest/features", "'a' stands twice"),
        ({"features": {"columns": ["a", "b"], "std": [1]}}, "/manifest/features", "std has 1 values for 2 columns"),
        ({"features": {"columns": ["a"], "ranges": [[3, 3]]}}, "/manifest/features", "the first must be less"),
        ({"features": {"columns": ["a"], "std": [0]}}, "/manifest/features/std/0", "greater than"),
        ({"architecture": {"kind": "lenet"}}, "/manifest", "lenet takes no rows of numbers"),
        ({"task": "image-classification"}, "/manifest/input", "input is required"),
        ({"features": {"columns": ["a", "b"]}}, "/manifest/architecture/layers/0", None),
    ],
)
def test_a_manifest_that_describes_no_rows_is_refused(
    client: httpx.Client, changes: dict[str, Any], field: str, said: str | None
) -> None:
    answer = post(client, "/v1/models", flowers.model_manifest(**changes), "m.safetensors", flowers.weights())
    if said is None:
        # What needs torch is found out by the worker.
        assert answer.status_code == 201
        return
    assert answer.status_code == 422, answer.text
    errors = answer.json()["errors"]
    assert any(one["pointer"] == field and said in one["detail"] for one in errors), errors


@pytest.mark.parametrize(
    ("columns", "edit", "said"),
    [
        (["sepal length", "sepal width", "petal length", "other"], {}, "'petal width', which"),
        (flowers.COLUMNS, {(3, 0): "9.5"}, "'sepal length' has values from 4.3 to 9.5, and the model's range"),
    ],
)
def test_data_that_do_not_fit_the_model_are_refused_before_a_price(
    client: httpx.Client, columns: list[str], edit: dict[tuple[int, int], str], said: str
) -> None:
    model = post(client, "/v1/models", flowers.model_manifest(), "m.safetensors", flowers.weights()).json()["id"]
    data = add(client, flowers.csv(columns, edit=edit)).json()["id"]
    check = {"kind": "uncertainty_span"}
    answer = client.post("/v1/audits/estimate", json={"model": model, "dataset": data, "checks": [check]})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/dataset"
    assert said in answer.text


def test_an_exported_program_of_rows_is_taken(client: httpx.Client) -> None:
    def of_rows(document: dict[str, Any]) -> None:
        document["graph_module"]["graph"]["tensor_values"]["x"] = tensor(BATCH, 16)

    columns = [f"column {at}" for at in range(16)]
    manifest = flowers.model_manifest(
        architecture={"kind": "exported"}, features={"columns": columns}, labels=["even", "odd"]
    )
    program = exported(change_graph=of_rows)
    assert post(client, "/v1/models", manifest, "m.pt2", program).status_code == 201
    manifest |= {"name": "other", "features": {"columns": columns[:4]}}
    refused = post(client, "/v1/models", manifest, "m.pt2", program)
    assert refused.status_code == 422
    assert "takes rows of shape [16], the manifest says [4] (columns)" in refused.text


def test_the_form_describes_columns() -> None:
    fields = {
        **{"name": "m", "version": "1", "task": "tabular-classification", "architecture": "exported"},
        **{"features": "age = 0, 120\r\nincome", "mean": "40, 3e4", "std": "10, 1e4", "labels": "no\r\nyes"},
    }
    manifest = ModelManifest.model_validate(json.loads(model_manifest({**fields, "takes": "raw"})))
    assert manifest.features is not None
    assert manifest.features.ranges == [[0, 120], None]
    assert (manifest.features.stds, manifest.features.takes) == ([10, 1e4], "raw")
