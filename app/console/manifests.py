"""From the fields of an upload form to a manifest, and from what is wrong with the manifest back to a field."""

import json
from collections.abc import Mapping
from typing import Any

from app.console import architectures
from app.console.forms import REST
from app.console.values import read_number
from app.web.problems import InvalidRequestError

# Fields whose names on the page are not those in the manifest, by the beginning of their pointers.
_PLACES = {
    "/manifest/input/mean": "mean",
    "/manifest/input/std": "std",
    "/manifest/input": "shape",
    "/manifest/features": "features",
    "/file": "file",
}
_FIELDS = ("name", "version", "task", "architecture", "labels", "clean_accuracy", "split", "columns")


def field_of(pointer: str, kind: str = "") -> str:
    """Return the field of the page that a JSON pointer into the request is about, of a kind of architecture.

    >>> field_of("/manifest/labels/3"), field_of("/manifest/input/shape"), field_of("/manifest/architecture/url")
    ('labels', 'shape', 'endpoint')
    """
    if inside := architectures.ARCHITECTURES.field_of(pointer, kind):
        return inside
    for place, name in _PLACES.items():
        if pointer.startswith(place):
            return name
    return next((name for name in _FIELDS if (pointer + "/").startswith(f"/manifest/{name}/")), REST)


def model_manifest(fields: Mapping[str, str]) -> str:
    """Return a model's manifest as JSON text; what is no number stays a text, for the contract to refuse.

    Raises:
        InvalidRequestError: A field that holds JSON holds none.

    >>> model_manifest({"name": "m", "version": "1", "task": "image-classification", "architecture": "lenet"})
    '{"name": "m", "version": "1", "task": "image-classification", "architecture": {"kind": "lenet"}}'
    """
    said = {name: value.strip() for name, value in fields.items()}
    manifest: dict[str, Any] = {name: said.get(name, "") for name in ("name", "version", "task")}
    manifest["architecture"] = architectures.ARCHITECTURES.read(said.get("architecture", ""), said)
    if said.get("shape"):
        manifest["input"] = {
            "shape": _numbers(said["shape"]),
            "mean": _numbers(said.get("mean", "")) or [0.0],
            "std": _numbers(said.get("std", "")) or [1.0],
        }
    if columns := _lines(fields.get("features", "")):
        manifest["features"] = _features(columns, said)
    if labels := _lines(fields.get("labels", "")):
        manifest["labels"] = labels
    if said.get("clean_accuracy"):
        manifest["clean_accuracy"] = read_number(said["clean_accuracy"])
    return json.dumps(manifest)


def model_fields(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands in the fields of the form for a model's manifest; an endpoint is to be written anew.

    >>> model_fields({"name": "m", "architecture": {"kind": "wide_resnet", "depth": 28}, "input": {"shape": [3, 8, 8]}})
    {'name': 'm', 'architecture': 'wide_resnet', 'depth': '28', 'shape': '3, 8, 8'}
    """
    architecture, seen = manifest.get("architecture") or {}, manifest.get("input") or {}
    kind, features = architecture.get("kind", ""), manifest.get("features") or {}
    ranges = features.get("ranges") or [None] * len(features.get("columns", ()))
    columns = zip(features.get("columns", ()), ranges, strict=False)
    said = {name: manifest.get(name) for name in ("name", "version", "task", "clean_accuracy")}
    said |= {"architecture": kind, "takes": features.get("takes")}
    for one in architectures.ARCHITECTURES.parameters.get(kind, ()):
        said[one.field] = json.dumps(architecture[one.name]) if one.is_json and one.name in architecture else None
        said[one.field] = said[one.field] or architecture.get(one.name)
    for name in ("shape", "mean", "std"):
        values = seen.get(name) or features.get(name) or ()
        said[name] = ", ".join(f"{value:g}" for value in values)
    said["labels"] = "\n".join(map(str, manifest.get("labels") or ()))
    said["features"] = "\n".join(
        name if ends is None else f"{name} = {ends[0]:g}, {ends[1]:g}" for name, ends in columns
    )
    return {name: str(value) for name, value in said.items() if value not in (None, "")}


def dataset_manifest(fields: Mapping[str, str]) -> str:
    """Return a dataset's manifest as JSON text.

    Raises:
        InvalidRequestError: A line of ``columns`` names no column.

    >>> dataset_manifest({"name": "d", "version": "1", "task": "t", "split": "test", "columns": "text = review"})
    '{"name": "d", "version": "1", "task": "t", "split": "test", "columns": {"text": "review"}}'
    """
    manifest: dict[str, Any] = {name: fields.get(name, "").strip() for name in ("name", "version", "task", "split")}
    columns = {}
    for line in _lines(fields.get("columns", "")):
        role, sign, column = (part.strip() for part in line.partition("="))
        if not sign or not role or not column:
            raise InvalidRequestError(f"Write role = column on each line, not {line!r}.", pointer="/manifest/columns")
        columns[role] = column
    if columns:
        manifest["columns"] = columns
    if features := _lines(fields.get("features", "")):
        manifest["features"] = features
    if labels := _lines(fields.get("labels", "")):
        manifest["labels"] = labels
    return json.dumps(manifest)


def _features(lines: list[str], said: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a table's model: a line each, with the range after the name where there is one."""
    features: dict[str, Any] = {"columns": []}
    ranges: list[list[int | float | str] | None] = []
    for line in lines:
        name, sign, bounds = (part.strip() for part in line.rpartition("="))
        features["columns"].append(name if sign else bounds)
        ranges.append(_numbers(bounds) if sign else None)
    if any(ranges):
        features["ranges"] = ranges
    for name in ("mean", "std"):
        if said.get(name):
            features[name] = _numbers(said[name])
    if said.get("takes"):
        features["takes"] = said["takes"]
    return features


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _numbers(text: str) -> list[int | float | str]:
    return [read_number(part) for part in text.replace(",", " ").split()]
