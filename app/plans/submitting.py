"""From a request to steps: a step that could never run is not found out about hours later."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from app.attestations.service import check_signs
from app.audits.submitting import Plan as Audit
from app.audits.submitting import estimate as estimate_audit
from app.audits.submitting import plan as plan_audit
from app.audits.submitting import why_not as why_not_audit
from app.hardenings.submitting import Wanted as Hardening
from app.hardenings.submitting import estimate as estimate_hardening
from app.hardenings.submitting import look_up as look_up_hardening
from app.hardenings.submitting import why_not as why_not_hardening
from app.policies.service import choose_policy
from app.web.problems import InvalidRequestError, ProblemError
from app.web.services import Services
from app.webhooks import repository as webhooks
from seatrial.contracts.plans import (
    HARDENED,
    AttestStep,
    AuditStep,
    HardenStep,
    JudgeStep,
    NotifyStep,
    PlanCreate,
    PlanEstimate,
    PlanStep,
    StepEstimate,
)
from seatrial.contracts.policies import Policy
from seatrial.families.cost import total_seconds


class OutsideTheHardeningError(InvalidRequestError):
    """The audit after a hardening is of another model, or on data that may have been trained on."""

    code = "outside-the-hardening"
    title = "The audit does not follow from the hardening"


@dataclass(frozen=True)
class Wanted:
    """A step whose names have been looked up.

    Attributes:
        step: What was asked.
        params: What it is stored with: policies by the version they have now.
        hardening: Of ``harden``.
        audit: Of ``audit``; after ``harden`` that of the model as it is, which the version to come is like.
    """

    step: PlanStep
    params: dict[str, Any] = field(default_factory=dict)
    hardening: Hardening | None = None
    audit: Audit | None = None


def look_up(session: Session, services: Services, project_id: str, request: PlanCreate) -> list[Wanted]:
    """Look up what the steps name, and whether they can be done one after the other.

    Raises:
        InvalidRequestError: Something named is not there or does not fit; ``errors`` points into the step.
        ConflictError: The version to be made is another model's already.
        StoredProblemError: A model was rejected.
        NoSigningKeyError: It is to be attested and no key signs here.
    """
    found: list[Wanted] = []
    for ordinal, step in enumerate(request.steps):
        with _at(f"/steps/{ordinal}"):
            found.append(_looked_up(session, services, project_id, step, found))
    return found


def estimate(session: Session, project_id: str, found: Sequence[Wanted]) -> PlanEstimate:
    """Return what a plan would cost, and which of its jobs would be refused if they were submitted now."""
    steps, seconds = [], []
    for one in found:
        hardening, audit = None, None
        if one.hardening is not None:
            refused = why_not_hardening(session, project_id, one.hardening)
            hardening = estimate_hardening(one.hardening, refused=refused)
        if one.audit is not None:
            audit = estimate_audit(one.audit, refused=why_not_audit(session, project_id, one.audit))
        steps.append(StepEstimate(kind=one.step.kind, hardening=hardening, audit=audit))
        seconds += [] if hardening is None else [hardening.seconds, hardening.audit_seconds]
        seconds += [] if one.audit is None else [total_seconds(one.audit.costs)]
    known = [each for each in seconds if each is not None]
    return PlanEstimate(seconds=sum(known) if len(known) == len(seconds) else None, steps=steps)


def _looked_up(
    session: Session, services: Services, project_id: str, step: PlanStep, before: Sequence[Wanted]
) -> Wanted:
    params = step.model_dump(mode="json")
    match step:
        case HardenStep():
            with _at("/hardening"):
                wanted = look_up_hardening(session, project_id, step.hardening, services.settings)
            _pin(params["hardening"]["audit"], wanted.audit)
            return Wanted(step, params, hardening=wanted)
        case AuditStep():
            with _at("/audit"):
                audit = _audit(session, services, project_id, step, before)
            _pin(params["audit"], audit)
            return Wanted(step, params, audit=audit)
        case JudgeStep():
            params["policy"] = _pinned(session, project_id, step.policy)
        case NotifyStep():
            webhook = webhooks.find(session, project_id, step.webhook)
            if webhook is None or not webhook.is_enabled:
                why = "is disabled" if webhook is not None else "is not in this project"
                raise InvalidRequestError(f"Webhook {step.webhook} {why}.", pointer="/webhook")
        case AttestStep():
            if not any(_has_verdict(one) for one in before):
                why = "There is no verdict to sign: judge before, or submit the audit with a policy."
                raise InvalidRequestError(why, pointer="")
            check_signs(services)
    return Wanted(step, params)


def _audit(session: Session, services: Services, project_id: str, step: AuditStep, before: Sequence[Wanted]) -> Audit:
    hardening = next((one.hardening for one in before if one.hardening is not None), None)
    if hardening is None:
        return plan_audit(session, project_id, step.audit, services.settings)
    if step.audit.model != HARDENED:
        # Else whoever wants a verdict on the model as it was gets it beside the word "hardened".
        raise OutsideTheHardeningError(
            f"After a harden step the audit is of the version it makes: write {HARDENED!r}, not {step.audit.model!r}.",
            pointer="/model",
        )
    # The version to come has the task, the inputs and the layers of the model it is made of.
    as_it_is = step.audit.model_copy(update={"model": hardening.model.id})
    audit = plan_audit(session, project_id, as_it_is, services.settings)
    # The hardening keeps out of the training, by content, what it audits itself, and nothing else.
    if audit.dataset.digest != hardening.audit.dataset.digest:
        raise OutsideTheHardeningError(
            f"Only {hardening.audit.dataset.id}, which the hardening audits, is kept out of the training: audit on it "
            f"here too, not on {audit.dataset.id}.",
            pointer="/dataset",
        )
    return audit


def _pin(params: dict[str, Any], audit: Audit) -> None:
    """Name the version a policy has now: whoever adds another before the audit begins changes nothing about it."""
    if audit.policy is not None and audit.policy.source.id is not None:
        params["policy"] = audit.policy.source.id


def _pinned(session: Session, project_id: str, asked: str | Policy) -> Any:
    chosen = choose_policy(session, project_id, asked)
    # A shipped policy is a part of this version of the service, and one that came along is all there is of it.
    return chosen.source.id or (asked if isinstance(asked, str) else asked.model_dump(mode="json"))


def _has_verdict(one: Wanted) -> bool:
    return isinstance(one.step, JudgeStep) or (one.audit is not None and one.audit.policy is not None)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Let what is wrong with a part of the request point into the whole of it."""
    try:
        yield
    except ProblemError as error:
        error.errors = [
            one.model_copy(update={"pointer": f"{place}{one.pointer}"}) for one in error.errors or ()
        ] or None
        raise
