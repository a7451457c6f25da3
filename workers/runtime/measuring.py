"""What of a worker enters the records of a check: two that agree in it measure the same."""

from pathlib import Path
from typing import Any

from seatrial.contracts.models import TEXTS
from seatrial.store.reuse import measured_digest
from seatrial.store.settings import Settings
from workers.runtime.code import code_version, hardware
from workers.runtime.jobs import CheckJob


def measured_with(job: CheckJob, device: str, settings: Settings) -> str:
    """Return a digest of all of this worker that enters the records of a check."""
    further: dict[str, Any] = {}
    if job.by_name["model"].task in TEXTS:
        further["resources"] = _edition(settings.resolved_resources)
    if job.audit.spec.get("stop") is not None:
        # Whether there is anything to compare with says which rules have to be decided.
        further["has_baseline"] = job.has_baseline
    return measured_digest(code_version(), hardware(device, settings), further)


def _edition(folder: Path) -> list[tuple[str, int, int]]:
    """Return what tells one edition of the language resources from another, without reading gigabytes of them."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [(str(path.relative_to(folder)), (at := path.stat()).st_size, at.st_mtime_ns) for path in files]
