"""Models and datasets: lists, and forms that say beside each field what is wrong."""

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.console.manifests import dataset_manifest, model_fields, model_manifest
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.models import ModelManifest
from seatrial.store.tables import DatasetRow, ModelRow
from tests import uploads
from tests.audits.acting import make_ready
from tests.console.conftest import Console, elements, words
from tests.ingest.exported_programs import exported
from tests.uploads import assert_nothing_stored, npz, weights

MODEL = {
    "name": "parity",
    "version": "1",
    "task": "image-classification",
    "architecture": "layers",
    "layers": '[["flatten"], ["linear", 16, 2]]',
    "depth": "",
    "width": "",
    "endpoint": "",
    "shape": "1, 4, 4",
    "mean": "0",
    "std": "1",
    "labels": "even\r\nodd\r\n",
    "clean_accuracy": "",
}
DATASET = {
    "name": "parity",
    "version": "1",
    "task": "image-classification",
    "split": "test",
    "columns": "",
    "labels": "",
}
ENDPOINT = {"url": "https://models.example.com/classify", "request": {"inputs": "{{texts}}"}, "scores": "$[*]"}


def send_model(console: Console, data: bytes | None = None, **changed: str) -> httpx.Response:
    file = ("", b"") if data == b"" else ("weights.safetensors", data if data is not None else weights())
    return console.post("/models", files={"file": file}, **{**MODEL, **changed})


def send_dataset(console: Console, data: bytes | None = None, **changed: str) -> httpx.Response:
    file = ("", b"") if data == b"" else ("data.npz", data if data is not None else npz())
    return console.post("/datasets", files={"file": file}, **{**DATASET, **changed})


def wrong(page: httpx.Response) -> dict[str, str]:
    """Return the fields that are marked, with what describes each."""
    assert page.status_code >= 400
    (summary,) = [one for one in elements(page) if one.get("id") == "wrong"]
    assert summary["role"] == "alert"
    marked = {}
    for one in elements(page):
        if one.get("aria-invalid") == "true":
            described = str(one["aria-describedby"]).split()[0]
            after = page.text.partition(f'id="{described}">')[2]
            marked[str(one["name"])] = after.partition("</p>")[0]
            assert f'href="#{one["id"]}"' in page.text
    return marked


def test_a_form_s_model_is_the_one_the_api_would_have_stored(console: Console) -> None:
    assert send_model(console).headers["location"] == "/models?done=stored#main"
    with console.services.database.read() as session:
        row = session.query(ModelRow).one()
    again = uploads.upload(console.client, "models", uploads.model_manifest(), weights())
    assert (again.status_code, again.json()["id"]) == (201, row.id)
    page = console.get("/models?done=stored")
    for told in ("parity 1", "layers", "even, odd", "checking", "The model is stored"):
        assert told in words(page)


def test_a_form_s_dataset_is_the_one_the_api_would_have_stored(console: Console) -> None:
    stored = send_dataset(console)
    with console.services.database.read() as session:
        row = session.query(DatasetRow).one()
    assert stored.headers["location"] == f"/datasets/{row.id}?done=stored#main"
    again = uploads.upload(console.client, "datasets", uploads.dataset_manifest(), npz())
    assert again.json()["id"] == row.id
    assert "20 of shape 1, 4, 4" in words(console.get("/datasets"))


def preview(console: Console, data: bytes, name: str = "reviews.csv", **said: str) -> httpx.Response:
    fields = {"name": "", "version": "", "task": "text-classification", "split": "test", "columns": "", **said}
    return console.post("/dataset-preview", files={"file": (name, data)}, **fields)


def chosen(page: httpx.Response) -> int:
    return sum(one.get("class") == "chosen" for one in elements(page, "th"))


def test_the_columns_of_a_table_are_shown_before_it_is_uploaded(console: Console) -> None:
    table = b"review;stars;day\n" + b"".join(b'"a; b<c>";%d;2026\n' % n for n in range(7)) + b'"cut off'
    page = preview(console, table)
    assert "No column is named text or label" in words(page)
    assert "text = review and label = stars" in words(page)
    page = preview(console, table, columns="text = review\nlabel = stars")
    assert "The text is read from review, the label from stars." in words(page)
    assert (chosen(page), page.text.count("a; b&lt;c&gt;"), "stars label" in words(page)) == (2, 5, True)
    lines = b'{"premise": "a", "hypothesis": "b", "label": 0, "id": 7}\n'
    page = preview(console, lines, "pairs.jsonl", task="text-pair-classification")
    assert "from premise, the hypothesis from hypothesis, the label from label." in words(page)
    assert chosen(page) == 3
    numbers = b"age,income,label\n40,1.5,0\n"
    assert "numbers from the other marked columns" in words(preview(console, numbers, task="tabular-classification"))
    for data, said, reason in (
        (numbers, {"task": "image-classification"}, "choose the task"),
        (b"PK\x03\x04[Content_Types].xml", {}, "save it as CSV"),
        (table, {"columns": "text"}, "role = column"),
        (table, {"columns": "image = review"}, "is no column of text-classification"),
    ):
        page = preview(console, data, **said)
        assert (page.status_code, reason in words(page)) == (200, True), (words(page), reason)
    assert_nothing_stored(console.services)


def test_the_page_of_a_dataset_shows_the_columns_that_are_read(console: Console) -> None:
    written = io.BytesIO()
    texts = {"body": [f"text {n}" for n in range(9)], "sentiment": [n % 2 for n in range(9)], "raw": [b"abc"] * 9}
    pq.write_table(pa.table(texts), written)
    told = {"task": "text-classification", "columns": "text = body\nlabel = sentiment", "labels": "bad\ngood"}
    page = console.get(send_dataset(console, written.getvalue(), **told).headers["location"].partition("#")[0])
    for said in ("is stored and checked", "from body, the label from sentiment.", "text 4", "3 bytes", "good4"):
        assert said in words(page), said
    assert "text 5" not in words(page)
    assert chosen(page) == 2
    page = console.get(send_dataset(console, version="2").headers["location"].partition("#")[0])
    assert "First rows" not in words(page)
    assert "10" in words(page)
    assert console.get("/datasets/dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c11").status_code == 404


def test_every_architecture_and_column_reaches_the_manifest() -> None:
    image = {"name": "m", "version": "1", "task": "image-classification", "shape": "3 32 32", "labels": "a\nb"}
    for kind, more, wanted in (
        ("resnet_cifar", {"depth": "20"}, {"depth": 20}),
        ("wide_resnet", {"depth": "28", "width": "10"}, {"depth": 28, "width": 10}),
        ("preact_resnet18", {"mean": "0.4,0.5,0.6", "std": "0.2, 0.2 0.2"}, {}),
        ("lenet", {"depth": "left over from another choice"}, {}),
    ):
        text = model_manifest({**image, "architecture": kind, **more})
        told = ModelManifest.model_validate_json(text).model_dump(mode="json", exclude_defaults=True)
        assert told["architecture"] == {"kind": kind, **wanted}
    assert told["input"] == {"shape": [3, 32, 32], "mean": [0.0], "std": [1.0]}
    text = dataset_manifest({**DATASET, "task": "text-classification", "columns": "text = a = b\n\nlabel=stars"})
    assert DatasetManifest.model_validate_json(text).columns == {"text": "a = b", "label": "stars"}


def test_an_exported_program_is_chosen_and_needs_nothing_more(console: Console) -> None:
    assert send_model(console, exported(), architecture="exported").status_code == 303
    with console.services.database.read() as session:
        row = session.query(ModelRow).one()
    assert (row.format, row.manifest["architecture"]) == ("archive", {"kind": "exported"})
    page = send_model(console, exported(), architecture="exported", shape="3, 4, 4", version="2")
    assert "the exported program takes images of shape [1, 4, 4]" in wrong(page)["shape"]


def test_an_endpoint_is_stored_without_a_file(console: Console) -> None:
    told = {"task": "text-classification", "architecture": "endpoint", "shape": "", "endpoint": json.dumps(ENDPOINT)}
    assert send_model(console, b"", **told).status_code == 303
    with console.services.database.read() as session:
        row = session.query(ModelRow).one()
    assert row.format == "endpoint"
    assert row.manifest["architecture"]["url"] == ENDPOINT["url"]
    page = send_model(console, b"", **{**told, "endpoint": '{"url": "ftp://x"}', "version": "2"})
    assert "endpoint" in wrong(page)


@pytest.mark.parametrize(
    ("task", "template", "said"),
    [
        ("image-classification", {"inputs": "{{texts}}"}, "may hold {{images}}, {{image}}"),
        ("image-classification", {"inputs": 1}, "the template has no place for an example"),
        ("text-classification", {"inputs": "{{images}}"}, "may hold {{texts}}, {{text}}"),
    ],
)
def test_an_endpoint_is_told_the_placeholders_of_its_task_alone(
    console: Console, task: str, template: dict[str, Any], said: str
) -> None:
    asked = json.dumps({**ENDPOINT, "request": template})
    page = send_model(console, b"", task=task, architecture="endpoint", shape="1, 4, 4", endpoint=asked)
    told = wrong(page)["endpoint"]
    assert said in told
    others = "{{text" if task == "image-classification" else "{{image"
    assert others not in told
    # On the page each task's stand in a line that shows for it alone.
    lines = [one for one in page.text.split("<p ") if "In the body of" in one]
    assert [line for line in lines if others in line and f'data-for="{task}"' in line] == []
    assert [line for line in lines if f'data-for="{task}"' in line]


def test_a_language_model_is_stored_without_a_file_or_class_names(console: Console) -> None:
    asked = {"url": "https://llm.example.com/v1/chat/completions", "model": "m", "template": "{{text}}:"}
    words = {"labels": {"good": [" good"], "bad": [" bad"]}}
    told = {"task": "text-classification", "architecture": "chat", "shape": "", "labels": ""}
    for given, reason in (
        ({**asked, **words, "template": "{{texts}}"}, "holds {{text}} and no other placeholder, not {{texts}}"),
        (asked, "Field required"),
        ({**words, **asked, "model": ""}, "model: Fill this in."),
    ):
        assert reason in wrong(send_model(console, b"", **told, endpoint=json.dumps(given)))["endpoint"]
    assert_nothing_stored(console.services)
    assert send_model(console, b"", **told, endpoint=json.dumps({**asked, **words})).status_code == 303
    with console.services.database.read() as session:
        row = session.query(ModelRow).one()
    assert (row.format, row.manifest["labels"]) == ("endpoint", ["good", "bad"])


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(console: Console) -> None:
    page = send_model(console, name="no spaces here", shape="1, x, 4", depth="7", labels="one\r\none")
    marked = wrong(page)
    assert page.status_code == 422
    assert set(marked) == {"name", "shape", "labels"}
    assert "stands twice" in marked["labels"]
    typed = {str(one.get("name")): one.get("value") for one in elements(page, "input")}
    assert (typed["name"], typed["shape"], typed["depth"]) == ("no spaces here", "1, x, 4", "7")
    assert '<option value="layers" selected>' in page.text
    assert_nothing_stored(console.services)


def test_each_field_is_told_for_itself(console: Console) -> None:
    for changed, field in (
        ({"layers": "not json"}, "layers"),
        ({"layers": ""}, "layers"),
        ({"layers": '[["conv"]]'}, "layers"),
        ({"architecture": "resnet_cifar", "depth": "21"}, "depth"),
        ({"architecture": "wide_resnet", "depth": "28", "width": "wide"}, "width"),
        ({"architecture": "nonsense"}, "architecture"),
        ({"task": "nonsense"}, "task"),
        ({"mean": "a"}, "mean"),
        ({"std": "0"}, "std"),
        ({"version": ""}, "version"),
        ({"clean_accuracy": "95"}, "clean_accuracy"),
        ({"architecture": "endpoint", "endpoint": "[1]"}, "endpoint"),
    ):
        assert field in wrong(send_model(console, **changed)), changed
    for changed, field in (
        ({"columns": "no sign"}, "columns"),
        ({"columns": "text = t"}, "columns"),
        ({"split": "nonsense"}, "split"),
        ({"task": ""}, "task"),
    ):
        assert field in wrong(send_dataset(console, **changed)), changed
    assert_nothing_stored(console.services)


def test_a_refused_file_is_told_beside_the_file(console: Console) -> None:
    for page, reason in (
        (send_model(console, b""), "Choose the file"),
        (send_model(console, b"\x80\x04pickle"), "pickle"),
        (send_dataset(console, b""), "Choose the file"),
        (send_dataset(console, b"<html>"), "HTML"),
        (send_model(console, b"x" * 250_000), "more than the 200,000 bytes"),
    ):
        assert reason in wrong(page)["file"], reason
        # What was typed comes back whatever is wrong with the file.
        assert 'value="parity"' in page.text
    assert_nothing_stored(console.services)


def test_a_name_that_is_taken_is_told_beside_the_version(console: Console) -> None:
    send_model(console)
    page = send_model(console, weights(1.0))
    assert page.status_code == 409
    assert "give this one another version" in wrong(page)["version"]


def test_fields_have_a_limit_together(console: Console) -> None:
    page = send_model(console, labels="x" * 1_100_000)
    assert page.status_code == 413
    assert_nothing_stored(console.services)


def test_a_body_that_is_no_form_is_a_page_too(console: Console) -> None:
    answer = console.client.post("/models", content=b"x", headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 415
    assert answer.headers["content-type"].startswith("text/html")


def test_a_rejected_model_says_why(console: Console) -> None:
    send_model(console)
    with console.services.database.write() as session:
        row = session.query(ModelRow).one()
        row.problem = {"code": "x", "title": "Wrong", "detail": "The weights do not fit.", "field": None}
    page = console.get("/models")
    assert "The weights do not fit." in words(page)


def test_lists_go_on(console: Console, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.console.resources.PER_PAGE", 2)
    for version in ("1", "2", "3"):
        send_model(console, version=version)
        send_dataset(console, version=version)
    make_ready(console.services)
    for path in ("/models", "/datasets"):
        first = console.get(path)
        (older,) = [str(one["href"]) for one in elements(first, "a") if one.get("rel") == "next"]
        rest = console.get(older)
        told = {version for version in "123" if f"parity {version}" in words(first)}
        assert told == {"2", "3"}
        assert "parity 1" in words(rest)
        assert path in {one.get("href") for one in elements(rest, "a")}


def test_what_is_wrong_is_said_by_the_labels_on_the_page(console: Console) -> None:
    page = send_model(console, clean_accuracy="95")
    assert "Accuracy you measured: Write a number of at most 1." in words(page)
    assert "clean accuracy" not in words(page)


def test_a_model_that_was_rejected_is_tried_again_with_the_fields_filled_in(console: Console) -> None:
    assert send_model(console, clean_accuracy="0.5").status_code == 303
    with console.services.database.write() as session:
        row = session.query(ModelRow).one()
        row.problem = {"code": "x", "title": "Wrong", "detail": "The weights do not fit.", "field": None}
        model_id, manifest = row.id, row.manifest
        session.execute(ModelRow.__table__.update().values(state="rejected"))  # type: ignore[attr-defined]
    assert f"/models?again={model_id}#upload" in [one.get("href") for one in elements(console.get("/models"), "a")]
    page = console.get(f"/models?again={model_id}")
    fields = {str(one["name"]): str(one.get("value") or "") for one in elements(page, "input") if one.get("name")}
    assert (fields["name"], fields["version"], fields["shape"]) == ("parity", "1", "1, 4, 4")
    assert fields["clean_accuracy"] == "0.5"
    assert "even\nodd</textarea>" in page.text
    again = ModelManifest.model_validate_json(model_manifest(model_fields(manifest)))
    assert again == ModelManifest.model_validate(manifest)
    assert console.get("/models?again=mdl_nothing").status_code == 200


def test_a_list_with_a_model_that_is_checked_follows_it(console: Console) -> None:
    send_model(console)
    page = console.get("/models")
    (live,) = [one for one in elements(page, "div") if "data-fragment" in one]
    assert live["data-fragment"] == "/models"
    assert "1 model is being checked." in words(page)
    make_ready(console.services)
    page = console.get("/models")
    assert not [one for one in elements(page, "div") if "data-fragment" in one]
    (part,) = [one for one in elements(page, "div") if one.get("id") == "progress"]
    assert part["data-over"] == "settled"
