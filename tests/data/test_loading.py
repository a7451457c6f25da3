import contextlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from app.datasets.inspection import inspect_dataset
from seatrial.contracts.datasets import DatasetFacts
from seatrial.ingest.inspection.errors import InspectionError, UploadTooLargeError
from seatrial.store.settings import Settings
from tests.bounded import MIB, bounded
from tests.ingest.builders import dataset_manifest, images_npz, npz, png, tarred, zipped
from tests.ingest.test_datasets import parquet
from workers.data import ImageDataset
from workers.data.channels import decode_image
from workers.data.loading import load_image_dataset
from workers.errors import DataError

LIMITS = Settings()


def _load(tmp_path: Path, data: bytes, channels: int | None = None, **manifest: Any) -> ImageDataset:
    path = tmp_path / "data"
    path.write_bytes(data)
    described = dataset_manifest(**manifest)
    facts = inspect_dataset(path, "data", described, LIMITS)
    loaded = load_image_dataset(described, facts, path, channels=channels, limits=LIMITS)
    assert {
        str(label): int(count) for label, count in zip(*np.unique(loaded.labels, return_counts=True), strict=True)
    } == (facts.label_counts)
    return loaded


PIXELS = np.random.default_rng(0).integers(0, 256, (20, 3, 5, 4), dtype=np.uint8)
LABELS = np.arange(20) % 4
WANT = torch.from_numpy(PIXELS).float() / 255


@pytest.mark.parametrize(
    "images",
    [
        PIXELS,
        PIXELS.transpose(0, 2, 3, 1).copy(),
        np.asfortranarray(PIXELS),
        (PIXELS / 255).astype("<f4"),
        (PIXELS / 255).astype(">f8"),
        (PIXELS / np.longdouble(255)),
    ],
    ids=["NCHW", "NHWC", "fortran", "float32", "big-endian float64", "long double"],
)
@pytest.mark.parametrize("is_compressed", [True, False])
def test_arrays_of_every_layout_and_type_give_the_same_images(
    tmp_path: Path, images: np.ndarray, is_compressed: bool
) -> None:
    dataset = _load(tmp_path, npz(is_compressed, images=images, labels=LABELS))
    batch = dataset.images([3, 19, 0])
    assert batch.dtype is torch.float32
    assert batch.is_contiguous()
    assert torch.allclose(batch, WANT[[3, 19, 0]], atol=1e-6)
    assert dataset.labels.tolist() == LABELS.tolist()
    assert dataset.label_names is None


def test_uint8_is_divided_by_255_exactly_and_half_precision_stays_in_range(tmp_path: Path) -> None:
    dataset = _load(tmp_path, images_npz(images=PIXELS))
    assert torch.equal(dataset.images(range(20)), WANT)
    over = np.full((20, 1, 4, 4), 1 + 5e-7, np.float32)
    assert float(_load(tmp_path, images_npz(images=over)).images([0]).max()) == 1.0


def test_large_arrays_are_mapped_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.data.arrays.IN_MEMORY_BYTES", 100)
    dataset = _load(tmp_path, images_npz(images=PIXELS))
    assert torch.equal(dataset.images([7, 2]), WANT[[7, 2]])


def test_stated_layout_is_followed(tmp_path: Path) -> None:
    ambiguous = np.random.default_rng(0).integers(0, 256, (20, 3, 5, 3), dtype=np.uint8)
    first = _load(tmp_path, images_npz(images=ambiguous)).images([1])
    last = _load(tmp_path, images_npz(images=ambiguous, layout=np.array("NHWC"))).images([1])
    assert torch.equal(first[0], torch.from_numpy(ambiguous[1]).float() / 255)
    assert torch.equal(last[0], torch.from_numpy(ambiguous[1]).permute(2, 0, 1).float() / 255)


def test_grey_and_colour_are_converted(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (20, 5, 4), dtype=np.uint8)
    as_colour = _load(tmp_path, images_npz(images=grey), channels=3).images([0, 1])
    assert as_colour.shape == (2, 3, 5, 4)
    assert torch.equal(as_colour[:, 0], as_colour[:, 2])
    as_grey = _load(tmp_path, images_npz(images=PIXELS), channels=1).images([4])
    pillow = np.asarray(Image.fromarray(PIXELS[4].transpose(1, 2, 0)).convert("L"))
    assert np.abs(as_grey[0, 0].numpy() * 255 - pillow).max() <= 1


FILES = {f"{label}/{number}.png": png((4, 5), seed=number) for label in ("dog", "cat") for number in range(3)}


def _pixels(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1).float() / 255


@pytest.mark.parametrize("pack", [zipped, tarred, lambda files: tarred(files, "w:gz")], ids=["zip", "tar", "tar.gz"])
@pytest.mark.parametrize("prefix", ["", "pets/", "pets/test/"])
def test_image_folders_are_read_in_place(tmp_path: Path, pack: Any, prefix: str) -> None:
    files = {f"{prefix}{name}": data for name, data in {**FILES, "README.md": b"#"}.items() if prefix or "/" in name}
    dataset = _load(tmp_path, pack(files))
    assert dataset.label_names == ["cat", "dog"]
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1]
    batch = dataset.images([4, 0])
    assert torch.equal(batch[0], _pixels(FILES["dog/1.png"]))
    assert torch.equal(batch[1], _pixels(FILES["cat/0.png"]))
    assert sorted(child.name for child in tmp_path.iterdir()) == ["data"]


def test_listed_labels_number_the_folders(tmp_path: Path) -> None:
    dataset = _load(tmp_path, zipped(FILES), labels=["dog", "eel", "cat"])
    assert dataset.labels.tolist() == [0, 0, 0, 2, 2, 2]
    assert _load(tmp_path, zipped(FILES), channels=1).images([0]).shape == (1, 1, 5, 4)


ENCODED = [png((4, 5), seed=number) for number in range(6)]


@pytest.mark.parametrize("is_struct", [False, True])
def test_parquet_is_read_by_row(tmp_path: Path, is_struct: bool) -> None:
    images = [{"bytes": data, "path": None} for data in ENCODED] if is_struct else ENCODED
    table = pa.table({"img": images, "y": pa.array(["b", "a", "b", "a", "b", "b"]).dictionary_encode()})
    dataset = _load(tmp_path, parquet(table, row_group_size=2), columns={"image": "img", "label": "y"})
    assert dataset.labels.tolist() == [1, 0, 1, 0, 1, 1]
    assert dataset.label_names == ["a", "b"]
    batch = dataset.images([5, 0, 3])
    for image, position in zip(batch, (5, 0, 3), strict=True):
        assert torch.equal(image, _pixels(ENCODED[position]))


def test_parquet_keeps_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.data.parquet.CACHE_BYTES", 1)
    dataset = _load(tmp_path, parquet(pa.table({"image": ENCODED, "label": [0, 1] * 3}), row_group_size=1))
    assert torch.equal(dataset.images([5, 0, 5])[0], _pixels(ENCODED[5]))


def test_images_that_cannot_be_a_batch_are_refused(tmp_path: Path) -> None:
    dataset = _load(tmp_path, zipped({**FILES, "dog/9.png": png((8, 8))}))
    assert dataset.images([0, 1]).shape == (2, 3, 5, 4)
    with pytest.raises(DataError, match="5x4, 8x8") as caught:
        dataset.images([0, 6])
    assert caught.value.problem.code == "image-sizes-differ"
    broken = _load(tmp_path, zipped({**FILES, "dog/9.png": png((4, 5))[:-30]}))
    with pytest.raises(DataError, match=r"dog/9\.png") as undecodable:
        broken.images([6])
    assert undecodable.value.problem.code == "image-undecodable"


def test_a_file_that_is_not_what_its_facts_say_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    table = parquet(pa.table({"image": ENCODED, "label": [0] * 6}))
    for data, form in ((images_npz(), "npz"), (zipped(FILES), "image_folder"), (table, "parquet")):
        path.write_bytes(data)
        facts = DatasetFacts.model_validate(
            {"format": form, "examples": 7, "classes": 2, "shape": [3, 4, 4], "label_counts": {}, "labels": None}
        )
        with pytest.raises(DataError) as caught:
            load_image_dataset(dataset_manifest(), facts, path, limits=LIMITS)
        assert caught.value.problem.code == "dataset-changed"


FEW = Settings(max_batch_bytes=1000)


def _blank(side: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (side, side)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.slow
def test_a_batch_is_refused_before_memory_is_asked_for_it(tmp_path: Path) -> None:
    image = _blank(4096)
    path = tmp_path / "data"
    for data in (
        zipped({f"{label}/{number}.png": image for label in "ab" for number in range(32)}),
        parquet(pa.table({"image": [image] * 64, "label": [0, 1] * 32})),
        npz(images=np.zeros((8, 2048, 2048), np.uint8), labels=np.arange(8) % 2),
    ):
        path.write_bytes(data)
        facts = inspect_dataset(path, "data", dataset_manifest(), LIMITS)
        dataset = load_image_dataset(dataset_manifest(), facts, path, channels=3, limits=LIMITS)

        def refuse(dataset: ImageDataset = dataset) -> str:
            with pytest.raises(DataError) as caught:
                dataset.images([0, 1] * 100)
            return caught.value.problem.code

        assert bounded(refuse, extra_bytes=600 * MIB) == "batch-too-large"


@pytest.mark.slow
def test_one_image_that_many_rows_name_is_one_image(tmp_path: Path) -> None:
    image = png((8, 8)) + bytes(60 * MIB)
    named = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), pa.array([image], pa.binary()))
    path = tmp_path / "data"
    path.write_bytes(parquet(pa.table({"image": named, "label": [0, 1] * 32}), compression="zstd"))
    facts = inspect_dataset(path, "data", dataset_manifest(), LIMITS)
    dataset = load_image_dataset(dataset_manifest(), facts, path, limits=LIMITS)
    shape = bounded(lambda: tuple(dataset.images([0, 63]).shape), extra_bytes=400 * MIB)
    assert shape == (2, 3, 8, 8)


def test_a_row_group_larger_than_a_worker_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(parquet(pa.table({"image": [png(seed=n) for n in range(20)], "label": [0, 1] * 10})))
    with pytest.raises(UploadTooLargeError, match="row_group_size"):
        inspect_dataset(path, "data", dataset_manifest(), FEW)


def test_an_image_of_many_pixels_is_not_decoded() -> None:
    with pytest.raises(DataError, match=r"60000 x 60000|DecompressionBomb"):
        decode_image(_claiming(60_000), 3, "it")
    with pytest.raises(DataError, match="5000 x 5000"):
        decode_image(_claiming(5000), 3, "it")


def _claiming(side: int) -> bytes:
    data = bytearray(_blank(8))
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


@pytest.mark.parametrize("chunk", [b"zTXt", b"iTXt", b"iCCP"])
def test_chunks_that_unpack_to_much_are_not_unpacked(tmp_path: Path, chunk: bytes) -> None:
    packed = zlib.compress(bytes(120 * MIB), 1)
    body = b"name\0\0" + packed if chunk != b"iTXt" else b"name\0\1\0\0\0" + packed
    data = _blank(8)
    piece = struct.pack(">I", len(body)) + chunk + body + struct.pack(">I", zlib.crc32(chunk + body))
    path = tmp_path / "data"
    path.write_bytes(zipped({"a/1.png": data[:33] + piece + data[33:], "b/1.png": data}))

    def read() -> None:
        with contextlib.suppress(InspectionError):
            facts = inspect_dataset(path, "data", dataset_manifest(), LIMITS)
            dataset = load_image_dataset(dataset_manifest(), facts, path, limits=LIMITS)
            with contextlib.suppress(DataError):
                dataset.images([0, 1])

    bounded(read, extra_bytes=80 * MIB)
