"""What is stored of audits, as the verdict reads it: numbers at once, records only where a rule wants them."""

import logging
from typing import Any

import pyarrow as pa
from sqlalchemy.orm import Session

from app.audits import repository as audits
from app.audits.repository import AnyRow
from app.contracts.estimates import Result
from app.contracts.problems import StoredProblem
from app.contracts.states import RunState
from app.core.records import read_parquet
from app.core.storage import ArtifactMissingError
from app.gates import repository
from app.gates.verdict import Measured, MeasuredCheck, Pairing
from app.web.services import Services

log = logging.getLogger(__name__)


def read_measured(session: Session, audit_id: str) -> Measured:
    """Return the numbers of an audit."""
    return Measured(audit_id, [_check(row) for row in repository.list_checks(session, audit_id)])


def _check(row: AnyRow) -> MeasuredCheck:
    return MeasuredCheck(
        position=row.ordinal,
        kind=row.kind,
        state=RunState(row.state),
        result=None if row.result is None else Result.model_validate(row.result),
        error=None if row.error is None else StoredProblem.model_validate(row.error),
        params=row.params,
    )


def pair(services: Services, audit: AnyRow, baseline: AnyRow) -> Pairing:
    """Return where the records of two audits are read from; nothing is read before it is asked for, or twice."""
    tables: dict[tuple[str, int, str], Any] = {}

    def read(audit_id: str, position: int, stage: str) -> Any:
        asked = (audit_id, position, stage)
        if asked not in tables:
            tables[asked] = _read_records(services, *asked)
        return tables[asked]

    return Pairing(read=read, is_same_dataset=audit.dataset_digest == baseline.dataset_digest)


def _read_records(services: Services, audit_id: str, position: int, stage: str) -> Any:
    """Return a stage's records (a pyarrow Table); None where they are not all there."""
    with services.database.read() as session:
        check = next((one for one in repository.list_checks(session, audit_id) if one.ordinal == position), None)
        if check is None:
            return None
        shards = next((one.shards for one in audits.list_stages(session, check.id) if one.name == stage), None)
        digests = audits.list_record_digests(session, check.id, stage)
    if shards is None or len(digests) != shards:
        return None
    try:
        return read_parquet([services.store.local_path(digest) for digest in digests])
    except (ArtifactMissingError, OSError, pa.ArrowException) as error:
        # The numbers are there all the same: they are compared without pairs.
        log.warning("records of stage %s of audit %s cannot be read: %s", stage, audit_id, error)
        return None
