"""What the gate makes of the files it is given: manifests filled in, folders as archives."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.exits import BadRequestError
from app.cli.uploads import Prepared, data_task, prepare_data, prepare_model
from seatrial.client import Client
from seatrial.client.folder_archive import FolderArchive
from seatrial.ingest.archives import check_archive
from seatrial.ingest.conversion import CONVERT
from seatrial.store.settings import Settings

TEXTS = "text-classification"
CONFIG = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
NAMED = {**CONFIG, "id2label": {"0": "bad", "1": "good"}}


@pytest.fixture
def hugging_face(tmp_path: Path) -> Callable[..., Path]:
    """Return what makes a Hugging Face folder around a config."""

    def make(config: dict[str, Any], manifest: dict[str, Any] | None = None) -> Path:
        folder = tmp_path / "My model!"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        for name in ("model.safetensors", "tokenizer.json", "vocab.txt", "pytorch_model.bin", "handler.py", ".hidden"):
            (folder / name).write_bytes(b"x")
        (folder / "onnx").mkdir()
        (folder / "onnx" / "model.onnx").write_bytes(b"x")
        if manifest is not None:
            (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    return make


def prepared(folder: Path, task: str | None = None, **options: Any) -> Prepared:
    return prepare_model(folder, for_task=task, say=lambda line: None, **options)


def names_in(source: Any) -> list[str]:
    with source.open("rb") as file, tarfile.open(fileobj=file) as archive:
        return archive.getnames()


def test_a_hugging_face_folder_needs_no_manifest(hugging_face: Callable[..., Path]) -> None:
    said: list[str] = []
    folder = hugging_face(NAMED)
    model = prepare_model(folder, for_task=None, say=said.append)
    assert model.manifest["task"] == TEXTS
    assert model.manifest["labels"] == ["bad", "good"]
    assert model.manifest["architecture"] == {"kind": "huggingface"}
    assert model.manifest["name"] == "My-model-"
    assert names_in(model.source) == ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]
    taken, left_out = said
    assert "of pairs its task is text-pair-classification" in taken
    assert "handler.py, pytorch_model.bin" in left_out
    # Of data that are known, nothing was assumed.
    said.clear()
    prepare_model(folder, for_task="text-pair-classification", say=said.append)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("config", "data", "task"),
    [
        (CONFIG, TEXTS, TEXTS),
        (CONFIG, "text-pair-classification", "text-pair-classification"),
        (CONFIG, "image-classification", TEXTS),
        (CONFIG, None, TEXTS),
        ({**CONFIG, "problem_type": "multi_label_classification"}, TEXTS, "multi-label-classification"),
        ({"architectures": ["ViTForImageClassification"]}, None, "image-classification"),
        ({"architectures": ["BertForTokenClassification"]}, TEXTS, "token-classification"),
    ],
    ids=["texts", "pairs", "other-data", "nothing-known", "multi-label", "images", "tokens"],
)
def test_the_task_is_told_from_config_and_data(
    hugging_face: Callable[..., Path], config: dict[str, Any], data: str | None, task: str
) -> None:
    assert prepared(hugging_face(config), data).task == task


@pytest.mark.parametrize("config", [{}, {"architectures": ["BertModel"]}], ids=["none", "no-head"])
def test_a_task_that_cannot_be_told_is_asked_for(hugging_face: Callable[..., Path], config: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match=r'write .*manifest\.json, e\.g\. {"task": "text-classification"}'):
        prepared(hugging_face(config))


def test_a_manifest_goes_before_what_is_told_from_files(hugging_face: Callable[..., Path]) -> None:
    folder = hugging_face(NAMED, {"task": "text-pair-classification", "name": "mine", "version": "7"})
    manifest = prepared(folder, TEXTS).manifest
    assert (manifest["task"], manifest["name"], manifest["version"]) == ("text-pair-classification", "mine", "7")
    assert prepared(folder, version="abc123").manifest["version"] == "abc123"


def test_numbered_labels_are_no_class_names(hugging_face: Callable[..., Path]) -> None:
    config = {**CONFIG, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}
    assert "labels" not in prepared(hugging_face(config)).manifest


def test_weights_in_other_formats_alone_are_refused_with_what_to_do(hugging_face: Callable[..., Path]) -> None:
    folder = hugging_face(CONFIG)
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadRequestError, match="safe_serialization=True"):
        prepared(folder)


def test_the_version_of_a_model_is_told_from_its_content(hugging_face: Callable[..., Path]) -> None:
    folder = hugging_face(CONFIG)
    first = prepared(folder).manifest["version"]
    assert prepared(folder).manifest["version"] == first
    (folder / "model.safetensors").write_bytes(b"other weights")
    second = prepared(folder).manifest["version"]
    (folder / "manifest.json").write_text(json.dumps({"labels": ["a", "b"]}))
    assert len({first, second, prepared(folder).manifest["version"]}) == 3


def test_one_safetensors_beside_its_manifest_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "m", "architecture": {"kind": "lenet"}}))
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"x")
    for path in (tmp_path, weights):
        model = prepared(path)
        assert model.source == weights
        assert model.manifest["name"] == "m"
    (tmp_path / "more.safetensors").write_bytes(b"y")
    with pytest.raises(BadRequestError, match=r"more\.safetensors, weights\.safetensors"):
        prepared(tmp_path)


def test_the_name_of_an_exported_program_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "m", "labels": ["a", "b"]}))
    program = tmp_path / "model.pt2"
    program.write_bytes(b"x")
    for path in (tmp_path, program):
        model = prepared(path) if path.is_dir() else None
        if model is not None:
            assert (model.source, model.task) == (program, "image-classification")
            assert model.manifest["architecture"] == {"kind": "exported"}
    (tmp_path / "manifest.json").rename(tmp_path / "model.pt2.manifest.json")
    assert prepared(program).manifest["architecture"] == {"kind": "exported"}


@pytest.mark.parametrize("name", ["empty", "empty.safetensors"])
def test_what_is_no_model_is_refused_with_what_one_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"x") if path.suffix else path.mkdir()
    with pytest.raises(BadRequestError, match=r"manifest\.json"):
        prepared(path)


@pytest.mark.parametrize("name", ["model.pt", "pytorch_model.bin", "forest.pkl"])
@pytest.mark.parametrize("is_folder_given", [False, True], ids=["file", "folder"])
def test_pickled_weights_are_refused_with_the_format_to_save_them_in(
    tmp_path: Path, name: str, is_folder_given: bool
) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "m", "architecture": {"kind": "layers"}}))
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BadRequestError, match=rf"{name}: pickle is never loaded.*{re.escape(CONVERT)}"):
        prepared(tmp_path if is_folder_given else tmp_path / name)


def test_an_endpoint_is_its_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "reviews.json"
    manifest.write_text(json.dumps({"task": TEXTS, "architecture": {"kind": "endpoint", "url": "https://x.example"}}))
    model = prepared(manifest)
    assert (model.is_endpoint, model.manifest["name"]) == (True, "reviews")
    manifest.write_text("{}")
    with pytest.raises(BadRequestError, match="not the manifest of an endpoint"):
        prepared(manifest)


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("a.csv", "text,label\nx,1\n", TEXTS),
        ("a.csv", '\ufeff"text","label"\nx,1\n', TEXTS),
        ("a.csv", "premise,hypothesis,label\nx,y,1\n", "text-pair-classification"),
        ("a.jsonl", '{"label": 1, "text": "x"}\n', TEXTS),
        ("a.jsonl", '{"text": "x", "labels": []}\n', "multi-label-classification"),
        ("a.jsonl", '{"tokens": [], "tags": []}\n', "token-classification"),
        ("a.csv", "review,stars\nx,1\n", None),
        ("a.npz", "PK", "image-classification"),
        ("a.conllu", "# text = x\n1\tx\tx\tX\n", "token-classification"),
    ],
    ids=["csv", "quoted", "pairs", "jsonl", "multi-label", "tokens", "other-columns", "arrays", "sentences"],
)
def test_what_data_are_for_is_told_from_their_columns(
    tmp_path: Path, name: str, content: str, task: str | None
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert data_task(tmp_path / name) == task


def test_data_take_task_and_class_names_from_the_model(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\nx,good\n")
    data = prepare_data(path, None, model=Prepared({"task": TEXTS, "labels": ["bad", "good"]}, path))
    assert data.manifest["labels"] == ["bad", "good"]
    assert (data.manifest["name"], data.manifest["task"], data.source) == ("reviews", TEXTS, path)


def test_a_manifest_beside_the_data_is_found_and_a_models_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("review,stars\nx,1\n")
    (tmp_path / "manifest.json").write_text(json.dumps({"task": "other", "architecture": {}}))
    with pytest.raises(BadRequestError, match=r"reviews\.csv\.manifest\.json"):
        prepare_data(path, None, model=None)
    (tmp_path / "manifest.json").write_text(json.dumps({"task": TEXTS, "columns": {"text": "review"}}))
    assert prepare_data(path, None, model=None).manifest["columns"] == {"text": "review"}
    (tmp_path / "reviews.csv.manifest.json").write_text(json.dumps({"task": TEXTS, "name": "own"}))
    assert prepare_data(path, None, model=None).manifest["name"] == "own"


def test_class_folders_of_images_are_archived_whole(tmp_path: Path) -> None:
    for name in ("cats/1.png", "dogs/2.png", ".git/config", "cats/.DS_Store"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    data = prepare_data(tmp_path / "images", None, model=None)
    assert names_in(data.source) == ["cats/1.png", "dogs/2.png"]
    assert data.task == "image-classification"
    (tmp_path / "none").mkdir()
    with pytest.raises(BadRequestError, match="holds no files"):
        prepare_data(tmp_path / "none", None, model=None)


CONTENTS = st.dictionaries(
    st.text("abcé_", min_size=1, max_size=120).map(lambda name: f"deep/{name}"),
    st.binary(max_size=2000),
    min_size=1,
    max_size=5,
)


@given(CONTENTS, st.integers(1, 3000))
def test_an_archive_is_read_back_as_its_files_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes], piece: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    files = {}
    for number, (name, content) in enumerate(contents.items()):
        files[name] = folder / str(number)
        files[name].write_bytes(content)
    archive = FolderArchive("a.tar", files)
    with archive.open() as file:
        packed = b"".join(iter(lambda: file.read(piece), b""))
        assert file.seek(0, io.SEEK_END) == len(packed)
        middle = len(packed) // 3
        file.seek(middle)
        assert file.read() == packed[middle:]
    with tarfile.open(fileobj=io.BytesIO(packed)) as read:
        assert {one.name: read.extractfile(one).read() for one in read.getmembers()} == contents
    (folder / "a.tar").write_bytes(packed)
    assert {entry.name for entry in check_archive(folder / "a.tar", Settings())} == set(contents)


def test_an_archive_is_sent_with_its_length_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.client.sync_session.time.sleep", lambda seconds: None)
    (tmp_path / "weights").write_bytes(bytes(100_000))
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        assert int(request.headers["Content-Length"]) == len(bodies[-1])
        return httpx.Response(503 if len(bodies) < 2 else 422, json={"title": "T", "status": 422})

    archive = FolderArchive("m.tar", {"weights": tmp_path / "weights"})
    with Client("http://service", transport=httpx.MockTransport(answer)) as client, pytest.raises(Exception, match="T"):
        client.add_model(archive, {})
    assert len(bodies) == 2
    assert all(bytes(100_000) in body for body in bodies)


def test_a_file_that_becomes_shorter_while_it_is_sent_is_told(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(1000))
    archive = FolderArchive("m.tar", {"weights": path})
    path.write_bytes(bytes(10))
    with archive.open() as file, pytest.raises(OSError, match="became shorter"):
        file.read()


def test_a_folder_of_members_is_sent_as_an_archive_of_them(tmp_path: Path) -> None:
    described = {
        "task": "image-classification",
        "architecture": {"kind": "ensemble", "members": [{"kind": "lenet"}] * 2},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(described))
    for name in ("one.safetensors", "two.safetensors"):
        (tmp_path / name).write_bytes(b"x")
    assert names_in(prepared(tmp_path).source) == ["one.safetensors", "two.safetensors"]
    (tmp_path / "two.safetensors").unlink()
    assert prepared(tmp_path).source == tmp_path / "one.safetensors"


@pytest.mark.parametrize(
    ("folders", "wanted"),
    [
        (["one", "two", "zero"], ["zero", "one", "two"]),
        (["two", "one"], ["zero", "one", "two"]),
        (["one", "three"], None),
    ],
)
def test_class_folders_of_the_model_s_names_are_numbered_as_the_model_numbers_them(
    tmp_path: Path, folders: list[str], wanted: list[str] | None
) -> None:
    for name in folders:
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "a.png").write_bytes(b"")
    labels = ["zero", "one", "two"]
    model = Prepared({"task": "image-classification", "labels": labels}, tmp_path)
    prepared = prepare_data(tmp_path / "images", None, model=model)
    # Other names are refused by the service, which says what differs.
    assert prepared.manifest.get("labels") == wanted
