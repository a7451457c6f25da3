"""What a Hugging Face folder must hold, judged from file names, headers and its small JSON files."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from app.contracts.targets import ModelManifest, Task
from app.core.archives import ArchiveEntry
from app.core.inspection.errors import (
    ContentError,
    MalformedFileError,
    ManifestMismatchError,
    RemoteCodeRefusedError,
    UnsupportedFormatError,
)
from app.core.inspection.magic import Kind, looks_like
from app.core.inspection.safetensors_header import read_safetensors_header

MAX_JSON_BYTES = 4 * 2**20
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
CONFIGS = ("config.json", "preprocessor_config.json", "processor_config.json", "tokenizer_config.json", INDEX)
HEADS: dict[Task, str] = {
    "image-classification": "ForImageClassification",
    "text-classification": "ForSequenceClassification",
    "text-pair-classification": "ForSequenceClassification",
    "multi-label-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
}
MAX_LAYERS = 1000
"""Building a network of ten million layers, even without weights, would take a worker's memory."""
_LAYER_COUNT = re.compile(r"(layers|depths?|blocks)$")
# Any one of these sets is a tokenizer.
TOKENIZERS: tuple[frozenset[str], ...] = (
    frozenset({"tokenizer.json"}),
    frozenset({"vocab.txt"}),
    frozenset({"vocab.json", "merges.txt"}),
    frozenset({"spiece.model"}),
    frozenset({"sentencepiece.bpe.model"}),
    frozenset({"tokenizer.model"}),
)
_OTHER_WEIGHTS = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".th", ".h5", ".msgpack", ".onnx", ".ot", ".gguf", ".tflite", ".npz"}
)


@dataclass
class FolderContents:
    """What one pass over an archive has kept of it.

    Attributes:
        names: Every file, by its path in the archive.
        weights: Tensor names of each safetensors file, by path.
        documents: Parsed small JSON files the checks need, by path.
    """

    names: list[str] = field(default_factory=list)
    weights: dict[str, set[str]] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, entry: ArchiveEntry, kind: Kind, head: bytes, stream: BinaryIO) -> None:
        """Keep what matters of one file, of which ``head`` has been read.

        Raises:
            MalformedFileError: A safetensors header or a JSON file is damaged.
        """
        self.names.append(entry.name)
        where = f"The archive entry {entry.name!r}"
        name = PurePosixPath(entry.name).name
        if kind is Kind.SAFETENSORS:
            rewound = _Rewound(head, stream)
            self.weights[entry.name] = set(read_safetensors_header(rewound, entry.size, where))  # type: ignore[arg-type]
        elif name.endswith(".safetensors"):
            raise MalformedFileError(f"{where} does not begin with a safetensors header: {looks_like(kind)}")
        elif name in CONFIGS:
            if entry.size > MAX_JSON_BYTES:
                raise MalformedFileError(f"{where} has {entry.size:,} bytes; at most {MAX_JSON_BYTES:,} are read")
            self.documents[entry.name] = _parse_object(head + stream.read(entry.size - len(head)), where)


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
            "accepted: save with `save_pretrained(..., safe_serialization=True)` and leave this file out"
        )


def check_huggingface_folder(contents: FolderContents, manifest: ModelManifest) -> None:
    """Raise unless the files make one Hugging Face folder that fits the manifest's task.

    Raises:
        InspectionError: With what is missing or wrong.
    """
    root = _root(contents.names)
    names = {name.removeprefix(root) for name in contents.names}
    documents = {name.removeprefix(root): document for name, document in contents.documents.items()}
    weights = {name.removeprefix(root): tensors for name, tensors in contents.weights.items()}
    for name, document in documents.items():
        for key in ("auto_map", "custom_pipelines", "trust_remote_code"):
            if document.get(key):
                raise RemoteCodeRefusedError(
                    f"{name} asks for its own code ({key}): this service runs none; remove the key"
                )
    _check_config(documents["config.json"], manifest)
    _check_weights(weights, documents.get(INDEX), names)
    if manifest.task == "image-classification":
        if "preprocessor_config.json" not in names and manifest.input is None:
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


def _root(names: list[str]) -> str:
    """Return the prefix of the folder that holds config.json: empty, or one folder and a slash."""
    roots = sorted(name.removesuffix("config.json") for name in names if PurePosixPath(name).name == "config.json")
    at_top = [root for root in roots if root.count("/") <= 1]
    if not at_top:
        raise ContentError(
            "The archive has no config.json at its top or in its only folder: send the whole Hugging Face folder"
        )
    root = at_top[0]
    outside = next((name for name in names if not name.startswith(root)), None)
    if outside is not None:
        raise ContentError(f"The archive holds config.json in {root!r} and {outside!r} outside of it: send one folder")
    return root


def _check_config(config: Mapping[str, Any], manifest: ModelManifest) -> None:
    if not isinstance(config.get("model_type"), str):
        raise ContentError("config.json has no model_type: it is not the configuration of a transformers model")
    if config.get("quantization_config"):
        raise ContentError(
            "config.json describes quantised weights: gradients do not pass through them; send float weights"
        )
    for key, value in config.items():
        counts = value if isinstance(value, list) else [value]
        if _LAYER_COUNT.search(key) and any(isinstance(count, int) and count > MAX_LAYERS for count in counts):
            raise ContentError(
                f"config.json: {key} is {value!r:.100}; models of at most {MAX_LAYERS:,} layers are loaded"
            )
    architectures = config.get("architectures") or []
    head = HEADS[manifest.task]
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ContentError("config.json: architectures must be a list of class names")
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


def label_names(config: Mapping[str, Any]) -> list[str] | None:
    """Return the labels of a config in the order of the logits, or None when it has none.

    Raises:
        ContentError: Its label numbers are not 0, 1, 2, ...
    """
    by_number = config.get("id2label")
    if not by_number:
        return None
    if not isinstance(by_number, dict) or set(by_number) != {str(number) for number in range(len(by_number))}:
        raise ContentError('config.json: id2label must map "0", "1", ... to the label names, without a gap')
    return [str(by_number[str(number)]) for number in range(len(by_number))]


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
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict) or not all(isinstance(shard, str) for shard in mapping.values()):
        raise ContentError(f"{INDEX}: weight_map must map tensor names to file names")
    absent = sorted(set(mapping.values()) - set(weights))
    if absent:
        raise ContentError(f"{INDEX} names files that are not in the folder: {', '.join(absent)[:300]}")
    for shard, tensors in weights.items():
        listed = {tensor for tensor, file in mapping.items() if file == shard}
        if listed != tensors:
            odd = sorted(listed ^ tensors)[0]
            where = "in the index but not in the file" if odd in listed else "in the file but not in the index"
            raise ContentError(
                f"{INDEX} and {shard} disagree about {len(listed ^ tensors)} tensors: {odd!r:.200} is {where}"
            )


def _parse_object(text: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedFileError(f"{where} must be a JSON object")
    return document
