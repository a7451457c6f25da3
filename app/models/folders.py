"""What a Hugging Face folder must hold, judged from file names, headers and its small JSON files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from seatrial.contracts.models import HEADS, ModelManifest
from seatrial.ingest.archives import ArchiveEntry
from seatrial.ingest.conversion import CONVERT
from seatrial.ingest.huggingface.configuration import label_names
from seatrial.ingest.huggingface.folders import (
    CONFIG,
    INDEX,
    PREPROCESSOR,
    SINGLE,
    TOKENIZERS,
    check_known,
    folder_root,
    read_known,
)
from seatrial.ingest.inspection.errors import (
    ContentError,
    InspectionError,
    MalformedFileError,
    ManifestMismatchError,
    RemoteCodeRefusedError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.inspection.magic import Kind, looks_like
from seatrial.ingest.inspection.safetensors_header import read_safetensors_header

MAX_TENSORS = 200_000
"""Tensors of all safetensors files of an archive together; their names are kept while it is read."""
MAX_TENSOR_NAME_CHARS = 64 * 2**20
_OTHER_WEIGHTS = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".th", ".h5", ".msgpack", ".onnx", ".ot", ".gguf", ".tflite", ".npz"}
)

__all__ = ["HEADS", "FolderContents", "check_huggingface_folder", "label_names", "refuse_unwanted_file"]


@dataclass
class FolderContents:
    """What one pass over an archive has kept of it.

    Attributes:
        names: Every file, by its path in the archive.
        weights: Tensor names of each safetensors file, by path.
        documents: What the loader would be given of each small JSON file, by path.
        faults: Why a file of the folder would be refused, by path; of no matter where it is not part of the folder.
    """

    names: list[str] = field(default_factory=list)
    weights: dict[str, set[str]] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, InspectionError] = field(default_factory=dict)
    _tensors: int = 0
    _name_chars: int = 0

    def add(self, entry: ArchiveEntry, kind: Kind, head: bytes, stream: BinaryIO) -> None:
        """Keep what matters of one file, of which ``head`` has been read.

        Raises:
            MalformedFileError: A safetensors header is damaged.
            UploadTooLargeError: There are more tensors than any model has.
        """
        self.names.append(entry.name)
        where = f"The archive entry {entry.name!r}"
        path = PurePosixPath(entry.name)
        rewound = _Rewound(head, stream)
        if kind is Kind.SAFETENSORS:
            self._add_weights(entry.name, set(read_safetensors_header(rewound, entry.size, where)))  # type: ignore[arg-type]
        elif path.name.endswith(".safetensors"):
            raise MalformedFileError(f"{where} does not begin with a safetensors header: {looks_like(kind)}")
        elif self._may_be_the_folder(path):
            try:
                data = read_known(path.name, entry.size, rewound)  # type: ignore[arg-type]
                document = None if data is None else check_known(path.name, data)
            except InspectionError as error:
                self.faults[entry.name] = error
            else:
                if document is not None:
                    self.documents[entry.name] = document

    def _add_weights(self, name: str, tensors: set[str]) -> None:
        self.weights[name] = tensors
        self._tensors += len(tensors)
        self._name_chars += sum(map(len, tensors))
        if self._tensors > MAX_TENSORS or self._name_chars > MAX_TENSOR_NAME_CHARS:
            raise UploadTooLargeError(
                f"The archive's safetensors files hold more than {MAX_TENSORS:,} tensors, or their names more than "
                f"{MAX_TENSOR_NAME_CHARS:,} characters"
            )

    def _may_be_the_folder(self, path: PurePosixPath) -> bool:
        # The folder is the archive's top, or the only folder there, which the first file then lies in.
        return len(path.parts) == 1 or (len(path.parts) == 2 and path.parts[0] == PurePosixPath(self.names[0]).parts[0])


@dataclass
class _Rewound:
    """A stream whose first bytes have been read already."""

    head: bytes
    stream: BinaryIO

    def read(self, size: int) -> bytes:
        taken, self.head = self.head[:size], self.head[size:]
        return taken + self.stream.read(size - len(taken)) if len(taken) < size else taken


def refuse_unwanted_file(name: str, kind: Kind) -> None:
    """Raise for files a model archive must not hold, whatever is in them.

    Raises:
        RemoteCodeRefusedError: Python code.
        UnsupportedFormatError: Weights in another format than safetensors.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in (".py", ".pyc", ".so", ".dll", ".dylib"):
        raise RemoteCodeRefusedError(
            f"The archive entry {name!r} is code: this service runs none of a model's; leave it out"
        )
    if suffix in _OTHER_WEIGHTS or kind in (Kind.HDF5, Kind.GGUF, Kind.NPY):
        raise UnsupportedFormatError(
            f"The archive entry {name!r} is not safetensors; weights in other formats (most are pickles) are not "
            "accepted: save with `save_pretrained(..., safe_serialization=True)` and leave this file out. " + CONVERT
        )


def check_huggingface_folder(contents: FolderContents, manifest: ModelManifest) -> None:
    """Raise unless the files make one Hugging Face folder that fits the manifest's task.

    Raises:
        InspectionError: With what is missing or wrong.
    """
    root = folder_root(contents.names)
    names = {name.removeprefix(root) for name in contents.names}
    for name, fault in contents.faults.items():
        if "/" not in name.removeprefix(root):
            raise fault
    documents = {name.removeprefix(root): document for name, document in contents.documents.items()}
    weights = {name.removeprefix(root): tensors for name, tensors in contents.weights.items()}
    _check_config(documents[CONFIG], manifest)
    _check_weights(weights, documents.get(INDEX), names)
    if manifest.task == "image-classification":
        if PREPROCESSOR not in names and manifest.input is None:
            raise ContentError(
                "The folder has no preprocessor_config.json and the manifest no input: one of them must give the "
                "image size, "
                "mean and std",
                field="/manifest/input",
            )
    elif not any(needed <= names for needed in TOKENIZERS):
        raise ContentError(
            "The folder has no tokenizer: add tokenizer.json, or vocab.txt, or vocab.json with merges.txt"
        )


def _check_config(config: Mapping[str, Any], manifest: ModelManifest) -> None:
    architectures = config.get("architectures") or []
    head = HEADS[manifest.task]
    if architectures and not any(name.endswith(head) for name in architectures):
        raise ManifestMismatchError(
            f"config.json says the model is {', '.join(architectures)[:200]}; task {manifest.task} needs a ...{head}",
            field="/manifest/task",
        )
    names = label_names(config)
    if names is not None and manifest.labels is not None and len(names) != len(manifest.labels):
        raise ManifestMismatchError(
            f"config.json knows {len(names)} labels, the manifest {len(manifest.labels)}", field="/manifest/labels"
        )


def _check_weights(weights: Mapping[str, set[str]], index: Mapping[str, Any] | None, names: set[str]) -> None:
    if "adapter_config.json" in names:
        raise ContentError("The folder holds an adapter, not a whole model: merge it into its base model first")
    if index is None:
        if set(weights) != {SINGLE}:
            found = ", ".join(sorted(weights)) or "none"
            raise ContentError(
                f"The folder must hold {SINGLE}, or shards and {INDEX}; its safetensors files: {found[:300]}"
            )
        return
    mapping = index["weight_map"]
    absent = sorted(set(mapping.values()) - set(weights))
    if absent:
        raise ContentError(f"{INDEX} names files that are not in the folder: {', '.join(absent)[:300]}")
    listed_in: dict[str, set[str]] = {shard: set() for shard in weights}
    for tensor, shard in mapping.items():
        listed_in[shard].add(tensor)
    for shard, tensors in weights.items():
        listed = listed_in[shard]
        if listed != tensors:
            odd = sorted(listed ^ tensors)[0]
            where = "in the index but not in the file" if odd in listed else "in the file but not in the index"
            raise ContentError(
                f"{INDEX} and {shard} disagree about {len(listed ^ tensors)} tensors: {odd!r:.200} is {where}"
            )
