"""Makes bundles: an audit as a zip that can be taken away, checked and run again; see :mod:`app.reports.bundle_layout`.

Nothing in a bundle depends on when or where it was made, and nothing is compressed by the zip, whose bytes would follow
the version of zlib.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.audits import repository as audits
from app.reports import repository
from app.reports.bundle_layout import (
    FORMAT,
    INDEX,
    RESULTS,
    SUMS,
    BundleCheck,
    BundleIndex,
    BundleInput,
    BundleRecords,
    BundleResult,
)
from app.web.problems import ConflictError
from app.web.services import Services
from seatrial.contracts.audits import Reused
from seatrial.contracts.policies import Judgement
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import params_contract
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.families.shared.settling import settled_document
from seatrial.store.artifacts import ArtifactDamagedError
from seatrial.store.records import read_records, to_parquet
from seatrial.store.salts import told_spec
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow

# Zip knows no earlier moment.
_MOMENT = (1980, 1, 1, 0, 0, 0)
_CHUNK_BYTES = 2**20
_PACKAGES = (
    "seatrial",
    "numpy",
    "pyarrow",
    "pydantic",
    "safetensors",
    "scikit-learn",
    "scipy",
    "textattack",
    "torch",
    "transformers",
)


class NotEndedError(ConflictError):
    """The audit still runs."""

    code = "not-ended"
    title = "The audit has not ended"


def bundle_name(audit_id: str) -> str:
    """Return what a bundle is called."""
    return f"seatrial-{audit_id}.zip"


def get_ended(session: Session, project_id: str, audit_id: str) -> AuditRow:
    """Return an audit of the project that has ended.

    Raises:
        NotFoundError: There is none of that id.
        NotEndedError: It still runs.
    """
    audit = repository.get_audit(session, project_id, audit_id)
    if audit.state not in TERMINAL:
        raise NotEndedError(f"Audit {audit_id} is {audit.state}: only one that has ended can be taken away.")
    return audit


def build_bundle(services: Services, project_id: str, audit_id: str, *, with_inputs: bool = False) -> IO[bytes]:
    """Return the bundle as an open file that has no name and goes when it is closed; its position is the end.

    Raises:
        NotFoundError: There is no such audit.
        NotEndedError: It still runs.
        ArtifactMissingError: Records, a model or a dataset are gone from the store.
    """
    with services.database.read() as session:
        contents = _gather(session, project_id, audit_id)
    file = TemporaryFile(dir=services.store.staging())  # noqa: SIM115 - the caller closes it
    try:
        with zipfile.ZipFile(file, "w") as archive:
            _write(_Writer(archive), contents, services, with_inputs=with_inputs)
    except BaseException:
        file.close()
        raise
    return file


@dataclass(frozen=True)
class _Stage:
    name: str
    source: str
    examples: int
    digests: list[str]


@dataclass(frozen=True)
class _Contents:
    """Rows of an audit, read in one transaction."""

    audit: AuditRow
    checks: list[tuple[CheckRow, list[_Stage]]]
    inputs: dict[str, tuple[ModelRow | DatasetRow, list[str]]]
    judgement: Judgement | None
    policy: dict[str, Any] | None
    workers: list[str]
    measured_by: dict[str, str]


def _gather(session: Session, project_id: str, audit_id: str) -> _Contents:
    audit = get_ended(session, project_id, audit_id)
    rows = repository.list_checks(session, audit_id)
    checks = []
    for row in rows:
        stages = [
            _Stage(one.name, one.source, one.examples, list(audits.list_record_digests(session, row.id, one.name)))
            for one in audits.list_stages(session, row.id)
        ]
        checks.append((row, stages))
    inputs: dict[str, tuple[ModelRow | DatasetRow, list[str]]] = {}
    for role, identifier in _named(audit, rows):
        if identifier in inputs:
            inputs[identifier][1].append(role)
            continue
        find = repository.find_model if identifier.startswith("mdl_") else repository.find_dataset
        if (found := find(session, project_id, identifier)) is not None:
            inputs[identifier] = (found, [role])
    judged = repository.find_own_judgement(session, audit_id)
    return _Contents(
        audit,
        checks,
        inputs,
        judged.judgement if judged else None,
        dict(judged.document) if judged else None,
        repository.workers_of(session, audit_id),
        repository.measured_by(session, audit_id),
    )


def _named(audit: AuditRow, checks: list[CheckRow]) -> Iterator[tuple[str, str]]:
    """Yield the models and datasets of an audit with where the request names them."""
    yield "/model", audit.model_id
    yield "/dataset", audit.dataset_id
    for row in checks:
        try:
            params = params_contract(row.kind).model_validate(row.params)
        except (KeyError, ValidationError):
            continue
        for parameter, identifier in params.references().items():
            yield f"/checks/{row.ordinal}/{parameter}", identifier


class _Writer:
    """Adds files to a zip and remembers their digests."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.sums: dict[str, str] = {}

    def add(self, name: str, data: bytes) -> None:
        self.copy(name, BytesIO(data), len(data))

    def add_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        self.add(name, text.encode() + b"\n")

    def copy(self, name: str, source: IO[bytes], size: int) -> str:
        """Add what is left of a file; return its digest."""
        info = zipfile.ZipInfo(name, _MOMENT)
        info.create_system, info.external_attr, info.file_size = 3, 0o100644 << 16, size
        sha = hashlib.sha256()
        with self._archive.open(info, "w") as target:
            while chunk := source.read(_CHUNK_BYTES):
                sha.update(chunk)
                target.write(chunk)
        self.sums[name] = sha.hexdigest()
        return f"sha256:{sha.hexdigest()}"


def _write(writer: _Writer, contents: _Contents, services: Services, *, with_inputs: bool) -> None:
    inputs = []
    for row, roles in contents.inputs.values():
        stem = "inputs/" + "-".join(roles[0].strip("/").split("/"))
        manifest, file = f"{stem}.manifest.json", f"{stem}.{row.format}" if with_inputs else None
        writer.add_json(manifest, row.manifest)
        if file is not None:
            with services.store.local_path(row.digest).open("rb") as source:
                if writer.copy(file, source, row.size_bytes) != row.digest:
                    raise ArtifactDamagedError(f"{row.digest}: the stored bytes have another digest")
        kind: Literal["model", "dataset"] = "model" if isinstance(row, ModelRow) else "dataset"
        inputs.append(
            BundleInput(
                id=row.id,
                kind=kind,
                roles=roles,
                name=row.name,
                version=row.version,
                format=row.format,
                digest=row.digest,
                size_bytes=row.size_bytes,
                manifest=manifest,
                file=file,
                facts=row.facts,
            )
        )
    checks = [_write_records(writer, row, stages, services) for row, stages in contents.checks]
    results = [
        BundleResult(
            position=row.ordinal,
            kind=row.kind,
            result=settled_document(row.kind, row.params, row.result),
            error=row.error,
        )
        for row, _ in contents.checks
    ]
    writer.add_json(RESULTS, [one.model_dump(mode="json") for one in results])
    audit = contents.audit
    index = BundleIndex(
        format=FORMAT,
        audit=audit.id,
        state=RunState(audit.state),
        created_at=audit.created_at,
        started_at=audit.started_at,
        finished_at=audit.finished_at,
        spec={**told_spec(audit.spec, audit.state), "model": audit.model_id, "dataset": audit.dataset_id},
        spec_digest=audit.spec_digest,
        seed=audit.seed,
        samples=audit.samples,
        error=StoredProblem.model_validate(audit.error) if audit.error else None,
        inputs=inputs,
        checks=checks,
        judgement=contents.judgement,
        policy=contents.policy,
        versions=versions() | contents.measured_by,
        workers=contents.workers,
    )
    writer.add_json(INDEX, index.model_dump(mode="json"))
    writer.add(SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(writer.sums.items())).encode())


def _write_records(writer: _Writer, row: CheckRow, stages: list[_Stage], services: Services) -> BundleCheck:
    records = []
    for stage in stages:
        table = read_records(services.store, stage.digests)
        if table is None:
            continue
        file = f"records/{row.ordinal}-{row.kind}/{stage.name}.parquet"
        writer.add(file, to_parquet(table))
        records.append(
            BundleRecords(
                stage=stage.name, source=stage.source, examples=stage.examples, rows=table.num_rows, file=file
            )
        )
    state = RunState(row.state)
    reused = Reused.model_validate(row.reused) if row.reused else None
    return BundleCheck(
        position=row.ordinal, kind=row.kind, state=state, params=row.params, records=records, reused=reused
    )


def versions() -> dict[str, str]:
    """Return the versions of the packages that numbers depend on, as far as they are installed here."""
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
