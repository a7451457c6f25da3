"""From a stored archive to a folder that holds what loading needs, and nothing else.

transformers follows what it finds in a folder: files its JSON names, templates, adapters, code. So it is given a folder
of known names, with the JSON written anew from the keys that are known.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.contracts.models import IMAGES, ModelManifest
from seatrial.ingest.archives import check_archive, walk_archive
from seatrial.ingest.huggingface import tokenizer_config
from seatrial.ingest.huggingface.folders import (
    CONFIG,
    INDEX,
    SINGLE,
    check_known,
    folder_root,
    is_weights,
    read_known,
    shard_names,
)
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.inspection.streams import CHUNK_BYTES
from seatrial.ingest.members import files_of, in_order
from seatrial.store.settings import Settings
from workers.errors import TargetError
from workers.models.configurations import check_tokenizer_type, narrow_configuration

PREFIX = "seatrial-model-"
"""Begins the name of every folder models are unpacked to, so that one a killed process left can be told and removed."""


@contextmanager
def unpacked_folder(
    path: Path, manifest: ModelManifest, limits: Settings, *, scratch: Path | None = None
) -> Iterator[Path]:
    """Give a folder with the known files of an archived Hugging Face folder; it is removed in the end.

    Args:
        path: The stored archive.
        manifest: As uploaded.
        limits: What an archive may unpack to.
        scratch: Where to unpack; the system's folder for temporary files by default.

    Raises:
        TargetError: The archive holds no folder of this task that may be loaded.
    """
    with _new_folder(scratch) as folder:
        with _as_target_errors():
            root = folder_root(entry.name for entry in check_archive(path, limits))
            documents, weights = _unpack(path, root, folder, limits)
            if CONFIG not in documents:
                raise _missing(CONFIG)
            documents[CONFIG] = narrow_configuration(documents[CONFIG], manifest.task)
            if manifest.task != IMAGES:
                stated = documents.get(tokenizer_config.CONFIG, {}).get("tokenizer_class")
                check_tokenizer_type(documents[CONFIG], stated)
            for name, document in documents.items():
                (folder / name).write_text(json.dumps(document), encoding="utf-8")
            wanted = set(shard_names(documents[INDEX])) if INDEX in documents else {SINGLE}
            if not wanted <= weights:
                raise _missing(min(wanted - weights))
            for name in weights - wanted:
                (folder / name).unlink()
        yield folder


@contextmanager
def unpacked_weights(
    path: Path, kind: str, limits: Settings, *, scratch: Path | None = None, members: int = 0
) -> Iterator[list[Path]]:
    """Give the one safetensors file of an archive, or one a member in the order of their names; removed in the end.

    Args:
        path: The stored archive.
        kind: Architecture of the manifest.
        limits: What an archive may unpack to.
        scratch: Where to unpack; the system's folder for temporary files by default.
        members: Of an ensemble, how many there may be instead of one.

    Raises:
        TargetError: The archive holds another number.
    """
    with _new_folder(scratch) as folder:
        with _as_target_errors():
            weights = [entry.name for entry in check_archive(path, limits) if entry.name.endswith(".safetensors")]
            if len(weights) not in (1, members or 1):
                raise TargetError(
                    "weights-ambiguous",
                    "The archive does not hold the safetensors files of this architecture",
                    f"it holds {len(weights)}: architecture {kind} takes {files_of(members)}",
                    field="/file",
                )
            weights.sort(key=in_order)
            found = {name: folder / f"{number}.safetensors" for number, name in enumerate(weights)}
            with walk_archive(path, limits) as walk:
                for entry, stream in walk:
                    if entry.name in found:
                        _write(stream, found[entry.name])
        yield [*found.values()]


@contextmanager
def _new_folder(scratch: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=scratch) as name:
        yield Path(name)


def _unpack(path: Path, root: str, folder: Path, limits: Settings) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Write weights and vocabulary files; return what is handed on of the documents, and the names of the weights."""
    documents: dict[str, dict[str, Any]] = {}
    weights = set()
    # A compressed tar is read from its beginning each time: one pass writes everything.
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            name = entry.name.removeprefix(root)
            if is_weights(name):
                _write(stream, folder / name)
                weights.add(name)
            data = read_known(name, entry.size, stream)
            if data is None:
                continue
            document = check_known(name, data)
            if document is None:
                (folder / name).write_bytes(data)
            else:
                documents[name] = document
    return documents, weights


def _write(stream: BinaryIO, target: Path) -> None:
    with target.open("xb") as file:
        while chunk := stream.read(CHUNK_BYTES):
            file.write(chunk)


@contextmanager
def _as_target_errors() -> Iterator[None]:
    try:
        yield
    except InspectionError as error:
        raise TargetError(error.code, error.title, error.detail, field=error.field) from error


def _missing(name: str) -> TargetError:
    return TargetError("file-missing", "A file is missing", f"the archive has no {name!r:.200}", field="/file")
