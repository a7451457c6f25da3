"""Which code this process runs."""

import hashlib
from functools import lru_cache
from importlib.metadata import entry_points, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
