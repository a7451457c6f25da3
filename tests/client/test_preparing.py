"""A folder or a file handed to the client says by itself what it is."""

import json
from pathlib import Path

import pytest

from seatrial.client.preparing import dataset_upload, model_upload
from tests.client.asking import MODEL, Asking, said


def test_a_folder_of_weights_brings_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    manifest = {"name": "digits", "task": "image-classification", "architecture": {"kind": "lenet"}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    source, told = model_upload(str(tmp_path), None)
    assert source == tmp_path / "w.safetensors"
    assert told == {**manifest, "version": told["version"]}
    # The file beside it says the same, and other weights are another version.
    assert model_upload(tmp_path / "w.safetensors", None) == (source, told)
    (tmp_path / "w.safetensors").write_bytes(b"others")
    assert model_upload(tmp_path, None)[1]["version"] != told["version"]
    one = Asking("sync", said(MODEL))
    one.ask("add_model", str(tmp_path))
    assert b'filename="w.safetensors"' in one.bodies[0]
    assert b'"name": "digits"' in one.bodies[0]


def test_a_hugging_face_folder_is_what_its_head_says(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    for name in ("model.safetensors", "pytorch_model.bin"):
        (tmp_path / name).write_bytes(b"weights")
    source, told = model_upload(tmp_path, None)
    assert (told["task"], told["architecture"]) == ("text-classification", {"kind": "huggingface"})
    with source.open("rb") as file:
        sent = file.read()
    assert b"model.safetensors" in sent
    assert b"pytorch_model.bin" not in sent
    assert model_upload(tmp_path, {"task": "text-pair-classification"})[1]["task"] == "text-pair-classification"


def test_data_are_for_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "digits" / "seven").mkdir(parents=True)
    (tmp_path / "digits" / "seven" / "1.png").write_bytes(b"picture")
    (tmp_path / "reviews.csv").write_text("text,label\ngood,1\n")
    source, told = dataset_upload(tmp_path / "digits", None)
    assert (told["name"], told["task"]) == ("digits", "image-classification")
    with source.open("rb") as file:
        assert b"seven/1.png" in file.read()
    assert dataset_upload(str(tmp_path / "reviews.csv"), None)[1]["task"] == "text-classification"


def test_what_says_nothing_of_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    with pytest.raises(ValueError, match=r"is not a model: it must hold manifest\.json \(missing\)"):
        model_upload(tmp_path, None)
    with pytest.raises(ValueError, match="has no manifest: give one"):
        model_upload(tmp_path / "w.safetensors", None)
    with pytest.raises(ValueError, match="cannot be inferred: give a manifest"):
        dataset_upload(tmp_path / "w.safetensors", None)


@pytest.mark.parametrize("manifest", [None, {"task": "image-classification"}])
def test_a_pickle_is_refused_at_once_with_the_command_that_converts_it(
    tmp_path: Path, manifest: dict[str, str] | None
) -> None:
    weights = tmp_path / "best.pth"
    weights.write_bytes(b"weights")
    for path in (weights, str(weights)):
        with pytest.raises(
            ValueError, match=r"best\.pth: pickle is never loaded, .* `seatrial convert FILE -o FOLDER`"
        ):
            model_upload(path, manifest)
    with pytest.raises(ValueError, match=r"best\.pth: pickle is never loaded"):
        model_upload(tmp_path, manifest)


def test_a_path_that_is_not_there_is_called_that(tmp_path: Path) -> None:
    for given in (None, {"name": "m"}):
        with pytest.raises(FileNotFoundError, match="there is no file or folder missing/path"):
            model_upload("missing/path", given)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        dataset_upload(tmp_path / "data.npz", None)
