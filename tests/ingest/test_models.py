import bz2
import gzip
import json
import lzma
import pickle
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.models.inspection import inspect_model
from seatrial.ingest.inspection.errors import (
    ContentError,
    EmptyFileError,
    InspectionError,
    MalformedFileError,
    ManifestMismatchError,
    PickleRefusedError,
    RemoteCodeRefusedError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.store.settings import Settings
from tests.ingest.builders import (
    HF_CONFIG,
    Payload,
    folder_manifest,
    hf_files,
    model_manifest,
    npz,
    safetensors,
    safetensors_of,
    tarred,
    torch_zip,
    zipped,
)

LIMITS = Settings()


def _inspect(tmp_path: Path, data: bytes, manifest: Any = None, limits: Settings = LIMITS) -> str:
    path = tmp_path / "upload"
    path.write_bytes(data)
    return inspect_model(path, "model.safetensors", manifest or model_manifest(), limits)


def test_formats_are_told_by_content(tmp_path: Path) -> None:
    assert _inspect(tmp_path, safetensors()) == "safetensors"
    assert _inspect(tmp_path, zipped({"weights.safetensors": safetensors()})) == "archive"
    assert _inspect(tmp_path, tarred({"m/weights.safetensors": safetensors(), "m/README.md": b"# hello"})) == "archive"
    assert _inspect(tmp_path, zipped(hf_files()), folder_manifest()) == "archive"
    wrapped = {f"resnet/{name}": data for name, data in hf_files().items()}
    assert _inspect(tmp_path, tarred(wrapped, "w:gz"), folder_manifest()) == "archive"


PICKLES = {
    **{f"protocol {protocol}": pickle.dumps({"w": [1.0, Payload()]}, protocol) for protocol in range(6)},
    "long protocol 0": pickle.dumps([f"weight {i}" for i in range(20_000)], 0),
    "long protocol 1": pickle.dumps([bytes(200_000), 1], 1),
    "gzip": gzip.compress(pickle.dumps(Payload())),
    "zlib": zlib.compress(pickle.dumps(Payload())),
    "bz2": bz2.compress(pickle.dumps(Payload())),
    "xz": lzma.compress(pickle.dumps(Payload())),
    "lzma": lzma.compress(pickle.dumps(Payload()), lzma.FORMAT_ALONE),
    "legacy torch": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2),
    "torch zip": torch_zip(),
    "legacy torch tar": tarred({"pickle": pickle.dumps({}, 2), "storages": b"\x00"}),
    "inside a zip": zipped({"model.safetensors": pickle.dumps(Payload())}),
    "inside a tar.gz": tarred({"m/config.json": pickle.dumps(Payload(), 0)}, "w:gz"),
    "gzip inside a zip": zipped({"model.safetensors": gzip.compress(pickle.dumps(Payload()))}),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_are_refused_in_every_disguise(tmp_path: Path, name: str) -> None:
    with pytest.raises(PickleRefusedError) as caught:
        _inspect(tmp_path, PICKLES[name])
    assert (caught.value.code, caught.value.status, caught.value.field) == ("pickle-refused", 415, "/file")
    with pytest.raises(PickleRefusedError):
        _inspect(tmp_path, PICKLES[name], folder_manifest())


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", EmptyFileError, "no bytes"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", UnsupportedFormatError, "HTML page"),
        (b"\n <html lang=en>", UnsupportedFormatError, "HTML page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            MalformedFileError,
            "git lfs pull",
        ),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), UnsupportedFormatError, "hdf5"),
        (b"just some text", UnsupportedFormatError, "text"),
        (npz(a=np.zeros(3)), UnsupportedFormatError, "not safetensors"),
        (zipped({"a.zip": zipped({"b.zip": zipped({"c": b""})})}), UnsafeArchiveError, "itself"),
        (zipped({"a.safetensors": safetensors(), "b.safetensors": safetensors()}), ManifestMismatchError, "exactly"),
        (zipped({"notes.txt": b"no weights"}), ManifestMismatchError, "holds 0"),
        (zipped({"w.safetensors": safetensors(), "run.py": b"import os"}), RemoteCodeRefusedError, "run.py"),
        (zipped({"w.safetensors": b"version https://git-lfs.github.com/spec/v1\n"}), MalformedFileError, "git lfs"),
        (zipped({"w.safetensors": b"hello"}), MalformedFileError, "look like text"),
        (zipped({"w": safetensors()})[:-30], MalformedFileError, "truncated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_model_is_named(tmp_path: Path, data: bytes, error: type[InspectionError], says: str) -> None:
    with pytest.raises(error, match=says):
        _inspect(tmp_path, data)


def _entry(**changes: Any) -> dict[str, Any]:
    return {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (safetensors()[:-1], "truncated"),
        (safetensors()[:20], "truncated"),
        (safetensors() + b"\x00", "too long"),
        (safetensors_of({}, b""), "no tensor"),
        (safetensors_of(b'{"w": {"dtype"', b""), "JSON"),
        (safetensors_of(b'{"a":' * 100_000, b""), "JSON|describes"),
        (safetensors_of(_entry(dtype="F99"), bytes(8)), "unknown type"),
        (safetensors_of(_entry(shape=[3]), bytes(8)), "needs 12 bytes"),
        (safetensors_of(_entry(shape=[-2]), bytes(8)), "whole numbers"),
        (safetensors_of(_entry(shape=[2.0]), bytes(8)), "whole numbers"),
        (safetensors_of(_entry(shape=[2**62] * 16), bytes(8)), "needs"),
        (safetensors_of(_entry(data_offsets=[8, 16]), bytes(16)), "hole"),
        (safetensors_of({**_entry(), "v": _entry(data_offsets=[4, 12])["w"]}, bytes(12)), "overlap"),
        (safetensors_of({"w": [1]}, bytes(8)), "exactly"),
        (safetensors_of({**_entry(), "__metadata__": {"a": 1}}, bytes(8)), "metadata"),
        (safetensors_of(b'{"w":' + json.dumps(_entry()["w"]).encode() + b',"w":1}', bytes(8)), "twice"),
        (safetensors_of(b'{"w":' + b"[1," * 600_000 + b"}", b""), "describes more"),
        ((2**31).to_bytes(8, "little") + b"{}" + bytes(100), "claims"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_safetensors_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(MalformedFileError, match=says):
        _inspect(tmp_path, data)
    with pytest.raises(MalformedFileError, match=says):
        _inspect(tmp_path, zipped({"m.safetensors": data}, zipfile.ZIP_STORED))


def _config(**changes: Any) -> bytes:
    return json.dumps({**HF_CONFIG, **changes}).encode()


def _index(**files: str) -> bytes:
    return json.dumps({"weight_map": files}).encode()


_SHARDS: dict[str, bytes | None] = {
    "model.safetensors": None,
    "model-1.safetensors": safetensors({"a": np.zeros(1, "<f4")}),
    "model-2.safetensors": safetensors({"b": np.zeros(1, "<f4")}),
    "model.safetensors.index.json": _index(a="model-1.safetensors", b="model-2.safetensors"),
}


def test_a_sharded_folder_is_accepted(tmp_path: Path) -> None:
    assert _inspect(tmp_path, zipped(hf_files(**_SHARDS)), folder_manifest()) == "archive"


@pytest.mark.parametrize(
    ("changes", "error", "field", "says"),
    [
        ({"config.json": None}, ContentError, "/file", "config.json"),
        ({"config.json": b"{"}, MalformedFileError, "/file", "JSON"),
        ({"config.json": b"[]"}, MalformedFileError, "/file", "object"),
        ({"config.json": b"{}"}, ContentError, "/file", "model_type"),
        ({"config.json": _config(auto_map={"AutoConfig": "x.Y"})}, RemoteCodeRefusedError, "/file", "auto_map"),
        ({"preprocessor_config.json": b'{"auto_map": {"a": "b"}}'}, RemoteCodeRefusedError, "/file", "auto_map"),
        ({"modeling_x.py": b"import os"}, RemoteCodeRefusedError, "/file", "modeling_x.py"),
        ({"config.json": _config(quantization_config={"bits": 4})}, ContentError, "/file", "quantised"),
        ({"config.json": _config(num_hidden_layers=10**7)}, ContentError, "/file", "layers"),
        (
            {"config.json": _config(architectures=["ResNetModel"])},
            ManifestMismatchError,
            "/manifest/task",
            "ResNetModel",
        ),
        ({"config.json": _config(id2label={"0": "a", "2": "b"})}, ContentError, "/file", "gap"),
        ({"pytorch_model.bin": b"\x00" * 10}, UnsupportedFormatError, "/file", "safe_serialization"),
        ({"training_args.bin": torch_zip()}, UnsafeArchiveError, "/file", "torch.save"),
        ({"model.safetensors": None}, ContentError, "/file", "none"),
        ({"preprocessor_config.json": None}, ContentError, "/manifest/input", "preprocessor"),
        ({"adapter_config.json": b"{}"}, ContentError, "/file", "adapter"),
        ({**_SHARDS, "model-2.safetensors": None}, ContentError, "/file", "not in the folder"),
        ({**_SHARDS, "model-2.safetensors": safetensors()}, ContentError, "/file", "disagree"),
        ({**_SHARDS, "model.safetensors.index.json": b"{}"}, ContentError, "/file", "weight_map"),
        ({"other/config.json": _config(), "other/x.txt": b""}, None, "", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_huggingface_folders(
    tmp_path: Path, changes: dict[str, Any], error: type[InspectionError] | None, field: str, says: str
) -> None:
    data = zipped(hf_files(**changes))
    if error is None:
        assert _inspect(tmp_path, data, folder_manifest()) == "archive"
        return
    with pytest.raises(error, match=says) as caught:
        _inspect(tmp_path, data, folder_manifest())
    assert caught.value.field == field


def test_text_folders_need_a_tokenizer_and_labels_of_the_right_number(tmp_path: Path) -> None:
    config = json.dumps({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}).encode()
    files = hf_files(**{"config.json": config, "preprocessor_config.json": None})
    text = folder_manifest(task="text-classification")
    with pytest.raises(ContentError, match="tokenizer"):
        _inspect(tmp_path, zipped(files), text)
    assert _inspect(tmp_path, zipped({**files, "vocab.txt": b"[PAD]\nthe\n"}), text) == "archive"
    three = _config(id2label={"0": "a", "1": "b", "2": "c"})
    with pytest.raises(ManifestMismatchError) as caught:
        _inspect(tmp_path, zipped(hf_files(**{"config.json": three})), folder_manifest(labels=["a", "b"]))
    assert caught.value.field == "/manifest/labels"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"architecture": {"kind": "layers", "layers": [["conv", *[1] * 7]]}}, "layers"),
        ({"architecture": {"kind": "layers", "layers": [["x" * 10_000]]}}, "layers"),
        ({"input": {"shape": [1, 2, 2], "mean": [0.0] * 5000, "std": [1.0]}}, "mean"),
        ({"input": {"shape": [1, 2, 2], "mean": [0.0], "std": [1.0] * 5000}}, "std"),
    ],
)
def test_lists_of_a_manifest_are_bounded(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match="at most") as caught:
        model_manifest(**changes)
    assert any(where in error["loc"] for error in caught.value.errors())


def test_a_bare_file_is_no_folder_and_limits_hold(tmp_path: Path) -> None:
    with pytest.raises(ManifestMismatchError) as caught:
        _inspect(tmp_path, safetensors(), folder_manifest())
    assert caught.value.field == "/manifest/architecture"
    with pytest.raises(UploadTooLargeError) as too_large:
        _inspect(tmp_path, safetensors(), limits=Settings(max_model_bytes=10))
    assert too_large.value.status == 413


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True], ids=["bare", "in a tar"])
def test_memory_does_not_grow_with_the_weights(tmp_path: Path, is_packed: bool) -> None:
    size = 300 * 2**20
    head = safetensors_of({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}})
    path = tmp_path / "big"
    with path.open("wb") as file:
        if is_packed:
            block = bytearray(tarred({"m.safetensors": b""})[:512])
            block[124:136] = b"%011o\0" % (size + len(head))
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
            file.write(block)
        file.write(head)
        # A hole in the file: zeros that take no disk.
        file.truncate((512 if is_packed else 0) + len(head) + size)
        if is_packed:
            file.truncate(-(-file.seek(0, 2) // 512) * 512 + 1024)
    tracemalloc.start()
    inspect_model(path, "big", model_manifest(), LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 2**20
