"""As much of MLflow as the hook touches, with its rules: what it refuses, this refuses.

What is logged lies in a JSON file, named as MLflow names its store: MLFLOW_TRACKING_URI.
"""

import json
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

VERSIONS = {("digits", "3")}
"""What is registered."""


class MlflowException(Exception):
    """A refusal."""


@dataclass
class _Metric:
    key: str
    value: float
    timestamp: int
    step: int


@dataclass
class _Pair:
    key: str
    value: str


entities = SimpleNamespace(Metric=_Metric, Param=_Pair, RunTag=_Pair)

_active: list[Any] = []


def active_run() -> Any:
    """Return the run of this process, if one is active."""
    return _active[-1] if _active else None


def read() -> dict[str, Any]:
    """Return everything logged."""
    path = Path(os.environ["MLFLOW_TRACKING_URI"])
    empty = {"metrics": {}, "params": {}, "tags": {}, "files": {}, "versions": {}, "runs": []}
    return json.loads(path.read_text()) if path.exists() else empty


class MlflowClient:
    """Writes to the file."""

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        held = read()
        held["runs"] = sorted({*held["runs"], run_id})
        for one in (*metrics, *params, *tags):
            _check_name(one.key)
        for one in params:
            if held["params"].get(one.key, one.value) != one.value:
                raise MlflowException(f"Changing param values is not allowed: {one.key}")
            assert isinstance(one.value, str)
            assert len(one.value) <= 6000
            held["params"][one.key] = one.value
        for one in metrics:
            assert isinstance(one.value, float | int)
            assert one.timestamp > 0
            held["metrics"][one.key] = one.value
        held["tags"] |= {one.key: one.value for one in tags}
        _write(held)

    def log_artifacts(self, run_id: str, local_dir: str, artifact_path: str) -> None:
        held = read()
        assert run_id in held["runs"]
        for path in sorted(Path(local_dir).iterdir()):
            held["files"][f"{artifact_path}/{path.name}"] = path.read_text()
        _write(held)

    def set_model_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        assert isinstance(version, str)
        if (name, version) not in VERSIONS:
            raise MlflowException(f"Model Version (name={name}, version={version}) not found")
        held = read()
        held["versions"].setdefault(f"{name} {version}", {})[key] = value
        _write(held)


def _write(held: dict[str, Any]) -> None:
    Path(os.environ["MLFLOW_TRACKING_URI"]).write_text(json.dumps(held))


def _check_name(name: str) -> None:
    """Refuse as ``mlflow.utils.validation`` does, on Windows: elsewhere it takes a colon as well."""
    is_path = posixpath.normpath(name) == name and not name.startswith(("..", "/")) and name != "."
    if not re.match(r"^[/\w.\- ]*$", name) or not is_path or len(name) > 250:
        raise MlflowException(f"Invalid name: {name!r}")
