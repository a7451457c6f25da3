"""What is stored of audits, as the verdict reads it: numbers at once, records only where a rule wants them."""

import logging
from functools import cache
from typing import Any

import pyarrow as pa
from sqlalchemy.orm import Session

from app.gates import repository
from app.web.services import Services
from seatrial.contracts.datasets import read_as
from seatrial.contracts.estimates import Result
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState
from seatrial.families.shared.settling import settled
from seatrial.judging.verdict import Measured, MeasuredCheck, Pairing
from seatrial.store import records
from seatrial.store.artifacts import ArtifactMissingError
from seatrial.store.database import AnyRow

log = logging.getLogger(__name__)


def read_measured(session: Session, audit_id: str) -> Measured:
    """Return the numbers of an audit."""
    return Measured(audit_id, [_check(row) for row in repository.list_checks(session, audit_id)])


def _check(row: AnyRow) -> MeasuredCheck:
    result = None if row.result is None else Result.model_validate_json(row.result)
    return MeasuredCheck(
        position=row.ordinal,
        kind=row.kind,
        state=RunState(row.state),
        result=None if result is None else settled(row.kind, row.params, result),
        error=None if row.error is None else StoredProblem.model_validate(row.error),
        params=row.params,
    )


def pair(services: Services, audit: AnyRow, baseline: AnyRow) -> Pairing:
    """Return where the records of two audits are read from; nothing is read before it is asked for, or twice."""

    @cache
    def digests(stage: str) -> dict[tuple[str, int], list[str]]:
        with services.database.read() as session:
            return repository.list_records(session, audit.id, baseline.id, stage)

    @cache
    def read(audit_id: str, position: int, stage: str) -> Any:
        return read_records(services, digests(stage).get((audit_id, position), []))

    return Pairing(read=read, is_same_dataset=_data(audit) == _data(baseline))


def _data(audit: AnyRow) -> tuple[Any, ...]:
    return (audit.dataset_digest, *read_as(audit.dataset_manifest))


def read_records(services: Services, digests: list[str]) -> Any:
    """Return records (a pyarrow Table) by their digests; None where there are none, or none any more."""
    if not digests:
        return None
    try:
        return records.read_records(services.store, digests)
    except (ArtifactMissingError, OSError, pa.ArrowException) as error:
        # The numbers are there all the same: they are compared without pairs.
        log.warning("records cannot be read: %s", error)
        return None
