"""The archive ``torch.export.save`` writes: which bytes are which tensor's, found without unpickling any.

Format: ``torch/export/pt2_archive``. A zip with one folder: ``models/model.json`` is the graph, ``data/weights`` and
``data/constants`` have a configuration each and a file of raw values for each tensor. ``data/sample_inputs`` is a
pickle; it is not read.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.ingest.archives import drain, walk_archive
from seatrial.ingest.exported.arguments import TYPES, member
from seatrial.ingest.exported.program import EXPORT_WITH, MAX_AXES, Program, Source, parse_program
from seatrial.ingest.inspection.errors import (
    ContentError,
    MalformedFileError,
    PickleRefusedError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.strict_json import strict_json
from seatrial.store.settings import Settings

FORMAT = "archive_format"
PT2 = b"pt2"
GRAPH = "models/model.json"
CONFIGURATIONS = {
    "weights": "data/weights/model_weights_config.json",
    "constants": "data/constants/model_constants_config.json",
}
MAX_DOCUMENT_BYTES = 48 * 2**20
"""Largest graph or configuration read; a Swin transformer's graph has 5 MB."""
MAX_MARKS = 6_000_000
"""Most of ``{[:,`` in one: what is made of nothing else parses into a hundred times its size."""
MAX_TENSORS = 50_000

_SMALL = ("byteorder", FORMAT)
_DOCUMENTS = (GRAPH, *CONFIGURATIONS.values())
_FILE = re.compile(r"(weight|tensor)_\d{1,6}")
_STRIDED = 7


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of the archive.

    Attributes:
        entry: Name of its file in the archive.
        type: Of its values, as torch calls it.
        sizes: Its shape.
        strides: Values between neighbours along each axis.
        offset: Value of the file it begins at.
        bytes: Size of the file.
    """

    entry: str
    type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    bytes: int


@dataclass(frozen=True)
class ExportedArchive:
    """A program and where its tensors are.

    Attributes:
        program: The graph.
        tensors: What it is given, by number.
    """

    program: Program
    tensors: Mapping[int, StoredTensor]


@dataclass
class _Contents:
    root: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)


def is_exported(names: Iterable[str]) -> bool:
    """Tell whether an archive holds an exported program, by the names of its files.

    >>> is_exported(["m/archive_format", "m/models/model.json"]), is_exported(["m/data.pkl"])
    (True, False)
    """
    return any(name.partition("/")[2] == GRAPH for name in names)


def read_exported(path: Path, limits: Settings) -> ExportedArchive:
    """Return the program in an archive, with all but the values of its tensors checked.

    Every byte is read once, checksums included. Nothing is allocated for what the archive declares; a tensor has as
    many values as its file has.

    Raises:
        InspectionError: It is no exported program that can be run; the message says why.
    """
    contents = _Contents()
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            root, _, name = entry.name.partition("/")
            if contents.root and root != contents.root:
                raise MalformedFileError("the archive of an exported program holds one folder; this one holds more")
            contents.root = root
            contents.sizes[name] = entry.size
            if name in _DOCUMENTS or name in _SMALL:
                contents.documents[name] = _read_document(stream, entry.size, name)
            drain(stream)
    _check_format(contents)
    program = parse_program(_parse(contents, GRAPH))
    stored = {folder: _read_configuration(contents, folder) for folder in CONFIGURATIONS}
    tensors = {slot: _find(source, stored) for slot, source in program.sources.items()}
    return ExportedArchive(program, tensors)


def _read_document(stream: BinaryIO, size: int, name: str) -> bytes:
    most = 100 if name in _SMALL else MAX_DOCUMENT_BYTES
    if size > most:
        raise UploadTooLargeError(f"{name} of the exported program has {size:,} bytes; at most {most:,} are read")
    return stream.read(size)


def _check_format(contents: _Contents) -> None:
    if contents.documents.get(FORMAT) != PT2 or GRAPH not in contents.documents:
        raise UnsupportedFormatError(
            "The archive is not what `torch.export.save` of torch 2.13 writes (no archive_format pt2, or no "
            f"{GRAPH}): {EXPORT_WITH}"
        )
    if contents.documents.get("byteorder", b"little") != b"little":
        raise UnsupportedFormatError("The exported program holds big-endian values: export it on another machine")


def _parse(contents: _Contents, name: str) -> Any:
    text = contents.documents[name]
    if sum(text.count(mark) for mark in (b"{", b"[", b":", b",")) > MAX_MARKS:
        raise UploadTooLargeError(f"{name} of the exported program describes more than any graph has")
    try:
        return strict_json(text)
    except ValueError as error:
        raise MalformedFileError(f"{name} of the exported program is not JSON: {str(error)[:200]}") from error


def _read_configuration(contents: _Contents, folder: str) -> dict[str, StoredTensor]:
    name = CONFIGURATIONS[folder]
    if name not in contents.documents:
        return {}
    document = _parse(contents, name)
    told = document.get("config") if isinstance(document, dict) else None
    if not isinstance(told, dict) or len(told) > MAX_TENSORS:
        raise MalformedFileError(f"{name} of the exported program lists no tensors, or more than {MAX_TENSORS:,}")
    tensors = {}
    for tensor, entry in told.items():
        where = f"{folder} {tensor!r:.200} of the exported program"
        try:
            tensors[tensor] = _read_tensor(entry, folder, contents, where)
        except (KeyError, TypeError) as error:
            raise MalformedFileError(f"{where} is not described as a tensor is ({error!r:.100})") from error
    return tensors


def _read_tensor(entry: Any, folder: str, contents: _Contents, where: str) -> StoredTensor:
    file = entry["path_name"]
    if entry["use_pickle"] is not False:
        raise PickleRefusedError(
            f"{where} is pickled, and a pickle is never loaded: {EXPORT_WITH} from a model whose parameters, buffers "
            "and constants are plain tensors"
        )
    if not isinstance(file, str) or not _FILE.fullmatch(file):
        raise PickleRefusedError(f"{where} is an object in the file {file!r:.100}: only plain tensors are read")
    name = f"data/{folder}/{file}"
    meta = entry["tensor_meta"]
    kind = meta["dtype"]
    if type(kind) is not int or kind not in TYPES or meta["layout"] != _STRIDED:
        raise ContentError(
            f"{where} has type {kind!r:.20} and layout {meta['layout']!r:.20}: numbers of "
            f"{', '.join(one for one, _ in TYPES.values())}, dense, are read"
        )
    sizes, strides = _numbers(meta["sizes"]), _numbers(meta["strides"])
    (offset,) = _numbers([meta["storage_offset"]])
    if name not in contents.sizes:
        raise MalformedFileError(f"{where}: the archive has no {name}")
    if len(sizes) != len(strides) or len(sizes) > MAX_AXES:
        raise MalformedFileError(f"{where} has {len(sizes)} sizes and {len(strides)} strides")
    _check_extent(sizes, strides, offset, contents.sizes[name], TYPES[kind][1], where)
    return StoredTensor(f"{contents.root}/{name}", TYPES[kind][0], sizes, strides, offset, bytes=contents.sizes[name])


def _numbers(given: Any) -> tuple[int, ...]:
    numbers = []
    for one in given:
        kind, number = member(one, "the size of a tensor")
        if kind != "as_int" or type(number) is not int or not 0 <= number < 2**40:
            raise TypeError(f"{one!r:.60} is no size")
        numbers.append(number)
    return tuple(numbers)


def _check_extent(
    sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int, item_bytes: int, where: str
) -> None:
    """Refuse a tensor that reaches beyond its file, or has more values than it."""
    values = 1
    for one in sizes:
        values *= one
    last = offset + sum((count - 1) * stride for count, stride in zip(sizes, strides, strict=True)) if values else -1
    if size % item_bytes or (last + 1) * item_bytes > size or values * item_bytes > size:
        raise MalformedFileError(
            f"{where} of shape {list(sizes)} needs more bytes than its file has ({size:,}), or another number of them"
        )


def _find(source: Source, stored: Mapping[str, Mapping[str, StoredTensor]]) -> StoredTensor:
    # Where a buffer that is not saved with the weights stands has differed between versions of torch.
    folders = (source.folder, *(one for one in CONFIGURATIONS if one != source.folder))
    found = next((stored[folder][source.name] for folder in folders if source.name in stored[folder]), None)
    if found is None:
        raise MalformedFileError(f"the exported program takes {source.name!r:.200}, which the archive does not hold")
    return found
