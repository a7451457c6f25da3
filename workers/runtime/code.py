"""Which code this process runs, and on what."""

import hashlib
import os
import platform
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import entry_points, version
from pathlib import Path

from seatrial.store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def code_of_audits(settings: Settings) -> str | None:
    """Return the code that is to measure an audit alone, None where the operator lets codes mix."""
    return None if settings.mix_code else code_version()


@lru_cache(maxsize=1)
def processor() -> str:
    """Return the type of this machine's processor: sums of floats are split by what it can do.

    A container may hide its name; the architecture is then all that is known.
    """
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def hardware(device: str, settings: Settings) -> str:
    """Return what iterative numbers may differ by in their last digits: the GPU, or the processor and its threads."""
    if device != "cpu":
        return device
    return f"{processor()}, {settings.torch_threads or os.cpu_count() or 1} threads"


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return a digest of Seatrial's sources and the versions of what computes beside them: torch, numpy, plug-ins.

    Read once, as early as a process can: sources replaced under a running process are not the ones it runs.
    """
    digest = hashlib.sha256(f"torch {version('torch')}, numpy {version('numpy')}".encode())
    groups = [group for group in entry_points().groups if group.startswith("seatrial.")]
    plugins = {(point.value, point.dist and point.dist.version) for g in groups for point in entry_points(group=g)}
    digest.update(repr(sorted(plugins, key=repr)).encode())
    for package in ("seatrial", "app", "workers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(f"\n{path.relative_to(ROOT).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
