import io
import json
import pickle
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.inspection import inspect_dataset
from app.web.bodies import parse_json
from app.web.problems import InvalidRequestError
from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.inspection.errors import (
    ContentError,
    EmptyFileError,
    InspectionError,
    MalformedFileError,
    ManifestMismatchError,
    PickleRefusedError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.store.settings import Settings
from tests.ingest.builders import Payload, dataset_manifest, images_npz, npz, png, tarred, torch_zip, zipped

LIMITS = Settings()


def _inspect(tmp_path: Path, data: bytes, limits: Settings = LIMITS, **manifest: Any) -> DatasetFacts:
    path = tmp_path / "upload"
    path.write_bytes(data)
    return inspect_dataset(path, "test.npz", dataset_manifest(**manifest), limits)


def _floats(**at: float) -> np.ndarray:
    images = np.full((20, 3, 4, 4), 0.5, np.float32)
    for value in at.values():
        images[7, 1, 2, 3] = value
    return images


BYTES = np.arange(20 * 48, dtype=np.uint8).reshape(20, 3, 4, 4)


def test_npz_facts(tmp_path: Path) -> None:
    facts = _inspect(tmp_path, images_npz(class_names=np.array(list("abcd"))))
    assert facts == DatasetFacts(
        format="npz",
        examples=20,
        classes=4,
        shape=[3, 4, 4],
        label_counts={"0": 5, "1": 5, "2": 5, "3": 5},
        labels=list("abcd"),
        on_grid=True,
    )


@pytest.mark.parametrize(
    ("images", "on_grid"),
    [
        (BYTES, True),
        (BYTES / np.float32(255), True),
        (BYTES / 255.0, True),
        # Half precision cannot hold multiples of 1 / 255.
        ((BYTES / 255.0).astype(np.float16), False),
        (_floats(other=0.5 + 0.4 / 16320), False),
        (_floats(finer=0.5 + 1 / 16320), True),
    ],
)
def test_floats_off_the_grid_of_certificates_are_said(tmp_path: Path, images: np.ndarray, on_grid: bool) -> None:
    assert _inspect(tmp_path, images_npz(images=images)).on_grid is on_grid


@pytest.mark.parametrize(
    ("images", "layout", "shape"),
    [
        (np.zeros((20, 8, 9, 3), np.uint8), None, [3, 8, 9]),
        (np.zeros((20, 1, 8, 9), np.uint8), None, [1, 8, 9]),
        (np.zeros((20, 8, 9), np.uint8), None, [1, 8, 9]),
        (np.zeros((20, 3, 8, 3), np.uint8), None, [3, 8, 3]),
        (np.zeros((20, 3, 8, 3), np.uint8), "NHWC", [3, 3, 8]),
        (np.ones((20, 1, 8, 9), ">f8"), None, [1, 8, 9]),
        (np.asfortranarray(np.ones((20, 1, 8, 9), np.float16)), None, [1, 8, 9]),
    ],
)
def test_layouts_and_types(tmp_path: Path, images: np.ndarray, layout: str | None, shape: list[int]) -> None:
    more = {} if layout is None else {"layout": np.array(layout)}
    assert _inspect(tmp_path, images_npz(images=images, **more)).shape == shape


def test_columns_name_other_arrays_and_the_manifest_names_classes(tmp_path: Path) -> None:
    data = npz(x=np.zeros((4, 8, 8), np.uint8), y=np.array([[0], [1], [1], [0]], np.uint8))
    facts = _inspect(tmp_path, data, columns={"image": "x", "label": "y"}, labels=["cat", "dog", "eel"])
    assert (facts.labels, facts.classes, facts.label_counts) == (["cat", "dog", "eel"], 3, {"0": 2, "1": 2})


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"images": _floats(bad=np.nan)}, ContentError, "nan in image 7"),
        ({"images": _floats(bad=np.inf)}, ContentError, "inf in image 7"),
        ({"images": _floats(bad=-0.5)}, ContentError, "normalisation"),
        ({"images": _floats() * 255}, ContentError, "divide by 255"),
        ({"images": np.zeros((20, 3, 4, 4), np.int64)}, ContentError, "uint8"),
        ({"images": np.zeros((20, 4, 8, 8), np.uint8)}, ContentError, "channels"),
        ({"images": np.zeros((20, 64), np.uint8)}, ContentError, "shape"),
        ({"images": np.zeros((20, 3, 0, 4), np.uint8)}, ContentError, "sides"),
        ({"images": np.zeros((0, 3, 4, 4), np.uint8), "labels": np.zeros(0, int)}, ContentError, "no examples"),
        ({"images": np.array([None] * 20, object)}, PickleRefusedError, "object array"),
        ({"extra": np.array([Payload()], object)}, PickleRefusedError, "object array"),
        ({"extra": np.zeros(3, [("a", "O"), ("b", "i4")])}, PickleRefusedError, "object"),
        ({"extra": np.zeros(3, [("a", "i4")])}, ContentError, "structured"),
        ({"labels": np.arange(20) - 1}, ContentError, r"labels\[0\] is -1"),
        ({"labels": np.arange(19)}, ContentError, "one label number per image"),
        ({"labels": np.eye(20)}, ContentError, "whole numbers"),
        ({"labels": np.eye(20, dtype=int)}, ContentError, "one label number per image"),
        ({"labels": np.full(20, 2**62)}, ContentError, "class numbers"),
        ({"labels": np.full(20, 2**64 - 1, np.uint64)}, ContentError, "class numbers"),
        ({"class_names": np.array(["a", "b"])}, ContentError, r"labels\[2\] is 2: .* 0 to 1"),
        ({"class_names": np.array(["a", "b", "c", "a"])}, ContentError, "distinct"),
        ({"class_names": np.arange(4)}, ContentError, "strings"),
    ],
)
def test_what_an_npz_must_not_hold(tmp_path: Path, changes: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        _inspect(tmp_path, images_npz(**changes))


def test_numbers_beyond_a_chunk_are_looked_at(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((3000, 1, 28, 28), np.float32)
    images[2999, 0, 27, 27] = np.nan
    with pytest.raises(ContentError, match="image 2999"):
        _inspect(tmp_path, npz(images=images, labels=np.zeros(3000, int)))


def test_npz_and_manifest_must_agree(tmp_path: Path) -> None:
    with pytest.raises(ManifestMismatchError) as caught:
        _inspect(tmp_path, images_npz(class_names=np.array(list("abcd"))), labels=list("abdc"))
    assert caught.value.field == "/manifest/labels"
    with pytest.raises(ContentError, match="it has: images, labels") as missing:
        _inspect(tmp_path, images_npz(), columns={"image": "pixels"})
    assert missing.value.field == "/manifest/columns/image"
    with pytest.raises(UnsupportedFormatError) as task:
        _inspect(tmp_path, images_npz(), task="text-classification")
    assert task.value.field == "/manifest/task"


def test_limits(tmp_path: Path) -> None:
    for limits in (Settings(max_examples=10), Settings(max_dataset_bytes=100), Settings(max_archive_bytes=500)):
        with pytest.raises(UploadTooLargeError):
            _inspect(tmp_path, images_npz(), limits)
    sorted_labels = np.repeat(np.arange(4), 100_000)
    blank = np.zeros((400_000, 1, 2, 2), np.uint8)
    assert _inspect(tmp_path, npz(images=blank, labels=sorted_labels)).examples == 400_000


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", EmptyFileError, "no bytes"),
        (b"label,text\n0,hello\n", UnsupportedFormatError, "class folders"),
        (b"<html><body>403</body></html>", UnsupportedFormatError, "HTML"),
        (pickle.dumps({"images": 1}), PickleRefusedError, "pickle"),
        (torch_zip(), PickleRefusedError, "pickle"),
        (images_npz()[:-40], MalformedFileError, "truncated"),
        (zipped({"images.npy": b"\x93NUMPY\x01\x00"}), MalformedFileError, "truncated"),
        (zipped({"images.npy": b"\x93NUMPY\x01\x00\x02\x00{}"}), MalformedFileError, "does not parse"),
        (zipped({"images.npy": pickle.dumps(Payload())}), InspectionError, "not a NumPy array"),
        (zipped({"b": pickle.dumps(Payload()), "images.npy": b""}), PickleRefusedError, "'b' is a pickle"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_dataset_is_named(tmp_path: Path, data: bytes, error: type[InspectionError], says: str) -> None:
    with pytest.raises(error, match=says):
        _inspect(tmp_path, data)


def test_an_array_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((20, 3, 4, 4), np.uint8))
    with pytest.raises(MalformedFileError, match="needs 960 bytes"):
        _inspect(tmp_path, zipped({"images.npy": buffer.getvalue()[:-5], "labels.npy": b""}))


FOLDER = {f"{label}/{number}.png": png(seed=number) for label in ("dog", "cat") for number in range(3)}


@pytest.mark.parametrize("pack", [zipped, tarred, lambda files: tarred(files, "w:gz")], ids=["zip", "tar", "tar.gz"])
def test_image_folder_facts(tmp_path: Path, pack: Any) -> None:
    files = {**FOLDER, "README.md": b"# pets", "dog/Thumbs.db": b"\x00"}
    facts = _inspect(tmp_path, pack(files))
    assert facts == DatasetFacts(
        format="image_folder",
        examples=6,
        classes=2,
        shape=[3, 4, 4],
        label_counts={"0": 3, "1": 3},
        labels=["cat", "dog"],
        on_grid=True,
    )
    below = {f"pets/test/{name}": data for name, data in FOLDER.items()}
    assert _inspect(tmp_path, pack(below)) == facts
    both = {**below, **{f"pets/train/{name}": data for name, data in list(FOLDER.items())[:4]}}
    assert _inspect(tmp_path, pack(both)) == facts
    assert _inspect(tmp_path, pack(both), split="train").label_counts == {"0": 1, "1": 3}
    listed = _inspect(tmp_path, pack(FOLDER), labels=["dog", "eel", "cat"])
    assert (listed.label_counts, listed.classes) == ({"0": 3, "2": 3}, 3)


def test_images_of_many_kinds(tmp_path: Path) -> None:
    kinds = {
        "a/1.jpg": png(kind="JPEG"),
        "a/2.webp": png(kind="WEBP"),
        "b/3.bmp": png(kind="BMP"),
        "b/4.ppm": png(kind="PPM"),
    }
    assert _inspect(tmp_path, zipped(kinds)).shape == [3, 4, 4]
    assert _inspect(tmp_path, zipped({"a/1.png": png(mode="L"), "b/1.png": png(mode="L")})).shape == [1, 4, 4]
    assert _inspect(tmp_path, zipped({"a/1.png": png(mode="L"), "b/1.png": png(mode="RGBA")})).shape == [3, 4, 4]
    assert _inspect(tmp_path, zipped({"a/1.png": png((5, 4)), "b/1.png": png()})).shape is None


def _wide_png() -> bytes:
    data = bytearray(png())
    data[16:24] = (20_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("files", "error", "field", "says"),
    [
        ({"1.png": png()}, ContentError, "/file", "class folder"),
        ({"README.md": b"nothing"}, ContentError, "/file", "no images"),
        ({**FOLDER, "dog/9.png": b"hello"}, ContentError, "/file", "not an image"),
        ({**FOLDER, "dog/9.png": png()[:20]}, ContentError, "/file", "not an image"),
        ({**FOLDER, "dog/9.png": b""}, EmptyFileError, "/file", "no bytes"),
        ({**FOLDER, "dog/9.png": pickle.dumps(Payload())}, PickleRefusedError, "/file", "pickle"),
        ({**FOLDER, "labels.txt": pickle.dumps(Payload())}, PickleRefusedError, "/file", "pickle"),
        ({**FOLDER, "dog/9.png": _wide_png()}, ContentError, "/file", "20000|read"),
        ({**FOLDER, "dog/9.tiff": b"II*\x00" + bytes(50)}, ContentError, "/file", "neither"),
        ({**FOLDER, "more.zip": zipped({"a": b""})}, UnsafeArchiveError, "/file", "itself"),
        ({**FOLDER, "deep/er/1.png": png()}, ContentError, "/file", "Class folders lie"),
        ({f"train/{n}": d for n, d in FOLDER.items()}, ManifestMismatchError, "/manifest/split", "split train"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_image_folders_that_are_refused(
    tmp_path: Path, files: dict[str, bytes], error: type[InspectionError], field: str, says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        _inspect(tmp_path, zipped(files))
    assert caught.value.field == field


def test_an_unlisted_class_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestMismatchError, match="dog") as caught:
        _inspect(tmp_path, zipped(FOLDER), labels=["cat", "eel"])
    assert caught.value.field == "/manifest/labels"


def parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


ENCODED = [png(seed=number) for number in range(6)]
STRUCTS = pa.array([{"bytes": data, "path": f"{n}.png"} for n, data in enumerate(ENCODED)])


def _huggingface_names(table: pa.Table, names: list[str]) -> pa.Table:
    info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    return table.replace_schema_metadata({"huggingface": json.dumps(info)})


def test_parquet_facts(tmp_path: Path) -> None:
    plain = pa.table({"image": ENCODED, "label": [0, 1, 2, 0, 1, 2]})
    facts = _inspect(tmp_path, parquet(plain))
    assert (facts.format, facts.examples, facts.classes, facts.shape, facts.labels) == (
        "parquet",
        6,
        3,
        [3, 4, 4],
        None,
    )
    structs = _huggingface_names(pa.table({"image": STRUCTS, "label": [0, 1, 2, 0, 1, 2]}), ["x", "y", "z"])
    assert _inspect(tmp_path, parquet(structs, row_group_size=2)).labels == ["x", "y", "z"]
    words = pa.array(["dog", "cat", "dog", "dog", "cat", "dog"])
    for label in (words, words.dictionary_encode()):
        named = _inspect(
            tmp_path, parquet(pa.table({"img": ENCODED, "y": label})), columns={"image": "img", "label": "y"}
        )
        assert (named.labels, named.label_counts) == (["cat", "dog"], {"0": 2, "1": 4})


@pytest.mark.parametrize(
    ("table", "error", "field", "says"),
    [
        ({"label": [0]}, ContentError, "/manifest/columns/image", "it has: label"),
        ({"image": ENCODED[:1]}, ContentError, "/manifest/columns/label", "it has: image"),
        ({"image": ["a.png"], "label": [0]}, ContentError, "/manifest/columns/image", "encoded"),
        ({"image": ENCODED[:1], "label": [0.5]}, ContentError, "/manifest/columns/label", "class numbers"),
        ({"image": ENCODED[:2], "label": [0, -1]}, ContentError, "/file", "is -1"),
        ({"image": [ENCODED[0], None], "label": [0, 1]}, ContentError, "/file", "empty image"),
        ({"image": ENCODED[:2], "label": [0, None]}, ContentError, "/file", "empty image or label"),
        ({"image": [ENCODED[0], b"hello"], "label": [0, 1]}, ContentError, "/file", "row 1"),
        ({"image": [ENCODED[0], pickle.dumps(Payload())], "label": [0, 1]}, PickleRefusedError, "/file", "row 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parquet_files_that_are_refused(
    tmp_path: Path, table: dict[str, Any], error: type[InspectionError], field: str, says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        _inspect(tmp_path, parquet(pa.table(table)))
    assert caught.value.field == field


def test_a_truncated_parquet_is_refused(tmp_path: Path) -> None:
    data = parquet(pa.table({"image": ENCODED, "label": [0] * 6}))
    for end in (4, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(InspectionError):
            _inspect(tmp_path, data[:end])


def test_memory_does_not_grow_with_the_arrays(tmp_path: Path) -> None:
    path = tmp_path / "big.npz"
    rows = 200_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, shape, kind in (("images", (rows, 1, 16, 16), "<f4"), ("labels", (rows,), "<i8")):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = np.lib.format
                header.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
                left = int(np.prod(shape)) * np.dtype(kind).itemsize
                block = bytes(2**22)
                while left:
                    left -= file.write(block[: min(left, len(block))])
    assert path.stat().st_size > 200 * 10**6
    tracemalloc.start()
    facts = inspect_dataset(path, "big.npz", dataset_manifest(), LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert facts.examples == rows
    assert peak < 24 * 2**20


def test_columns_of_a_task_that_is_none_are_not_looked_up() -> None:
    text = '{"name": "d", "version": "1", "task": "painting", "columns": {"colour": "c"}}'
    with pytest.raises(InvalidRequestError, match="task"):
        parse_json(text, DatasetManifest)
