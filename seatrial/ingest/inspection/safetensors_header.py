"""Reading and checking the header of a safetensors file without its tensors.

Format: 8 bytes little-endian header length, a JSON header, then the data. Offsets must cover the data exactly,
without holes or overlaps, as the reference implementation demands (https://github.com/huggingface/safetensors).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

from seatrial.ingest.inspection.errors import MalformedFileError
from seatrial.ingest.inspection.magic import MAX_HEADER_BYTES

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32,
    "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
MAX_TENSORS = 50_000
MAX_AXES = 16
# A tensor's entry has about 14 of `{[:,`. A header of 8 MiB made of nothing else would parse into 300 MB of objects.
MAX_STRUCTURE = 20 * MAX_TENSORS


@dataclass(frozen=True)
class TensorEntry:
    """One tensor as the header describes it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of values."""
        return prod(self.shape)


def read_safetensors_header(stream: BinaryIO, size: int, where: str) -> dict[str, TensorEntry]:
    """Return the tensors a safetensors file of ``size`` bytes declares, by name.

    Args:
        stream: Positioned at the file's first byte; only the header is read.
        size: Bytes of the whole file.
        where: The file, as its sender knows it.

    Raises:
        MalformedFileError: The header or the size of the file is wrong.
    """
    prefix = stream.read(8)
    if len(prefix) < 8:
        raise MalformedFileError(f"{where} is truncated: it ends inside the 8 bytes of the safetensors header length")
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER_BYTES:
        raise MalformedFileError(
            f"{where}: the safetensors header is damaged or too large: it claims {length:,} bytes; at most "
            f"{MAX_HEADER_BYTES:,} are read"
        )
    if 8 + length > size:
        raise MalformedFileError(
            f"{where} is truncated, or its safetensors header is damaged: the header claims {length:,} bytes, the file "
            f"has {size - 8:,} more"
        )
    header = _parse(_read_exactly(stream, length, where), where)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise MalformedFileError(f"{where}: __metadata__ of a safetensors header must map strings to strings")
    if not header:
        raise MalformedFileError(f"{where} holds no tensor")
    if len(header) > MAX_TENSORS:
        raise MalformedFileError(f"{where} declares {len(header):,} tensors; at most {MAX_TENSORS:,} are accepted")
    _check_offsets(header, size - 8 - length, where)
    return {name: TensorEntry(entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}


def _read_exactly(stream: BinaryIO, length: int, where: str) -> bytes:
    parts, left = [], length
    while left:
        part = stream.read(min(left, 2**20))
        if not part:
            raise MalformedFileError(f"{where} is truncated inside its safetensors header")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _parse(text: bytes, where: str) -> dict[str, Any]:
    if sum(text.count(mark) for mark in (b"{", b"[", b":", b",")) > MAX_STRUCTURE:
        raise MalformedFileError(f"{where}: the safetensors header describes more than {MAX_TENSORS:,} tensors")
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"{where}: the safetensors header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise MalformedFileError(f"{where}: the safetensors header must be a JSON object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    segments = dict(pairs)
    if len(segments) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice!r:.200} stands twice")
    return segments


def _check_offsets(header: Mapping[str, Any], data_bytes: int, where: str) -> None:
    spans = []
    for name, entry in header.items():
        _check_entry(name, entry, where)
        begin, end = entry["data_offsets"]
        bits = prod(entry["shape"]) * DTYPE_BITS[entry["dtype"]]
        if bits % 8 or end - begin != bits // 8:
            raise MalformedFileError(
                f"{where}: tensor {name!r:.200} of shape {entry['shape']} and type {entry['dtype']} needs {bits // 8} "
                f"bytes, its offsets give it {end - begin}"
            )
        spans.append((begin, end, name))
    position = 0
    for begin, end, name in sorted(spans):
        if begin != position:
            raise MalformedFileError(
                f"{where}: tensor {name!r:.200} begins at byte {begin}, expected {position}: hole or overlap"
            )
        position = end
    if position != data_bytes:
        what = "truncated" if position > data_bytes else "too long"
        raise MalformedFileError(
            f"{where} is {what}: its tensors take {position:,} bytes, the file has {data_bytes:,} for them"
        )


def _check_entry(name: str, entry: Any, where: str) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise MalformedFileError(f"{where}: tensor {name!r:.200} must have exactly dtype, shape and data_offsets")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPE_BITS:
        raise MalformedFileError(f"{where}: tensor {name!r:.200} has the unknown type {entry['dtype']!r:.100}")
    if not _are_sizes(entry["shape"]) or len(entry["shape"]) > MAX_AXES:
        raise MalformedFileError(
            f"{where}: tensor {name!r:.200} has the shape {entry['shape']!r:.100}: it must list whole numbers"
        )
    if not _are_sizes(entry["data_offsets"]) or len(entry["data_offsets"]) != 2:
        raise MalformedFileError(
            f"{where}: tensor {name!r:.200} needs two data_offsets, got {entry['data_offsets']!r:.100}"
        )


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)
