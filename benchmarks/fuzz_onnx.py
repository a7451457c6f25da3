"""ONNX files changed at random: none crashes or hangs what runs it, fills memory, or executes anything.

    python -m benchmarks.fuzz_onnx                # 10,000 files
    python -m benchmarks.fuzz_onnx --first 4711 --cases 1

The five graphs of tests/models/onnx_graphs.npz and one written by hand are changed (tests/fuzz/onnx_mutations.py),
inspected as an upload is, and where that accepts them loaded, traced and run forward and backward: see
:mod:`benchmarks.fuzzing`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzzing import LIMITS, Fuzzer, main
from seatrial.contracts.models import ModelManifest
from workers.models.image_classifier import ImageClassifier

GRAPHS = Path(__file__).parent.parent / "tests" / "models" / "onnx_graphs.npz"


def files(folder: Path) -> list[tuple[bytes, ModelManifest]]:
    """Return the files to start from and their manifests; nothing is kept in the folder."""
    from tests.ingest.onnx_files import body, linear

    found = [(linear(), ModelManifest.model_validate(body()))]
    stored = dict(np.load(GRAPHS))
    for kind in sorted(name.removesuffix("_onnx") for name in stored if name.endswith("_onnx")):
        shape = list(stored[f"{kind}_x"].shape[1:])
        changes: dict[str, Any] = {"input": {"shape": shape, "mean": [0.0], "std": [1.0]}}
        if len(shape) == 1:
            features = {"columns": [f"c{at}" for at in range(shape[0])]}
            changes = {"task": "tabular-classification", "features": features, "input": None}
        found.append((stored[f"{kind}_onnx"].tobytes(), ModelManifest.model_validate(body(**changes))))
    return found


def load(manifest: ModelManifest, path: Path) -> ImageClassifier:
    """Load one, as a worker does."""
    import torch

    from workers.models.torch_onnx import load_onnx

    return load_onnx(manifest, path, torch.device("cpu"), limits=LIMITS)


def fuzzer() -> Fuzzer:
    """Return what changes ONNX files."""
    from tests.fuzz.onnx_mutations import mutated

    return Fuzzer("benchmarks.fuzz_onnx", "files", "model.onnx", files, mutated, bytes, load)


if __name__ == "__main__":
    main(fuzzer(), __doc__ or "")
