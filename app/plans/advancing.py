"""Advancing plans, by every API process at once: a step is begun or ended by whoever claims it.

A claim is a lease, like a delivery's. What a step makes and the step's own row are written in one transaction that is
conditional on the claim, so a process that is killed anywhere leaves either nothing, or a step that is done: whoever
finds the lease run out does it again, and no audit, judgement or message is made twice. An attestation is stored on its
own, and the same verdict gives the same one.
"""

import json
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from app.attestations.service import attestation_of
from app.audits.preregistration import preregister
from app.audits.submitting import add_audit
from app.audits.submitting import plan as look_up
from app.gates.service import judge_audit, keep_judgement
from app.hardenings.submitting import add_hardening
from app.hardenings.submitting import look_up as look_up_hardening
from app.plans import repository
from app.web.bodies import parse_json
from app.web.origins import on_behalf_of
from app.web.problems import ProblemError
from app.web.quotas import AGAIN_S, passes_by_itself
from app.web.services import Services
from app.webhooks import repository as webhooks
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.hardenings import HardeningCreate
from seatrial.contracts.policies import JudgementRequest, Verdict
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState
from seatrial.judging.verdict import least_favourable
from seatrial.store.database import UNREACHABLE, epoch_now
from seatrial.store.outbox import enqueue
from seatrial.store.tables import AuditRow, DeliveryRow, HardeningRow, PlanRow, PlanStepRow
from seatrial.store.tables.base import utc_now
from seatrial.store.transitions import holds, lock, move

log = logging.getLogger(__name__)

LEASE_S = 120.0
"""Longer than signing the largest audit takes; whatever comes later finds the claim lost and writes nothing."""
MAX_ATTEMPTS = 3
_FREE: dict[str, Any] = {"token": None, "lease_until": None, "attempts": 0}
"""What is written of a claim that is let go of."""

_VERDICTS = ("verdict", "accuracy_holds")


@dataclass(frozen=True)
class Claimed:
    """A step in our hands, as it was when it was claimed.

    Attributes:
        id: Of the step.
        token: The claim.
        plan_id: Whose step it is.
        project_id: Whose plan.
        request_id: Of the request that submitted it.
        traceparent: Context of that request's trace.
        kind: What it does.
        params: What it was stored with.
        job: The job it waits for, which has ended; None where there is none yet.
        attempts: How often it was claimed since it was last let go of, this time too.
        before: Results of the steps before, by kind.
    """

    id: str
    token: str
    plan_id: str
    project_id: str
    request_id: str | None
    traceparent: str | None
    kind: str
    params: dict[str, Any]
    job: str | None
    attempts: int
    before: dict[str, dict[str, Any]]

    @property
    def audit_id(self) -> str:
        """The audit of the plan."""
        return str(self.before["audit"]["audit"])


def advance_plans(services: Services, *, lease_s: float = LEASE_S) -> int:
    """Begin and end the steps that are due, each once, and return how many that were.

    Raises:
        SQLAlchemyError: The database does not answer; what is left waits for the next call.
    """
    advanced = 0
    while (step := _claim(services, lease_s)) is not None:
        advanced += 1
        try:
            if step.attempts > MAX_ATTEMPTS:
                raise GaveUpError(f"Whoever did this step ended {MAX_ATTEMPTS} times before it was done.")
            with on_behalf_of(f"{step.kind} step of a plan", step.request_id, step.traceparent, plan_id=step.plan_id):
                _ACTIONS[step.kind](services, step)
        except UNREACHABLE:
            raise
        except ProblemError as error:
            _fail(services, step, error.stored())
        except Exception as error:
            log.exception("step %s of plan %s cannot be done", step.kind, step.plan_id)
            detail = f"{type(error).__name__}; see the log of the service."
            _fail(services, step, StoredProblem(code="internal-error", title="Internal error", detail=detail))
    return advanced


class GaveUpError(ProblemError):
    """A step killed whoever did it."""

    code = "step-gave-up"
    title = "The step could not be done"


class JobFailedError(ProblemError):
    """What a step waited for has failed."""

    code = "job-failed"
    title = "What the step waited for has failed"


def _claim(services: Services, lease_s: float) -> Claimed | None:
    # Mostly there is nothing, and a look does not keep others from writing.
    with services.database.read() as session:
        if not repository.is_any_due(session):
            return None
    with services.database.write() as session:
        worker = f"{socket.gethostname()}:{os.getpid()}"
        taken = repository.claim_due(session, lease_s=lease_s, worker=worker)
        if taken is None:
            return None
        row = session.get_one(PlanStepRow, taken[0], populate_existing=True)
        steps = repository.list_steps(session, row.plan_id)
        plan = session.get_one(PlanRow, row.plan_id)
        return Claimed(
            id=row.id,
            token=taken[1],
            plan_id=row.plan_id,
            project_id=plan.project_id,
            request_id=plan.request_id,
            traceparent=plan.traceparent,
            kind=row.kind,
            params=row.params,
            job=row.job,
            attempts=row.attempts,
            before={step.kind: step.result or {} for step in steps if step.ordinal < row.ordinal},
        )


def _harden(services: Services, step: Claimed) -> None:
    if step.job is not None:
        _end_hardening(services, step, step.job)
        return
    request = parse_json(json.dumps(step.params["hardening"]), HardeningCreate)
    with services.database.write() as session:
        if _begin(session, step):
            wanted = look_up_hardening(session, step.project_id, request, services.settings)
            hardening_id = _added(session, step, lambda: add_hardening(session, step.project_id, wanted))
            if hardening_id is None:
                return
            _wait_for(session, step, hardening_id)
    services.notifier.notify()


def _end_hardening(services: Services, step: Claimed, hardening_id: str) -> None:
    with services.database.write() as session:
        if not _begin(session, step):
            return
        row = session.get_one(HardeningRow, hardening_id)
        if row.state == RunState.SUCCEEDED and row.result is not None:
            told = {"hardening": hardening_id, "model": row.hardened_id, "verdict": row.verdict}
            _succeed(session, step, {**told, "accuracy_holds": row.result["accuracy_holds"]})
            return
        why = f" {row.error['title']}: {row.error['detail']}" if row.error else ""
        state = row.state
    raise JobFailedError(f"Hardening {hardening_id} is {state}.{why}")


def _audit(services: Services, step: Claimed) -> None:
    if step.job is not None:
        _end_audit(services, step, step.job)
        return
    asked = dict(step.params["audit"])
    if "harden" in step.before:
        # By its id, which nothing else ever has: a version of the same name that was uploaded since is another model.
        asked["model"] = step.before["harden"]["model"]
    request = parse_json(json.dumps(asked), AuditCreate)
    with services.database.write() as session:
        if _begin(session, step):
            planned = look_up(session, step.project_id, request, services.settings)
            audit_id = _added(session, step, lambda: add_audit(session, step.project_id, planned))
            if audit_id is None:
                return
            preregister(session, services.of(KeyFolder), audit_id)
            _wait_for(session, step, audit_id)
    services.notifier.notify()


def _end_audit(services: Services, step: Claimed, audit_id: str) -> None:
    with services.database.write() as session:
        if not _begin(session, step):
            return
        audit = session.get_one(AuditRow, audit_id)
        if audit.state == RunState.SUCCEEDED:
            _succeed(session, step, {"audit": audit_id, "verdict": audit.verdict})
            return
        why = f" {audit.error['title']}: {audit.error['detail']}" if audit.error else ""
        state = audit.state
    raise JobFailedError(f"Audit {audit_id} is {state}.{why}")


def _judge(services: Services, step: Claimed) -> None:
    asked = {name: step.params[name] for name in ("policy", "baseline")}
    request = parse_json(json.dumps(asked), JudgementRequest)
    judged = judge_audit(services, step.project_id, step.audit_id, request, dry_run=True)
    with services.database.write() as session:
        if _begin(session, step):
            kept = keep_judgement(session, step.audit_id, judged)
            _succeed(session, step, {"judgement": kept.id, "verdict": kept.verdict})


def _attest(services: Services, step: Claimed) -> None:
    judgement = step.before.get("judge", {}).get("judgement")
    signed = attestation_of(services, step.project_id, step.audit_id, judgement)
    with services.database.write() as session:
        if _begin(session, step):
            _succeed(session, step, {"attestation": signed.id, "digest": signed.digest})


def _notify(services: Services, step: Claimed) -> None:
    if step.job is not None:
        _end_delivery(services, step, step.job)
        return
    told: dict[str, Any] = dict.fromkeys(("judgement", "attestation", "digest"))
    for result in step.before.values():
        told |= result
    told["verdict"] = _verdict(step.before)
    with services.database.write() as session:
        if not _begin(session, step):
            return
        webhook = webhooks.find(session, step.project_id, step.params["webhook"], for_update=True)
        if webhook is None:
            raise JobFailedError(f"Webhook {step.params['webhook']} is gone.")
        _wait_for(session, step, enqueue(session, webhook.id, "plan.notified", {"plan": step.plan_id, **told}))


def _end_delivery(services: Services, step: Claimed, delivery_id: str) -> None:
    with services.database.write() as session:
        if not _begin(session, step):
            return
        delivery = session.get_one(DeliveryRow, delivery_id)
        if delivery.status == "delivered":
            _succeed(session, step, {"delivery": delivery_id})
            return
        last = delivery.log[-1].get("error") if delivery.log else None
    raise JobFailedError(f"Message {delivery_id} was not delivered. {last or ''}".strip())


_ACTIONS: dict[str, Callable[[Services, Claimed], None]] = {
    "harden": _harden,
    "audit": _audit,
    "judge": _judge,
    "attest": _attest,
    "notify": _notify,
}


def _begin(session: Session, step: Claimed) -> bool:
    """Hold the plan and return whether the step is still ours; it runs from here on."""
    plan = lock(session, PlanRow, step.plan_id)
    row = lock(session, PlanStepRow, step.id)
    if plan is None or row is None or plan.state not in repository.ACTIVE or row.token != step.token:
        return False
    now = utc_now()
    move(session, PlanRow, RunState.RUNNING, PlanRow.id == plan.id, sources={RunState.QUEUED}, started_at=now)
    move(session, PlanStepRow, RunState.RUNNING, *_ours(step), sources={RunState.QUEUED}, started_at=now)
    return True


def _added(session: Session, step: Claimed, add: Callable[[], str]) -> str | None:
    """Add the job of a step and return its id; None where a quota refuses it for now, and the step is put off.

    It is tried again a little later, which counts as no attempt, and says meanwhile what it waits for.
    """
    try:
        return add()
    except ProblemError as error:
        if not passes_by_itself(error):
            raise
        log.info("plan %s waits: %s", step.plan_id, error.detail)
        _let_go(session, step, lease_until=epoch_now() + AGAIN_S, error=error.stored().model_dump())
        return None


def _wait_for(session: Session, step: Claimed, job: str) -> None:
    """Let go of a step until its job has ended."""
    _let_go(session, step, job=job, error=None)


def _let_go(session: Session, step: Claimed, **values: Any) -> None:
    session.execute(update(PlanStepRow).where(*_ours(step)).values(**{**_FREE, **values}))


def _succeed(session: Session, step: Claimed, result: dict[str, Any]) -> None:
    """End a step, and with the last one its plan."""
    move(session, PlanStepRow, RunState.SUCCEEDED, *_ours(step), **_FREE, result=result)
    steps = repository.list_steps(session, step.plan_id)
    results = {one.kind: one.result or {} for one in steps}
    verdict = _verdict(results)
    session.execute(update(PlanRow).where(PlanRow.id == step.plan_id).values(verdict=verdict))
    if any(one.state != RunState.SUCCEEDED for one in steps):
        return
    if verdict in (None, "passed"):
        move(session, PlanRow, RunState.SUCCEEDED, PlanRow.id == step.plan_id)
        return
    # Everything was done, and nobody who looks at the state alone may take it for a pass.
    problem = StoredProblem(
        code="verdict-not-passed", title="The verdict is another than passed", detail=_why(verdict, results)
    )
    move(session, PlanRow, RunState.FAILED, PlanRow.id == step.plan_id, error=problem.model_dump())


def _verdict(results: dict[str, dict[str, Any]]) -> Verdict | None:
    """Return the least favourable of the steps' verdicts.

    Else an audit that fails by its own policy passes by a laxer one of the step after, and so does a version that was
    hardened at the cost of its clean accuracy.
    """
    return least_favourable(result.get(name) for result in results.values() for name in _VERDICTS)


def _why(verdict: Verdict | None, results: dict[str, dict[str, Any]]) -> str:
    found = [
        f"{name.replace('_', ' ')} of {kind}: {result[name]}"
        for kind, result in results.items()
        for name in _VERDICTS
        if result.get(name) is not None
    ]
    return f"The verdict is {verdict} ({', '.join(found)})."


def _fail(services: Services, step: Claimed, problem: StoredProblem) -> None:
    with services.database.write() as session:
        if not _begin(session, step):
            return
        error = problem.model_dump()
        move(session, PlanStepRow, RunState.FAILED, *_ours(step), **_FREE, error=error)
        move(session, PlanRow, RunState.FAILED, PlanRow.id == step.plan_id, error=error)


def _ours(step: Claimed) -> Any:
    return holds(PlanStepRow, step.id, step.token)
