"""Exported programs changed at random: none crashes or hangs what runs it, fills memory, or executes anything.

    python -m benchmarks.fuzz_exported                # 10,000 archives
    python -m benchmarks.fuzz_exported --first 4711 --cases 1

Archives of four networks (tests/models/exportable.py and one written by hand) are changed in their operators,
arguments, shapes, payloads and containers (tests/fuzz/exported_mutations.py), inspected as an upload is, and where that
accepts them loaded, traced and run forward and backward: see :mod:`benchmarks.fuzzing`.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.fuzzing import LIMITS, Fuzzer, main
from seatrial.contracts.models import ModelManifest
from workers.models.image_classifier import ImageClassifier


def archives(folder: Path) -> list[tuple[dict[str, bytes], ModelManifest]]:
    """Write the archives to start from, once; return their files and manifests."""
    from tests.ingest.exported_programs import exported_manifest, files
    from tests.models import exportable
    from tests.models.builders import manifest

    found = [(files(), exported_manifest())]
    spec = {"shape": list(exportable.SHAPE), "mean": [0.0], "std": [1.0]}
    for kind in exportable.KINDS:
        path = folder / f"{kind}.pt2"
        if not path.exists():
            exportable.export(exportable.made(kind), path)
        with zipfile.ZipFile(path) as archive:
            of_kind = {name: archive.read(name) for name in archive.namelist()}
        found.append((of_kind, manifest({"kind": "exported"}, input=spec, labels=list("abcd"))))
    return found


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return files as an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def load(manifest: ModelManifest, path: Path) -> ImageClassifier:
    """Load one, as a worker does."""
    import torch

    from workers.models.torch_exported import load_exported_image

    return load_exported_image(manifest, path, torch.device("cpu"), limits=LIMITS)


if __name__ == "__main__":
    from tests.fuzz.exported_mutations import mutated

    main(Fuzzer("benchmarks.fuzz_exported", "archives", "model.pt2", archives, mutated, packed, load), __doc__ or "")
