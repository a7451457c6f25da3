"""Submitting, cancelling and retrying audits."""

import logging
from typing import Any

from sqlalchemy.orm import Session

from app.audits import repository
from app.audits.lost import lost_records
from app.audits.preregistration import preregister
from app.audits.reading import read_audit
from app.audits.submitting import add_audit, plan
from app.deletions.service import missing
from app.web.idempotency import Answer, fingerprint, once
from app.web.problems import ConflictError
from app.web.services import Services
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.audits import AuditCreate
from seatrial.store.lifecycle import cancel_audit, retry_audit

log = logging.getLogger(__name__)

# The first look is worth taking soon: small audits end within seconds.
RETRY_AFTER_S = 1


def submit(services: Services, project_id: str, request: AuditCreate, key: str | None) -> tuple[Answer, bool]:
    """Queue an audit; return the answer and whether it is the one given to an earlier request with this key.

    Raises:
        InvalidRequestError: Something named is not there or does not fit.
        IdempotencyMismatchError: The key was used for another request.
    """

    def work(session: Session) -> Answer:
        planned = plan(session, project_id, request, services.settings)
        audit_id = add_audit(session, project_id, planned)
        preregister(session, services.of(KeyFolder), audit_id)
        headers = {"Location": f"/v1/audits/{audit_id}", "Retry-After": str(RETRY_AFTER_S)}
        return Answer(202, headers, {**read_audit(session, project_id, audit_id), "notes": planned.notes})

    asked = fingerprint("POST", "/v1/audits", request)
    answer, is_replay = once(services.database, project_id, key, asked, work)
    if not is_replay:
        log.info("audit is queued", extra={"audit_id": answer.body["id"], "project_id": project_id})
        services.notifier.notify()
    return answer, is_replay


def cancel(services: Services, project_id: str, audit_id: str) -> dict[str, Any]:
    """Ask an audit to stop and return it.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: It has ended.
    """
    with services.database.write() as session:
        if not repository.exists(session, project_id, audit_id):
            raise missing(session, project_id, audit_id, "audit")
        if not cancel_audit(session, audit_id):
            state = read_audit(session, project_id, audit_id)["state"]
            raise ConflictError(f"Audit {audit_id} has ended ({state}): there is nothing to cancel.")
        return read_audit(session, project_id, audit_id)


def retry(services: Services, project_id: str, audit_id: str) -> dict[str, Any]:
    """Queue the failed shards of a failed audit again, and those whose records the store has lost; return it.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: It has not failed.
    """
    with services.database.read() as session:
        if not repository.exists(session, project_id, audit_id):
            raise missing(session, project_id, audit_id, "audit")
    lost = lost_records(services, [audit_id])
    with services.database.write() as session:
        if not repository.exists(session, project_id, audit_id):
            raise missing(session, project_id, audit_id, "audit")
        if not retry_audit(session, audit_id, lost=lost):
            state = read_audit(session, project_id, audit_id)["state"]
            raise ConflictError(f"Audit {audit_id} is {state}: only a failed audit can be retried.")
        told = read_audit(session, project_id, audit_id)
    services.notifier.notify()
    return told
