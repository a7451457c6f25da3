"""Which code this process runs, and on what."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from seatrial.store.settings import Settings
from workers.processors import processor

ROOT = Path(__file__).resolve().parents[2]
OWN = ("seatrial", "app", "workers")

COMPUTING = (
    *("torch", "numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "torchvision", "timm"),
    *("transformers", "tokenizers", "textattack", "nltk", "jieba"),
)
"""Packages whose version is part of the code that measures."""


def code_of_audits(settings: Settings) -> str | None:
    """Return the code that is to measure an audit alone, None where the operator lets codes mix."""
    return None if settings.mix_code else code_version()


def hardware(device: str, settings: Settings) -> str:
    """Return what iterative numbers may differ by in their last digits: the GPU, or the processor and its threads."""
    precision = "" if settings.autocast == "off" else f", certificates in {settings.autocast}"
    if device != "cpu":
        return device + (", CUDA graphs" if settings.cuda_graphs else "") + precision
    return f"{processor()}, {settings.torch_threads or os.cpu_count() or 1} threads{precision}"


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return a digest of Seatrial's sources and tables, of plug-ins' sources, and of the versions of what computes.

    Read once, as early as a process can: sources replaced under a running process are not the ones it runs.
    """
    digest = hashlib.sha256(repr([(name, _version(name)) for name in COMPUTING]).encode())
    groups = [group for group in entry_points().groups if group.startswith("seatrial.")]
    points = {point for group in groups for point in entry_points(group=group)}
    plugins = {(point.value, point.dist and point.dist.version) for point in points}
    digest.update(repr(sorted(plugins, key=repr)).encode())
    for name, path in [*_own_files(), *_plugin_files(points)]:
        digest.update(f"\n{name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(name)
    return None


def _own_files() -> Iterator[tuple[str, Path]]:
    for package in OWN:
        # Glyphs, stopwords and respellings are data that records follow from.
        paths = (path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        yield from ((path.relative_to(ROOT).as_posix(), path) for path in sorted(paths))


def _plugin_files(points: set[EntryPoint]) -> Iterator[tuple[str, Path]]:
    """Yield the sources of plug-ins: an installation that can be edited keeps its version whatever is changed."""
    for root in sorted({point.module.partition(".")[0] for point in points} - set(OWN)):
        try:
            spec = find_spec(root)
        except (ImportError, ValueError):
            continue
        if spec is None:
            continue
        if spec.submodule_search_locations:
            for folder in map(Path, spec.submodule_search_locations):
                yield from ((f"{root}/{path.relative_to(folder).as_posix()}", path) for path in _sources(folder))
        elif spec.origin is not None and Path(spec.origin).is_file():
            yield root, Path(spec.origin)


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file())
