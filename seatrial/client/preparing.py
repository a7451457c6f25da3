"""What a folder or a file is, as an upload takes it: its bytes, and a manifest that is filled in from it.

A manifest is looked for beside the file, or in the folder; what it leaves out is inferred: name and version (a digest,
so that the same content is the same version), task and architecture of a Hugging Face folder, the task of data.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seatrial.client.folder_archive import FolderArchive
from seatrial.client.requests import Source
from seatrial.contracts.datasets import COLUMNS
from seatrial.contracts.models import ARRAYS, HEADS, IMAGES, TAGGING

MANIFEST = "manifest.json"
WEIGHTS = (".safetensors", ".pt2", ".onnx")
PICKLED = frozenset({".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"})
"""Names of files that are pickles nearly always; the service looks at the bytes."""
HUGGING_FACE = frozenset({".json", ".txt", ".model", ".jinja", ".vocab", ".safetensors"})
"""Of a Hugging Face folder, what the service reads; weights in other formats and code it would refuse."""

_HEAD_BYTES = 2**20


def model_upload(file: Source | str, manifest: Mapping[str, Any] | None) -> tuple[Source, dict[str, Any]]:
    """Return what is sent of a model, and its manifest.

    Args:
        file: Weights, an archive, or a folder: a Hugging Face one, or one of ``manifest.json`` beside weights.
        manifest: What is said about it; by default what is found and inferred.

    Raises:
        FileNotFoundError: There is no such path.
        ValueError: It is no model, a pickle, or nothing says what it is.
    """
    path = Path(file) if isinstance(file, str) else file
    _check_exists(path)
    if isinstance(path, Path) and path.suffix in PICKLED and not path.is_dir():
        raise _pickled(path)
    if not isinstance(path, Path) or (manifest is not None and not path.is_dir()):
        return _as_given(path, manifest)
    told = dict(manifest) if manifest is not None else _beside(path, is_model=True)
    if not path.is_dir():
        if not told:
            raise ValueError(f"{path} has no manifest: give one, or write {path.name}.{MANIFEST} beside it")
        return path, name_and_version(told, path.stem, None, path)
    name = path.resolve().name
    if (path / "config.json").is_file():
        told.setdefault("architecture", {"kind": "huggingface"})
        if "task" not in told:
            told["task"] = _task_of(path / "config.json")
        files = {one.name: one for one in files_in(path) if one.name != MANIFEST and one.suffix in HUGGING_FACE}
        archive = FolderArchive(f"{name}.tar", files)
        return archive, name_and_version(told, name, None, archive)
    weights = [one for one in files_in(path) if one.suffix in WEIGHTS]
    pickled = [one for one in files_in(path) if one.suffix in PICKLED]
    if pickled and not weights:
        raise _pickled(*pickled)
    if not told or not weights:
        raise ValueError(
            f"{path} is not a model: it must hold {MANIFEST} ({'there' if told else 'missing'}) beside a "
            f"{', '.join(WEIGHTS)} file ({', '.join(one.name for one in weights) or 'none there'}), or be a Hugging "
            "Face folder with config.json"
        )
    source = weights[0] if len(weights) == 1 else FolderArchive(f"{name}.tar", {one.name: one for one in weights})
    return source, name_and_version(told, name, None, source)


def dataset_upload(file: Source | str, manifest: Mapping[str, Any] | None) -> tuple[Source, dict[str, Any]]:
    """Return what is sent of a dataset, and its manifest.

    Args:
        file: A file of examples, or a folder of a folder of images for each class.
        manifest: What is said about it; by default what is found and inferred.

    Raises:
        FileNotFoundError: There is no such path.
        ValueError: The folder is empty, or nothing says what the examples are for.
    """
    path = Path(file) if isinstance(file, str) else file
    _check_exists(path)
    if not isinstance(path, Path) or (manifest is not None and not path.is_dir()):
        return _as_given(path, manifest)
    told = dict(manifest) if manifest is not None else _beside(path, is_model=False)
    told.setdefault("task", task_of_data(path))
    if told["task"] is None:
        raise ValueError(f'the task of {path} cannot be inferred: give a manifest with "task" and "columns"')
    source: Source = image_folders(path) if path.is_dir() else path
    return source, name_and_version(told, path.stem, None, source)


def task_of_data(path: Path) -> str | None:
    """Return what data are for by the columns of a table, or by what they are; None where they do not say."""
    if path.is_dir() or path.suffix == ".npz":
        return IMAGES
    if path.suffix == ".conllu":
        return TAGGING
    columns = columns_of(path)
    by_length = sorted(COLUMNS.items(), key=lambda pair: -len(pair[1]))
    return next((task for task, wanted in by_length if task not in ARRAYS and columns.issuperset(wanted)), None)


def columns_of(path: Path) -> set[str]:
    """Return the columns of a CSV or JSON Lines file by its first line; none where it is neither."""
    with path.open("rb") as file:
        line = file.readline(_HEAD_BYTES).decode("utf-8-sig", "replace").strip()
    if line.startswith("{"):
        try:
            return set(json.loads(line))
        except ValueError:
            return set()
    return {cell.strip().strip('"') for cell in re.split(r"[,;\t]", line)}


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder itself: what exporters put below is other formats of the same."""
    return sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))


def image_folders(folder: Path) -> FolderArchive:
    """Return a folder of a folder of images for each class.

    Raises:
        ValueError: It holds no files.
    """
    found = {one.relative_to(folder): one for one in folder.rglob("*") if one.is_file() and one.name != MANIFEST}
    files = {
        inside.as_posix(): one
        for inside, one in found.items()
        if not any(part.startswith(".") for part in inside.parts)
    }
    if not files:
        raise ValueError(f"{folder} holds no files: it must hold a folder of images for each class")
    return FolderArchive(f"{folder.resolve().name}.tar", files)


def tasks_of_heads(architectures: Iterable[str]) -> set[str]:
    """Return what models of Hugging Face's classes do; a sequence classifier may read texts or pairs of them."""
    named = list(architectures)
    return {task for task, head in HEADS.items() if any(one.endswith(head) for one in named)}


def name_and_version(manifest: dict[str, Any], name: str, version: str | None, source: Source | None) -> dict[str, Any]:
    """Return a manifest with a name and a version."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")[:100]
    filled = {"name": cleaned or "unnamed", **manifest}
    if version is not None:
        filled["version"] = version
    elif "version" not in filled:
        filled["version"] = _digest(filled, source)
    return filled


def _digest(manifest: Mapping[str, Any], source: Source | None) -> str:
    """Return a version that differs where the content does."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    if source is not None:
        with source.open("rb") as file:
            while chunk := file.read(2**20):
                digest.update(chunk)
    return digest.hexdigest()[:12]


def _check_exists(path: Source) -> None:
    if isinstance(path, Path) and not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path} (looked for from {Path.cwd()})")


def _pickled(*paths: Path) -> ValueError:
    return ValueError(
        f"{', '.join(map(str, paths))}: pickle is never loaded, since it can run code: send safetensors. `seatrial "
        "convert FILE -o FOLDER` makes a model of a state dict; run it where the file may be trusted"
    )


def _as_given(source: Source, manifest: Mapping[str, Any] | None) -> tuple[Source, dict[str, Any]]:
    if manifest is None:
        raise ValueError(f"{source.name} is no path, so nothing can be looked for beside it: give a manifest")
    return source, dict(manifest)


def _beside(path: Path, *, is_model: bool) -> dict[str, Any]:
    """Return the manifest of a file or a folder; an empty one where there is none.

    One called only ``manifest.json`` beside a file may be that of a model or of data beside it.
    """
    own = path.with_name(f"{path.name}.{MANIFEST}")
    for one in (own, path / MANIFEST if path.is_dir() else path.with_name(MANIFEST)):
        if not one.is_file():
            continue
        told = json.loads(one.read_text(encoding="utf-8"))
        if not isinstance(told, dict):
            raise ValueError(f"{one} must hold one JSON object")
        if path.is_dir() or one == own or ("architecture" in told) is is_model:
            return told
    return {}


def _task_of(config: Path) -> str:
    told = json.loads(config.read_text(encoding="utf-8"))
    named = told.get("architectures") if isinstance(told, dict) else None
    tasks = tasks_of_heads(str(one) for one in named) if isinstance(named, list) else set()
    if told.get("problem_type") == "multi_label_classification" and "multi-label-classification" in tasks:
        return "multi-label-classification"
    if "text-classification" in tasks:
        return "text-classification"
    if not tasks:
        raise ValueError(f'{config} does not say what the model does: give a manifest, {{"task": ...}}')
    return tasks.pop()
