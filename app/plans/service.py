"""Submitting, reading, cancelling and retrying plans."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.audits.lost import lost_records
from app.plans import repository
from app.plans.submitting import look_up
from app.web.idempotency import Answer, fingerprint, once
from app.web.identifiers import no_such
from app.web.origins import origin
from app.web.problems import ConflictError, NotFoundError
from app.web.services import Services
from seatrial.contracts.plans import PlanCreate, PlanRead, PlanStepRead
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.hardening import audits_of, cancel_hardening, retry_hardening
from seatrial.store.ids import new_id
from seatrial.store.lifecycle import cancel_audit, retry_audit
from seatrial.store.tables import AuditRow, HardeningRow, PlanRow, PlanStepRow
from seatrial.store.transitions import lock, move

_CANCELS: dict[str, Callable[[Session, str], object]] = {"harden": cancel_hardening, "audit": cancel_audit}
_RETRIES: dict[str, tuple[type[Any], Callable[..., object]]] = {
    "harden": (HardeningRow, retry_hardening),
    "audit": (AuditRow, retry_audit),
}


def submit(services: Services, project_id: str, request: PlanCreate, key: str | None) -> tuple[Answer, bool]:
    """Store a plan; return the answer and whether it is the one given to an earlier request with this key.

    Raises:
        InvalidRequestError: Something named is not there or does not fit; ``errors`` points into the step.
        ConflictError: The version that is to be made is another model's already.
        NoSigningKeyError: It is to be attested and no key signs here.
        IdempotencyMismatchError: The key was used for another request.
    """

    def work(session: Session) -> Answer:
        found = look_up(session, services, project_id, request)
        row = PlanRow(id=new_id("pln"), project_id=project_id, name=request.name, **origin())
        session.add(row)
        session.flush()
        for ordinal, one in enumerate(found):
            named = {"kind": one.step.kind, "params": one.params}
            session.add(PlanStepRow(id=new_id("stp"), plan_id=row.id, ordinal=ordinal, **named))
        session.flush()
        return Answer(202, {"Location": f"/v1/plans/{row.id}"}, render_plan(session, row))

    asked = fingerprint("POST", "/v1/plans", request)
    return once(services.database, project_id, key, asked, work)


def read_plan(session: Session, project_id: str, plan_id: str) -> dict[str, Any]:
    """Return a plan as JSON.

    Raises:
        NotFoundError: The project has none of that id.
    """
    return render_plan(session, _get(session, project_id, plan_id))


def render_summary(row: PlanRow) -> dict[str, Any]:
    """Return a plan without its steps, in the shape of :class:`seatrial.contracts.plans.PlanSummary`."""
    told = PlanRead(**_columns(row), steps=[]).model_dump(mode="json")
    return {name: value for name, value in told.items() if name not in ("steps", "error")}


def render_plan(session: Session, row: PlanRow) -> dict[str, Any]:
    """Return a plan with its steps, in the shape of :class:`seatrial.contracts.plans.PlanRead`."""
    steps = [PlanStepRead.model_validate(step) for step in repository.list_steps(session, row.id)]
    return PlanRead(**_columns(row), steps=steps).model_dump(mode="json")


def cancel(services: Services, project_id: str, plan_id: str) -> dict[str, Any]:
    """End a plan, and the hardening or the audit it waits for; return it.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: It has ended.
    """
    with services.database.write() as session:
        row = _lock(session, project_id, plan_id)
        if row.state in TERMINAL:
            raise ConflictError(f"Plan {plan_id} has ended ({row.state}): there is nothing to cancel.")
        for step in repository.list_steps(session, plan_id):
            if step.state == RunState.RUNNING and step.job is not None and step.kind in _CANCELS:
                _CANCELS[step.kind](session, step.job)
        # Whoever holds a step loses the claim here and writes nothing.
        active = PlanStepRow.plan_id == plan_id, PlanStepRow.state.in_(repository.ACTIVE)
        move(session, PlanStepRow, RunState.CANCELLED, *active, token=None, lease_until=None, error=None)
        move(session, PlanRow, RunState.CANCELLED, PlanRow.id == plan_id)
        return _again(session, plan_id)


def retry(services: Services, project_id: str, plan_id: str) -> dict[str, Any]:
    """Go on from the step that failed; what succeeded is not done again. Return the plan.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: No step of it has failed.
    """
    with services.database.read() as session:
        _get(session, project_id, plan_id)
        failed = _failed(repository.list_steps(session, plan_id))
        audits = [] if failed is None else _audits(session, failed)
    lost = lost_records(services, audits)
    with services.database.write() as session:
        row = _lock(session, project_id, plan_id)
        failed = _failed(repository.list_steps(session, plan_id))
        if row.state != RunState.FAILED or failed is None:
            why = f" Its verdict is {row.verdict}, which no retry changes." if row.state == RunState.FAILED else ""
            raise ConflictError(f"Plan {plan_id} is {row.state}, and no step of it has failed.{why}")
        job = _retried_job(session, failed, lost)
        state = RunState.QUEUED if job is None else RunState.RUNNING
        anew = {"job": job, "error": None, "result": None, "token": None, "lease_until": None, "attempts": 0}
        move(session, PlanStepRow, state, PlanStepRow.id == failed.id, sources={RunState.FAILED}, **anew)
        move(session, PlanRow, RunState.RUNNING, PlanRow.id == plan_id, sources={RunState.FAILED}, error=None)
        told = _again(session, plan_id)
    services.notifier.notify()
    return told


def _failed(steps: Sequence[PlanStepRow]) -> PlanStepRow | None:
    return next((step for step in steps if step.state == RunState.FAILED), None)


def _audits(session: Session, step: PlanStepRow) -> list[str]:
    """Return the audits that a step waits for."""
    if step.job is None or step.kind not in _RETRIES:
        return []
    return [step.job] if step.kind == "audit" else audits_of(session, step.job)


def _retried_job(session: Session, step: PlanStepRow, lost: Collection[str]) -> str | None:
    """Return the job a failed step goes on with; None where it begins anew.

    A failed audit keeps the records of what succeeded, and a hardening the training; one that somebody retried already
    is waited for.
    """
    if step.job is None or step.kind not in _RETRIES:
        return None
    table, again = _RETRIES[step.kind]
    job: Any = lock(session, table, step.job)
    if job is None or job.state in (RunState.CANCELLED, RunState.CANCELLING):
        return None
    again(session, step.job, lost=lost)
    return step.job


def _get(session: Session, project_id: str, plan_id: str) -> PlanRow:
    row = repository.find(session, project_id, plan_id)
    if row is None:
        raise NotFoundError(no_such("plan", plan_id))
    return row


def _lock(session: Session, project_id: str, plan_id: str) -> PlanRow:
    row = _get(session, project_id, plan_id)
    return lock(session, PlanRow, plan_id) or row


def _again(session: Session, plan_id: str) -> dict[str, Any]:
    row = lock(session, PlanRow, plan_id)
    if row is None:
        raise AssertionError("unreachable: it is held")
    return render_plan(session, row)


def _columns(row: PlanRow) -> dict[str, Any]:
    names = ("id", "name", "state", "verdict", "error", "created_at", "started_at", "finished_at")
    return {name: getattr(row, name) for name in names}
