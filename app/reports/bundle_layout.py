"""What is in a bundle: an audit that can be taken away, checked and run again.

::

    audit.json                        what was asked, of what, by which versions; the verdict (``BundleIndex``)
    results.json                      the numbers of each check (a list of ``BundleResult``)
    inputs/<role>.manifest.json       manifest of a model or dataset
    inputs/<role>.<format>            its bytes, where they were wanted
    records/<check>/<stage>.parquet   per-example records
    SHA256SUMS                        of all of these, as ``sha256sum --check`` reads it
"""

import hashlib
from datetime import datetime
from typing import Any, Literal

from seatrial.contracts.audits import Reused
from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

FORMAT: Literal["seatrial.bundle/1"] = "seatrial.bundle/1"
INDEX, RESULTS, SUMS = "audit.json", "results.json", "SHA256SUMS"


def evidence_digest(sums: str) -> str:
    """Return the digest of an audit's numbers and records, whoever made the bundle and when.

    Args:
        sums: ``SHA256SUMS``: its lines about ``results.json`` and ``records/`` are what is hashed.
    """
    lines = [line for line in sums.splitlines() if line.partition("  ")[2].startswith((RESULTS, "records/"))]
    return "sha256:" + hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


class BundleInput(Read):
    """A model or a dataset of the audit."""

    id: str
    kind: Literal["model", "dataset"]
    roles: list[str]
    """Where the request names it, as JSON pointers: ``/model``, ``/checks/0/validation_dataset``."""
    name: str
    version: str
    format: str
    digest: str
    size_bytes: int
    manifest: str
    """Path in the bundle."""
    file: str | None
    """Path in the bundle; null where the bytes were not wanted."""
    facts: dict[str, Any] | None


class BundleRecords(Read):
    """The records of one stage."""

    stage: str
    source: str
    examples: int
    rows: int
    file: str


class BundleCheck(Read):
    """A check of the audit; its numbers are in ``results.json``, by position."""

    position: int
    kind: str
    state: RunState
    params: dict[str, Any]
    records: list[BundleRecords]
    reused: Reused | None = None
    """The earlier check whose records they are; null where the audit measured them."""


class BundleResult(Read):
    """What came out of a check."""

    position: int
    kind: str
    result: Result | None
    error: StoredProblem | None


class BundleIndex(Read):
    """``audit.json``."""

    format: Literal["seatrial.bundle/1"]
    audit: str
    state: RunState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    spec: dict[str, Any]
    spec_digest: str
    seed: int
    samples: int
    error: StoredProblem | None
    inputs: list[BundleInput]
    checks: list[BundleCheck]
    judgement: Judgement | None
    policy: dict[str, Any] | None
    versions: dict[str, str]
    """Packages installed beside the API that made the bundle; where workers have machines of their own, theirs may
    differ."""
    workers: list[str]
