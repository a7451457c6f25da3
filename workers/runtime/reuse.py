"""Taking over what an identical check has measured, where an audit asks for it (``reuse``)."""

import logging

from sqlalchemy import select

from seatrial.contracts.audits import Reused
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError, ArtifactStore
from seatrial.store.database import Database
from seatrial.store.reuse import offered, records_of, take_over
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow
from workers.runtime.advancing import read_check
from workers.runtime.claims import Claim
from workers.runtime.code import code_of_audits, code_version, hardware
from workers.runtime.measuring import measured_with
from workers.runtime.running import store_patiently

log = logging.getLogger(__name__)


def reuse(database: Database, store: ArtifactStore, settings: Settings, device: str, claim: Claim) -> bool:
    """Give a claimed check the records of an identical one, where its audit asks for that and there are any.

    A check whose records cannot be read, or are not what they were, is passed over; where none is left, False comes,
    and the check is measured.
    """
    asks = select(AuditRow.spec).join(CheckRow, CheckRow.audit_id == AuditRow.id)
    with database.read() as session:
        spec = session.scalar(asks.where(CheckRow.id == claim.row_id, CheckRow.stage.is_(None)))
    if spec is None or not spec.get("reuse"):
        return False
    job = read_check(database, claim.row_id)
    code = code_version()
    with database.read() as session:
        earlier = offered(
            session, job.audit.project_id, job.check.asked, measured_with=measured_with(job, device, settings)
        )
        by = {"code": code, "hardware": hardware(device, settings)}
        found = [(one, digests) for one in earlier if (digests := records_of(session, one.check, **by)) is not None]
    for one, digests in found:
        claim.check_cancelled()
        if not _are_whole(store, one, digests):
            continue
        verified = set(digests)
        taken = store_patiently(
            database,
            lambda session, one=one, verified=verified: take_over(  # type: ignore[misc]
                session, claim.row_id, claim.token, one, verified=verified, code=code_of_audits(settings)
            ),
            patience_s=settings.lease_s,
        )
        if taken:
            return True
    return False


def _are_whole(store: ArtifactStore, earlier: Reused, digests: list[str]) -> bool:
    try:
        for digest in digests:
            store.verify(digest)
    except (ArtifactMissingError, ArtifactDamagedError, OSError) as error:
        log.warning("the records of %s are not taken over: %s", earlier.audit, error)
        return False
    return True
