"""Small files, right and wrong, that uploads are made of."""

import csv
import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.models import ModelManifest


class Payload:
    """An object whose pickle would run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("a pickle was loaded",))


def model_manifest(**changes: Any) -> ModelManifest:
    body = {
        "name": "m",
        "version": "1",
        "task": "image-classification",
        "architecture": {"kind": "layers", "layers": [["flatten"], ["linear", 4, 2]]},
        "input": {"shape": [1, 2, 2], "mean": [0.0], "std": [1.0]},
        "labels": ["a", "b"],
        **changes,
    }
    return ModelManifest.model_validate_json(json.dumps({k: v for k, v in body.items() if v is not None}))


def folder_manifest(**changes: Any) -> ModelManifest:
    return model_manifest(architecture={"kind": "huggingface"}, **{"input": None, "labels": None, **changes})


def dataset_manifest(**changes: Any) -> DatasetManifest:
    body = {"name": "d", "version": "1", "task": "image-classification", **changes}
    return DatasetManifest.model_validate_json(json.dumps(body))


def safetensors(tensors: Mapping[str, np.ndarray] | None = None) -> bytes:
    header: dict[str, Any] = {}
    data = b""
    for name, tensor in (tensors or {"1.weight": np.zeros((2, 4), "<f4"), "1.bias": np.zeros(2, "<f4")}).items():
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + tensor.nbytes],
        }
        data += tensor.tobytes()
    return safetensors_of(header, data)


def safetensors_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def zipped(files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def torch_zip() -> bytes:
    """What ``torch.save`` writes."""
    return zipped({"archive/data.pkl": pickle.dumps(Payload(), 2), "archive/version": b"3\n"}, zipfile.ZIP_STORED)


def npz(compressed: bool = True, **arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def images_npz(**changes: np.ndarray) -> bytes:
    arrays = {
        "images": np.arange(20 * 3 * 4 * 4, dtype=np.uint32).reshape(20, 3, 4, 4).astype(np.uint8),
        "labels": np.arange(20) % 4,
    }
    return npz(**{**arrays, **changes})


def png(size: tuple[int, int] = (4, 4), mode: str = "RGB", seed: int = 0, kind: str = "PNG") -> bytes:
    channels = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels.squeeze() if channels == 1 else pixels, mode).save(buffer, kind)
    return buffer.getvalue()


HF_CONFIG: dict[str, Any] = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"]}


def hf_files(**changes: bytes | None) -> dict[str, bytes]:
    """A Hugging Face folder as far as inspection looks; a None removes a file."""
    files: dict[str, bytes | None] = {
        "config.json": json.dumps(HF_CONFIG).encode(),
        "model.safetensors": safetensors(),
        "preprocessor_config.json": json.dumps({"size": {"height": 8, "width": 8}}).encode(),
        **changes,
    }
    return {name: data for name, data in files.items() if data is not None}


def csv_table(header: Sequence[str], rows: Iterable[Sequence[Any]], **dialect: Any) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, **dialect)
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue().encode()


def jsonl_table(header: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> bytes:
    return b"".join(json.dumps(dict(zip(header, row, strict=True)), **options).encode() + b"\n" for row in rows)


def parquet_table(header: Sequence[str], rows: Sequence[Sequence[Any]], **options: Any) -> bytes:
    columns = zip(*rows, strict=True) if rows else [[] for _ in header]
    buffer = io.BytesIO()
    table = {name: list(column) for name, column in zip(header, columns, strict=True)}
    pq.write_table(pa.table(table), buffer, **options)
    return buffer.getvalue()


def conllu(sentences: Iterable[tuple[Sequence[str], Sequence[str]]], column: int = 3) -> bytes:
    lines = []
    for words, tags in sentences:
        for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
            fields = [str(number), word, *["_"] * 8]
            fields[column] = tag
            lines.append("\t".join(fields))
        lines.append("")
    return "".join(line + "\n" for line in lines).encode()
