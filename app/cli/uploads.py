"""What ``--model`` and ``--data`` name on this machine, as the API takes it: a file or an archive, and a manifest.

What a manifest leaves out is filled in from the files: name and version (a digest, so that the same content is the same
version), task and labels of a Hugging Face folder, columns of their usual names.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.exits import BadRequestError
from app.cli.files import read_limited, shorten
from app.models.folders import HEADS, label_names
from seatrial.client import ProblemResponseError, Source
from seatrial.client.folder_archive import FolderArchive
from seatrial.client.preparing import (
    HUGGING_FACE,
    MANIFEST,
    PICKLED,
    files_in,
    image_folders,
    name_and_version,
    task_of_data,
    tasks_of_heads,
)
from seatrial.contracts.datasets import COLUMNS
from seatrial.contracts.endpoints import SERVED
from seatrial.contracts.models import IMAGES, SINGLE_LABEL_TEXTS, TABLES
from seatrial.ingest.conversion import CONVERT
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.strict_json import strict_json

_SAFETENSORS = ".safetensors"
_EXPORTED, _ONNX = ".pt2", ".onnx"
_TEXT, _PAIR = SINGLE_LABEL_TEXTS


@dataclass(frozen=True)
class Prepared:
    """Something to upload.

    Attributes:
        manifest: What is said about it, complete.
        source: The bytes; None for an endpoint, which has none.
    """

    manifest: dict[str, Any]
    source: Source | None

    @property
    def task(self) -> str | None:
        """What it is for, where that is known."""
        return self.manifest.get("task")

    @property
    def is_endpoint(self) -> bool:
        """Whether it is a model behind an HTTP endpoint."""
        return self.source is None


def prepare_model(
    path: Path,
    *,
    manifest_path: Path | None = None,
    version: str | None = None,
    for_task: str | None,
    say: Callable[[str], None],
) -> Prepared:
    """Return a model ready to be uploaded.

    Args:
        path: A folder (``manifest.json`` beside one .safetensors or .pt2, or a Hugging Face folder), one .safetensors,
            .pt2 or an archive with its manifest beside it, or the manifest of an endpoint.
        manifest_path: What is said about it; by default what is found in it or beside it.
        version: Overrides that of the manifest.
        for_task: Task of the data, where it is known: a model does not say whether it takes texts or pairs.
        say: Called with which files are not sent.

    Raises:
        BadRequestError: With what is missing and what would be right.
    """
    if path.suffix == ".json" and path.is_file() and manifest_path is None:
        manifest = read_object(path)
        if _kind(manifest) not in SERVED:
            raise BadRequestError(f"{path} is not the manifest of an endpoint: give the folder it describes")
        return Prepared(name_and_version(manifest, path.stem, version, None), None)
    if path.is_dir():
        own = manifest_path or path / MANIFEST
        return _model_folder(path, read_object(own) if own.is_file() else {}, version, for_task, say)
    if path.suffix in PICKLED:
        raise _pickled(path)
    manifest_path = manifest_path or _manifest_beside(path, is_model=True)
    if manifest_path is None:
        raise BadRequestError(
            f"{path} has no manifest: write {path.name}.{MANIFEST} or {MANIFEST} beside it, with task, "
            "architecture, input and labels"
        )
    return Prepared(name_and_version(_exported(read_object(manifest_path), path), path.stem, version, path), path)


def prepare_data(path: Path, manifest_path: Path | None, *, model: Prepared | None) -> Prepared:
    """Return a dataset ready to be uploaded.

    Args:
        path: A file, or a folder of class folders of images.
        manifest_path: What is said about it; by default what is found beside it, else nothing.
        model: What it is for, where that is not on the service already: gives the task and the class names.

    Raises:
        BadRequestError: With what is missing.
    """
    manifest_file = manifest_path or _manifest_beside(path, is_model=False)
    manifest = {} if manifest_file is None else read_object(manifest_file)
    if "task" not in manifest:
        manifest["task"] = (model.task if model is not None else None) or data_task(path)
    if manifest["task"] is None:
        raise BadRequestError(
            f"the task of {path} cannot be inferred: write {path.name}.{MANIFEST} beside it, e.g. "
            f'{{"task": "{_TEXT}", "columns": {{"text": "review", "label": "stars"}}}}'
        )
    labels = model.manifest.get("labels") if model is not None else None
    if labels and "labels" not in manifest and manifest["task"] != IMAGES:
        # Class names in a table are numbered in alphabetical order unless an order is given.
        manifest["labels"] = labels
    elif labels and "labels" not in manifest and path.is_dir() and _class_folders(path) <= set(labels):
        # So are class folders: where the model has all their names, its order is what is meant.
        manifest["labels"] = labels
    source: Source = _image_folders(path) if path.is_dir() else path
    return Prepared(name_and_version(manifest, path.stem, None, source), source)


def _class_folders(path: Path) -> set[str]:
    return {one.name for one in path.iterdir() if one.is_dir() and not one.name.startswith(".")}


def data_task(path: Path, manifest_path: Path | None = None) -> str | None:
    """Return what data are for: as their manifest says, else by the columns of a table; None where neither does."""
    manifest_file = manifest_path or _manifest_beside(path, is_model=False)
    if manifest_file is not None and (task := read_object(manifest_file).get("task")):
        return str(task)
    return task_of_data(path)


@contextmanager
def pointing_to_manifest(
    path: Path, manifest_path: Path | None, task: str | None, option: str = "--data-manifest"
) -> Iterator[None]:
    """Add to a refused manifest of data where that is set: at a command line nobody sends one.

    Args:
        path: The data.
        manifest_path: As :func:`prepare_data` was given it.
        task: What they are for.
        option: Of the command, that names a manifest.

    Raises:
        BadRequestError: The refusal, and where to fix it.
    """
    try:
        yield
    except ProblemResponseError as error:
        pointers = [str(one.get("pointer", "")) for one in error.problem["errors"]]
        if not any(one.startswith("/manifest") for one in pointers):
            raise
        manifest_file = manifest_path or _manifest_beside(path, is_model=False)
        where = f"in {manifest_file}" if manifest_file else f"in {path}.{MANIFEST}, or in a file given by {option}"
        wanted = {"columns": {column: "NAME" for of, columns in COLUMNS.items() if of == task for column in columns}}
        example = f": {json.dumps(wanted)}" if any("/columns" in one for one in pointers) else ""
        raise BadRequestError(f"{error}\nSet it {where}{example}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        BadRequestError: It holds something else.
    """
    try:
        value = strict_json(read_limited(path).decode("utf-8"))
    except (OSError, ValueError) as error:
        value = error
    if isinstance(value, dict):
        return value
    reason = value if isinstance(value, Exception) else f"it holds a {type(value).__name__}"
    raise BadRequestError(f"{path} must hold one JSON object: {shorten(str(reason))}")


def _kind(manifest: Mapping[str, Any]) -> str | None:
    architecture = manifest.get("architecture")
    return architecture.get("kind") if isinstance(architecture, dict) else None


def _manifest_beside(path: Path, *, is_model: bool) -> Path | None:
    """Return the manifest of a file; one called only ``manifest.json`` may as well be that of a model beside it."""
    inside = [path / MANIFEST] if path.is_dir() else []
    own = path.with_name(f"{path.name}.{MANIFEST}")
    for one in (own, *inside, *([] if inside else [path.with_name(MANIFEST)])):
        if one.is_file() and (one == own or ("architecture" in read_object(one)) is is_model):
            return one
    return None


def _model_folder(
    folder: Path, manifest: dict[str, Any], version: str | None, for_task: str | None, say: Callable[[str], None]
) -> Prepared:
    is_hugging_face = (folder / "config.json").is_file()
    if "architecture" not in manifest and is_hugging_face:
        manifest["architecture"] = {"kind": "huggingface"}
    name = folder.resolve().name
    if _kind(manifest) in SERVED:
        return Prepared(name_and_version(manifest, name, version, None), None)
    if _kind(manifest) == "huggingface":
        _describe(manifest, folder, for_task, say)
        files = {one.name: one for one in files_in(folder) if one.name != MANIFEST and one.suffix in HUGGING_FACE}
        if left := sorted(one.name for one in files_in(folder) if one.name not in files and one.name != MANIFEST):
            say(f"Not sent, since the service reads safetensors and tokenizers only: {', '.join(left)}")
        if not any(one.endswith(_SAFETENSORS) for one in files):
            raise BadRequestError(
                f"{folder} holds no {_SAFETENSORS} file: save the weights with "
                "`save_pretrained(..., safe_serialization=True)`; other formats can run code and are never read"
            )
        source: Source = FolderArchive(f"{name}.tar", files)
        return Prepared(name_and_version(manifest, name, version, source), source)
    weights = [one for one in files_in(folder) if one.suffix in (_SAFETENSORS, _EXPORTED, _ONNX)]
    pickled = [one for one in files_in(folder) if one.suffix in PICKLED]
    if pickled and not weights:
        raise _pickled(*pickled)
    if _kind(manifest) == "ensemble" and len(weights) > 1:
        members = FolderArchive(f"{name}.tar", {one.name: one for one in weights})
        return Prepared(name_and_version(manifest, name, version, members), members)
    if not manifest or len(weights) != 1:
        names = ", ".join(one.name for one in weights) or "none"
        raise BadRequestError(
            f"{folder} is not a model: it must hold {MANIFEST} ({'there' if manifest else 'missing'}) and one "
            f"{_SAFETENSORS}, {_EXPORTED} or {_ONNX} file (there: {names}), or be a Hugging Face folder with "
            "config.json"
        )
    return Prepared(name_and_version(_exported(manifest, weights[0]), name, version, weights[0]), weights[0])


def _exported(manifest: dict[str, Any], path: Path) -> dict[str, Any]:
    """Fill in what the name of an exported program says."""
    if path.suffix in (_EXPORTED, _ONNX):
        manifest.setdefault("task", TABLES if "features" in manifest else IMAGES)
        manifest.setdefault("architecture", {"kind": "exported" if path.suffix == _EXPORTED else "onnx"})
    return manifest


def _pickled(*paths: Path) -> BadRequestError:
    named = ", ".join(map(str, paths))
    return BadRequestError(f"{named}: pickle is never loaded, since it can run code: send safetensors. {CONVERT}")


def _describe(manifest: dict[str, Any], folder: Path, for_task: str | None, say: Callable[[str], None]) -> None:
    """Fill in the task of a Hugging Face folder, and its class names."""
    config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    if "task" not in manifest:
        manifest["task"] = _task(config, for_task)
        if manifest["task"] == _TEXT and for_task is None:
            say(f"Taken for a model of single texts; of pairs its task is {_PAIR} (--task, or {MANIFEST})")
    if manifest["task"] is None:
        named = shorten(", ".join(_architectures(config))) or "none"
        raise BadRequestError(
            f"the task of {folder} cannot be inferred (config.json: architectures: {named}): write "
            f'{folder / MANIFEST}, e.g. {{"task": "{_TEXT}"}}. Tasks: {", ".join(HEADS)}'
        )
    try:
        names = label_names(config)
    except InspectionError as error:
        raise BadRequestError(f"{folder / 'config.json'}: {error}") from error
    if "labels" not in manifest and names is not None and not all(re.fullmatch(r"LABEL_\d+", name) for name in names):
        manifest["labels"] = names


def _task(config: Mapping[str, Any], for_task: str | None) -> str | None:
    architectures = _architectures(config)
    tasks = tasks_of_heads(architectures)
    if len(tasks) <= 1:
        return next(iter(tasks), None)
    if config.get("problem_type") == "multi_label_classification":
        return "multi-label-classification"
    return for_task if for_task in tasks else _TEXT


def _architectures(config: Mapping[str, Any]) -> list[str]:
    """Return the architectures a config names; none where it says something else there."""
    named = config.get("architectures")
    return [str(one) for one in named] if isinstance(named, list) else []


def _image_folders(folder: Path) -> FolderArchive:
    try:
        return image_folders(folder)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
