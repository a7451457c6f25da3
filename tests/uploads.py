"""Small uploads that pass inspection, made without torch, and what a test wants to know about a refusal."""

import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.web.services import Services
from seatrial.store.tables import DatasetRow, ModelRow

LABELS = ["even", "odd"]


def weights(fill: float = 0.0) -> bytes:
    """Return a linear layer (2, 16) as safetensors."""
    data = np.full(34, fill, dtype="<f4").tobytes()
    header = {
        "1.weight": {"dtype": "F32", "shape": [2, 16], "data_offsets": [0, 128]},
        "1.bias": {"dtype": "F32", "shape": [2], "data_offsets": [128, 136]},
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def npz(count: int = 20, labels: Any = None, images: Any = None) -> bytes:
    """Return ``count`` 4x4 images with labels 0 and 1."""
    if images is None:
        images = np.random.default_rng(0).integers(0, 256, (count, 1, 4, 4), dtype=np.uint8)
    if labels is None:
        labels = np.arange(count) % 2
    buffer = io.BytesIO()
    np.savez(buffer, images=images, labels=np.asarray(labels))
    return buffer.getvalue()


def model_manifest(**more: Any) -> dict[str, Any]:
    """Return the manifest of :func:`weights`."""
    return {
        "name": "parity",
        "version": "1",
        "task": "image-classification",
        "architecture": {"kind": "layers", "layers": [["flatten"], ["linear", 16, 2]]},
        "input": {"shape": [1, 4, 4], "mean": [0.0], "std": [1.0]},
        "labels": LABELS,
        **more,
    }


def dataset_manifest(**more: Any) -> dict[str, Any]:
    """Return the manifest of :func:`npz`."""
    return {"name": "parity", "version": "1", "task": "image-classification", **more}


def upload(client: httpx.Client, kind: str, manifest: Any, data: bytes, **more: Any) -> httpx.Response:
    """Post a multipart upload to ``/v1/<kind>``."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    return client.post(f"/v1/{kind}", data={"manifest": text}, files={"file": ("upload.bin", data)}, **more)


def upload_both(client: httpx.Client, **more: Any) -> tuple[str, str]:
    """Upload a model and a dataset and return their ids."""
    model = upload(client, "models", model_manifest(), weights(), **more)
    dataset = upload(client, "datasets", dataset_manifest(), npz(), **more)
    assert (model.status_code, dataset.status_code) == (201, 201), (model.text, dataset.text)
    return model.json()["id"], dataset.json()["id"]


def submission(model: str, dataset: str, **more: Any) -> dict[str, Any]:
    """Return the body of a small audit."""
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5, "effort": "quick"}
    return {"model": model, "dataset": dataset, "samples": 20, "checks": [check], **more}


def assert_nothing_stored(services: Services) -> None:
    """Assert that a refusal left no row and no file."""
    with services.database.read() as session:
        assert session.query(ModelRow).count() == 0
        assert session.query(DatasetRow).count() == 0
    folder = Path(services.settings.resolved_artifacts_url)
    assert [path for path in folder.rglob("*") if path.is_file()] == []
