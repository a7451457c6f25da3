"""Uploaded files: an answer or an ``InspectionError``, whatever they hold."""

import contextlib
import gzip
import io
import json
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.inspection import inspect_dataset
from app.models.inspection import inspect_model
from seatrial.ingest.archives import check_archive, extract_archive
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.settings import Settings
from tests.fuzz.conftest import Case
from tests.fuzz.mutations import NUMBERS, TEXTS, damaged, document, encoded
from tests.ingest.builders import (
    conllu,
    csv_table,
    dataset_manifest,
    folder_manifest,
    hf_files,
    images_npz,
    jsonl_table,
    model_manifest,
    npz,
    parquet_table,
    png,
    safetensors_of,
    tarred,
    torch_zip,
    zipped,
)

LIMITS = Settings(max_archive_bytes=2**26, max_archive_entries=2000)
LAYERS, FOLDER = model_manifest(), folder_manifest()
TEXT_FOLDER = folder_manifest(task="text-classification")
IMAGES = dataset_manifest()
TEXT_TASKS = {
    task: dataset_manifest(task=task)
    for task in (
        "text-classification",
        "text-pair-classification",
        "multi-label-classification",
        "token-classification",
    )
}
PNG = png()


def _is_accepted(folder: Path, data: bytes, read: Callable[[Path], object]) -> bool:
    path = folder / "upload"
    path.write_bytes(data)
    try:
        read(path)
    except InspectionError as error:
        refusal = error
    else:
        return True
    assert 0 < len(refusal.detail) < 5000
    # It becomes JSON in UTF-8.
    refusal.detail.encode()
    return False


def safetensors_header(random: Random, folder: Path) -> bool:
    header = {
        "1.weight": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "1.bias": {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]},
        "__metadata__": {"format": "pt"},
    }
    data = safetensors_of(encoded(random, document(random, header, 2)), bytes(40))
    data = damaged(random, data, 2, within=(0, 12)) if random.random() < 0.3 else data
    return _is_accepted(folder, data, lambda path: inspect_model(path, "fuzz", LAYERS, LIMITS))


# fmt: off
DESCRS = (
    "|u1", "<i8", ">i8", "<f4", ">f4", "<f2", "<f8", "<f16", "<U1", ">U1", "<U0", "|S0", "|S3", "<U1000000", "|O",
    "|b1", "<c8", "<M8[s]", "<i9", "[('a', '<i4')]",
)
# fmt: on


def _array(random: Random, descr: str, shape: tuple[object, ...], size: int) -> bytes:
    if random.random() < 0.3:
        descr = random.choice(DESCRS)
    if random.random() < 0.3:
        shape = tuple(random.choice((*NUMBERS, 0, 2, 3, 4, 20)) for _ in range(random.choice((0, 1, 2, 4, 5, 33))))
    axes = ", ".join(str(axis) for axis in shape) + ("," if len(shape) == 1 else "")
    order = random.choice(("False", "False", "False", "True", "None"))
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({axes}), }}"
    text = header[: None if random.random() < 0.9 else random.randrange(len(header))].encode()
    version = random.choice((1, 1, 1, 1, 2, 3, 4))
    length = len(text) if random.random() < 0.95 else random.randrange(2**16)
    prefix = (
        b"\x93NUMPY" + bytes([version, 0]) + (struct.pack("<H", length) if version == 1 else struct.pack("<I", length))
    )
    body = random.choice((bytes(size), bytes(size), random.randbytes(size), b"a\0\0\0" * (size // 4)))
    return prefix + text + body[: None if random.random() < 0.9 else random.randrange(size + 1)]


def npz_arrays(random: Random, folder: Path) -> bool:
    files = {
        "images.npy": _array(random, "|u1", (20, 3, 4, 4), 960),
        "labels.npy": _array(random, "<i8", (20,), 160),
    }
    if random.random() < 0.5:
        files["class_names.npy"] = _array(random, "<U1", (4,), 16)
    if random.random() < 0.3:
        files["layout.npy"] = _array(random, "<U4", (), 16)
    data = zipped(files) if random.random() < 0.9 else images_npz()
    return _is_accepted(folder, damaged(random, data, 1), lambda path: inspect_dataset(path, "fuzz", IMAGES, LIMITS))


def _name(random: Random) -> str:
    if random.random() < 0.8:
        return (
            random.choice(("cat/", "dog/", "train/cat/", ""))
            + f"{random.randrange(9)}.{random.choice(('png', 'json', 'txt'))}"
        )
    return "/".join(str(random.choice(TEXTS)) for _ in range(random.choice((1, 1, 2, 40))))


def _zip(random: Random) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(random.randint(0, 5)):
            # zipfile writes what it is told, and cannot write what is no text.
            info = zipfile.ZipInfo(_name(random).encode("utf-8", "replace").decode()[:60_000])
            info.external_attr = random.choice((0, 0, 0o100644 << 16, 0o120777 << 16, 0o040755 << 16, 0xFFFFFFFF))
            info.extra = random.choice((b"", b"", struct.pack("<HH", 1, 24) + b"\xff" * 24, b"\1\0\xff\xff"))
            archive.writestr(info, random.choice((PNG, b"{}", b"", bytes(100_000))), random.choice((0, 8)))
        archive.comment = random.choice((b"", b"", b"PK\5\6" * 5000))
    data = buffer.getvalue()
    directory = data.find(b"PK\x01\x02")
    # Lengths, sizes, offsets and counts stand in the directory.
    return damaged(random, data, 2, within=(max(directory, 0), len(data))) if random.random() < 0.5 else data


def _tar(random: Random) -> bytes:
    blocks = []
    for _ in range(random.randint(0, 5)):
        content = random.choice((PNG, b"{}", b""))
        info = tarfile.TarInfo(_name(random).replace("\0", ""))
        info.size = len(content) if random.random() < 0.9 else abs(int(random.choice(NUMBERS[:22])))
        info.type = random.choice((b"0", b"0", b"0", b"5", b"1", b"2", b"3", b"L", b"K", b"x", b"g", b"S", b"7"))
        if info.type in b"xgLK":
            content = random.choice(
                (
                    b"19 path=cat/a/b.pn\n",
                    b"20 size=99999999999\n",
                    b"11 GNU.sparse.major=1\n",
                    b"9" * 600,
                    b"0 a=b\n",
                    _name(random).encode("utf-8", "replace"),
                )
            )
            info.size = len(content)
        try:
            header = info.tobuf(random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)), "utf-8", "surrogateescape")
        except (ValueError, UnicodeError, OverflowError):
            continue
        blocks.append(header + content + bytes(-len(content) % 512))
    data = b"".join(blocks) + bytes(random.choice((1024, 1024, 1024, 0, 512)))
    data = damaged(random, data, 2) if random.random() < 0.3 else data
    return gzip.compress(data, 1) if random.random() < 0.5 else data


def archive_names(random: Random, folder: Path) -> bool:
    data = random.choice((_zip, _tar))(random)

    def read(path: Path) -> None:
        out = folder / "out"
        try:
            extract_archive(path, out, LIMITS)
        finally:
            outside = [left for left in folder.iterdir() if left.name not in ("upload", "out")]
            assert not outside
            for left in sorted(out.rglob("*") if out.exists() else (), reverse=True):
                assert left.is_dir() or left.is_file()
                assert not left.is_symlink()
                left.rmdir() if left.is_dir() else left.unlink()
            if out.exists():
                out.rmdir()
        assert check_archive(path, LIMITS) is not None
        for inspect, manifest in ((inspect_dataset, IMAGES), (inspect_model, FOLDER)):
            with contextlib.suppress(InspectionError):
                inspect(path, "fuzz", manifest, LIMITS)  # type: ignore[operator]

    return _is_accepted(folder, data, read)


def _column(random: Random, rows: int) -> Any:
    kind = random.randrange(9)
    if kind == 0:
        return pa.array([PNG] * rows)
    if kind == 1:
        return pa.array([{"bytes": PNG, "path": "x"}] * rows)
    if kind == 2:
        return pa.array([random.choice(("a", "b", "", None, "ü" * 50)) for _ in range(rows)])
    if kind == 3:
        return pa.array([random.choice(([0], [], [1, 1], None)) for _ in range(rows)])
    if kind == 4:
        return pa.array([random.choice((["a", "b"], ["c"], [], [None])) for _ in range(rows)])
    if kind == 5:
        return pa.array([random.choice((0, 1, -1, 2**40)) for _ in range(rows)])
    if kind == 6:
        return pa.array(["a", "b"] * rows)[:rows].dictionary_encode()
    if kind == 7:
        return pa.nulls(rows)
    return pa.array([random.choice((0.5, 1.0, None, float("nan"))) for _ in range(rows)])


def _table(random: Random) -> tuple[Any, Any]:
    rows = random.choice((1, 5, 40))
    labels = pa.array([number % 2 for number in range(rows)])
    words = pa.array([f"text {random.randrange(6)}" for _ in range(rows)])
    lists = pa.array([["a", "b"]] * rows)
    manifest, columns = random.choice(
        (
            (IMAGES, {"image": pa.array([PNG] * rows), "label": labels}),
            (IMAGES, {"image": pa.array([{"bytes": PNG}] * rows), "label": pa.array(["x", "y"] * rows)[:rows]}),
            (TEXT_TASKS["text-classification"], {"text": words, "label": labels}),
            (TEXT_TASKS["token-classification"], {"tokens": lists, "tags": pa.array([[0, 1]] * rows)}),
            (TEXT_TASKS["multi-label-classification"], {"text": words, "labels": pa.array([[0, 1]] * rows)}),
        )
    )
    if random.random() < 0.2:
        columns[random.choice(list(columns))] = _column(random, rows)
    return manifest, pa.table(columns)


def parquet_pages(random: Random, folder: Path) -> bool:
    manifest, table = _table(random)
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        row_group_size=random.choice((3, 100)),
        use_dictionary=random.random() < 0.6,
        compression=random.choice(("none", "snappy", "zstd")),
        data_page_version=random.choice(("1.0", "2.0")),
        data_page_size=random.choice((10, 2**20)),
        write_statistics=random.random() < 0.5,
        store_schema=random.random() < 0.5,
    )
    data = buffer.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # Either what describes the pages, or the pages, or anything.
    within = random.choice(((footer, len(data)), (4, footer), (4, 64), None))
    data = damaged(random, data, random.choice((0, 1, 1, 2)), within=within)
    return _is_accepted(folder, data, lambda path: inspect_dataset(path, "fuzz", manifest, LIMITS))


def _cell(random: Random) -> Any:
    return random.choice((*NUMBERS[:24], *TEXTS[:24], "a", "b", None, [0, 1], ["a"], {"a": 1}))


def texts(random: Random, folder: Path) -> bool:
    task, manifest = random.choice(list(TEXT_TASKS.items()))
    parts: list[str] = ["premise", "hypothesis"] if "pair" in task else ["tokens"] if "token" in task else ["text"]
    answer = "tags" if "token" in task else "labels" if "multi" in task else "label"
    right = {"tokens": ["a", "b"], "tags": [0, 1], "labels": [0, 1], "label": 1}
    rows = [[right.get(name, "a text") for name in (*parts, answer)] for _ in range(4)]
    if random.random() < 0.5:
        row = random.choice(rows)
        row[random.randrange(len(row))] = _cell(random)
    kind = random.randrange(3)
    if kind == 0:
        data = jsonl_table([*parts, answer], rows)
    elif kind == 1 or task != "token-classification":
        written = [[json.dumps(cell) if isinstance(cell, list) else cell for cell in row] for row in rows]
        data = csv_table([*parts, answer], written, delimiter=random.choice(",;\t")) if _is_text(written) else b"a,b\n"
    else:
        data = conllu([(["a", "b"], ["X", "Y"]), (["c"], ["X"])])
    if random.random() < 0.5:
        data = damaged(random, data, 3)
    if random.random() < 0.1:
        data += random.choice((b'"' * 9000, b"[" * 90_000, b"\n" * 9000, b"#" * 9000, b",\t;" * 9000, b"1" * 9000))
    return _is_accepted(folder, data, lambda path: inspect_dataset(path, "fuzz", manifest, LIMITS))


def _is_text(rows: list[list[Any]]) -> bool:
    try:
        str(rows).encode()
    except (UnicodeError, ValueError):
        return False
    return not any("\ud800" in str(cell) for row in rows for cell in row if isinstance(cell, str))


CONFIG = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 30,
    "max_position_embeddings": 64,
    "id2label": {"0": "no", "1": "yes"},
    "label2id": {"no": 0, "yes": 1},
}
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": 0,
            "content": "[PAD]",
            "special": True,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
            "normalized": False,
        }
    ],
    "normalizer": {
        "type": "Sequence",
        "normalizers": [{"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}],
    },
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "word": 2}, "unk_token": "[UNK]"},
}
TOKENIZER_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "model_max_length": 64}


def huggingface_folder(random: Random, folder: Path) -> bool:
    documents = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "tokenizer_config.json": TOKENIZER_CONFIG}
    chosen = random.choice(list(documents))
    files = {
        "model.safetensors": hf_files()["model.safetensors"],
        **{name: json.dumps(one).encode() for name, one in documents.items()},
        chosen: encoded(random, document(random, documents[chosen], 2)),
    }
    if random.random() < 0.2:
        name = random.choice(("merges.txt", "modeling.py", "special_tokens_map.json", "vocab.txt", "pytorch_model.bin"))
        files[name] = random.choice((b"", b"{}", b"a b\n", torch_zip()))
    data = random.choice((zipped, tarred))({f"m/{name}": content for name, content in files.items()})
    return _is_accepted(folder, data, lambda path: inspect_model(path, "fuzz", TEXT_FOLDER, LIMITS))


SEEDS = [
    images_npz(),
    npz(a=np.zeros(3)),
    zipped({"cat/1.png": PNG, "dog/2.jpg": png(kind="JPEG"), "dog/3.bmp": png(kind="BMP")}),
    tarred({"cat/1.webp": png(kind="WEBP"), "dog/2.ppm": png(kind="PPM")}),
    torch_zip(),
    parquet_table(["text", "label"], [("a", 1), ("b", 0)]),
    zipped(hf_files()),
]


def any_bytes(random: Random, folder: Path) -> bool:
    """What one format is, read as all others."""
    data = damaged(random, random.choice(SEEDS), 3) if random.random() < 0.9 else random.randbytes(2000)
    readers: list[Callable[[Path], object]] = [
        *(lambda path, m=m: inspect_model(path, "fuzz", m, LIMITS) for m in (LAYERS, FOLDER)),
        *(lambda path, m=m: inspect_dataset(path, "fuzz", m, LIMITS) for m in (IMAGES, *TEXT_TASKS.values())),
    ]
    return any([_is_accepted(folder, data, read) for read in readers])


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [safetensors_header, npz_arrays, archive_names, parquet_pages, texts, huggingface_folder, any_bytes],
    ids=lambda case: case.__name__,
)
def test_uploads_are_accepted_or_refused(fuzz: Callable[[Case], None], case: Case) -> None:
    fuzz(case)
