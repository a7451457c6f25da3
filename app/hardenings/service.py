"""Submitting, reading, cancelling and retrying hardenings."""

from typing import Any

from sqlalchemy.orm import Session

from app.audits.events import Look
from app.audits.lost import lost_records
from app.deletions.service import missing
from app.hardenings import repository
from app.hardenings.submitting import add_hardening, look_up
from app.web.idempotency import Answer, fingerprint, once
from app.web.problems import ConflictError
from app.web.services import Services
from seatrial.contracts.hardenings import HardeningCreate, HardeningRead, HardeningSummary
from seatrial.contracts.states import TERMINAL
from seatrial.store.database import Database
from seatrial.store.hardening import audits_of, cancel_hardening, retry_hardening
from seatrial.store.tables import HardeningRow

RETRY_AFTER_S = 1
BATCH = 500
MAX_SEQ = 2**31 - 1
RULES = {
    "best": "the first of the epochs with the best validation accuracy, under the method's attack where it has one",
    "last": "the last",
}


def submit(services: Services, project_id: str, request: HardeningCreate, key: str | None) -> tuple[Answer, bool]:
    """Queue a hardening; return the answer and whether it is the one given to an earlier request with this key.

    Raises:
        InvalidRequestError: Something named is not there or does not fit.
        IdempotencyMismatchError: The key was used for another request.
    """

    def work(session: Session) -> Answer:
        wanted = look_up(session, project_id, request, services.settings)
        hardening_id = add_hardening(session, project_id, wanted)
        headers = {"Location": f"/v1/hardenings/{hardening_id}", "Retry-After": str(RETRY_AFTER_S)}
        return Answer(202, headers, read_hardening(session, project_id, hardening_id))

    asked = fingerprint("POST", "/v1/hardenings", request)
    answer, is_replay = once(services.database, project_id, key, asked, work)
    if not is_replay:
        services.notifier.notify()
    return answer, is_replay


def read_hardening(session: Session, project_id: str, hardening_id: str) -> dict[str, Any]:
    """Return a hardening as JSON.

    Raises:
        NotFoundError: The project has none of that id.
    """
    row = repository.find(session, project_id, hardening_id)
    if row is None:
        raise missing(session, project_id, hardening_id, "hardening")
    outcome = row.outcome or {}
    more = {
        "params": {name: value for name, value in row.params.items() if name != "method"},
        "spec": row.spec,
        "progress": None if row.progress is None else {n: v for n, v in row.progress.items() if n != "point"},
        "curves": [{"epoch": number, **point} for number, point in enumerate(row.curves or [], start=1)],
        "kept_epoch": outcome.get("kept_epoch"),
        "kept_rule": RULES.get(str(row.params.get("keep"))) if outcome.get("kept_epoch") else None,
        "notes": outcome.get("notes", []),
        "audit_before": row.audit_before,
        "audit_after": row.audit_after,
        "result": row.result,
        "estimated_s": row.estimated_s,
        "seconds": row.seconds,
        "error": row.error,
    }
    return HardeningRead.model_validate({**_summary(row), **more}).model_dump(mode="json")


def render_summary(row: HardeningRow) -> dict[str, Any]:
    """Return a hardening as a list has it."""
    return HardeningSummary.model_validate(_summary(row)).model_dump(mode="json")


def _summary(row: HardeningRow) -> dict[str, Any]:
    names = ("id", "state", "stage", "method", "seed", "verdict", "created_at", "started_at", "finished_at")
    ids = {"model": row.model_id, "hardened": row.hardened_id, "dataset": row.dataset_id}
    return {name: getattr(row, name) for name in names} | ids


def read_events(database: Database, project_id: str, hardening_id: str, after: int) -> Look:
    """Return the events after the sequence number ``after``.

    Raises:
        NotFoundError: The project has no such hardening (any more).
    """
    with database.read() as session:
        read = repository.list_events(session, project_id, hardening_id, after=min(after, MAX_SEQ), limit=BATCH)
        if read is None:
            raise missing(session, project_id, hardening_id, "hardening")
    row, events = read
    position = events[-1].seq if events else min(after, row.event_seq)
    return Look(events, position, row.state in TERMINAL and position >= row.event_seq)


def cancel(services: Services, project_id: str, hardening_id: str) -> dict[str, Any]:
    """Ask a hardening to stop and return it.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: It has ended.
    """
    with services.database.write() as session:
        before = read_hardening(session, project_id, hardening_id)
        if not cancel_hardening(session, hardening_id):
            state = before["state"]
            raise ConflictError(f"Hardening {hardening_id} has ended ({state}): there is nothing to cancel.")
        session.expire_all()
        return read_hardening(session, project_id, hardening_id)


def retry(services: Services, project_id: str, hardening_id: str) -> dict[str, Any]:
    """Retry what failed, and return the hardening.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: It has not failed.
    """
    with services.database.read() as session:
        read_hardening(session, project_id, hardening_id)
        audits = audits_of(session, hardening_id)
    lost = lost_records(services, audits)
    with services.database.write() as session:
        before = read_hardening(session, project_id, hardening_id)
        if not retry_hardening(session, hardening_id, lost=lost):
            raise ConflictError(f"Hardening {hardening_id} is {before['state']}: only a failed one can be retried.")
        told = read_hardening(session, project_id, hardening_id)
    services.notifier.notify()
    return told
