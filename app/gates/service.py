"""Judging: an audit under any policy when somebody asks, and under its own when it has ended.

A verdict is made from stored numbers, so it is made outside of any transaction. Only what came of it is written, and an
audit's own verdict only if nothing has happened to the audit meanwhile.
"""

import json
import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.deletions.service import missing
from app.gates import repository
from app.gates.stored import pair, read_measured
from app.policies import repository as policies
from app.policies.baselines import UnfitBaselineError, find_baseline, no_baseline
from app.policies.service import Chosen, choose_policy, kept, parsed
from app.web.problems import ConflictError, InvalidRequestError, ProblemError
from app.web.services import Services
from seatrial.contracts.policies import Judgement, JudgementRequest, Policy, PolicySource
from seatrial.contracts.states import TERMINAL
from seatrial.judging.verdict import Measured, TooManyNumbersError, judge
from seatrial.reporting.outcomes import Judged
from seatrial.store.database import UNREACHABLE, AnyRow
from seatrial.store.events import record_event
from seatrial.store.ids import new_id
from seatrial.store.outbox import announce
from seatrial.store.tables.base import utc_now

__all__ = ["judge_audit", "judge_ended", "judgement_of", "keep_judgement"]

log = logging.getLogger(__name__)

_BATCH = 100


@dataclass(frozen=True)
class Case:
    """An audit before its judge.

    Attributes:
        audit: The audit.
        chosen: The policy, and where it is from.
        policy: The same, to judge by.
        baseline: The audit it is compared with, where a rule asks for that.
        measured: Numbers of the audit.
        before: Numbers of the baseline.
    """

    audit: AnyRow
    chosen: Chosen
    policy: Policy
    baseline: AnyRow | None
    measured: Measured
    before: Measured | None


def judge_audit(
    services: Services, project_id: str, audit_id: str, request: JudgementRequest, *, dry_run: bool = False
) -> Judged:
    """Judge a finished audit by any policy, against any baseline, and return the judgement with the policy's document.

    It is stored beside earlier ones.

    Args:
        services: Where audits and policies are.
        project_id: Project of the audit.
        audit_id: Audit to judge.
        request: Policy and baseline to judge by.
        dry_run: Whether nothing is stored.

    Raises:
        NotFoundError: The project has no such audit.
        ConflictError: It has not ended.
        InvalidRequestError: There is no such policy or baseline, or the policy names too many numbers; ``errors``
            points at ``/policy`` or ``/baseline``.
    """
    with services.database.read() as session:
        audit = policies.find_audit(session, project_id, audit_id)
        if audit is None:
            raise missing(session, project_id, audit_id, "audit")
        if audit.state not in TERMINAL:
            raise ConflictError(f"Audit {audit_id} is {audit.state}: it can be judged when it has ended.")
        chosen = choose_policy(session, project_id, request.policy)
        policy = parsed(chosen)
        baseline = find_baseline(session, audit, request.baseline, policy.baseline)
        if baseline is None and request.baseline is not None:
            there = policies.baseline_names(session, project_id, audit.model_name)
            told = no_baseline(audit.model_name, request.baseline, there)
            if request.baseline in there:
                told = f"Model {audit.model_name} has no baseline {request.baseline!r} other than this"
            raise UnfitBaselineError(
                f"{told}. Promote one with POST /v1/baselines, or give the id of an audit.", pointer="/baseline"
            )
        case = _case(session, audit, chosen, policy, baseline)
    judgement = _judge(services, case)
    if not dry_run:
        with services.database.write() as session:
            judgement = _store(session, audit_id, judgement, chosen.document, is_own=False)
    return Judged(judgement, chosen.document)


def keep_judgement(session: Session, audit_id: str, judged: Judged) -> Judgement:
    """Store what :func:`judge_audit` made of an audit in a dry run, in a transaction of the caller's."""
    return _store(session, audit_id, judged.judgement, dict(judged.document), is_own=False)


def judgement_of(session: Session, audit_id: str) -> Judgement | None:
    """Return what the policy an audit was submitted with makes of it; None without one, and until it is judged."""
    found = policies.find_own_judgement(session, audit_id)
    return None if found is None else Judgement.model_validate(found.judgement)


def judge_ended(services: Services) -> int:
    """Judge the audits that have ended and wait for their verdict, each once, and return how many that were.

    Safe in any number of processes at once: a verdict is written by compare-and-set, with its event and its messages in
    one transaction. What cannot be judged gets the verdict ``errored`` with the reason, so nothing is tried for ever.

    Raises:
        SQLAlchemyError: The database does not answer; what is left waits for the next call.
    """
    judged, after, failure = 0, "", None
    while True:
        with services.database.read() as session:
            waiting = repository.list_unjudged(session, after=after, limit=_BATCH)
        for audit in waiting:
            try:
                judged += _judge_own(services, audit)
            except UNREACHABLE:
                raise
            except Exception as error:
                log.exception("the verdict of audit %s cannot be stored", audit.id)
                failure = error
        if len(waiting) < _BATCH:
            break
        after = waiting[-1].id
    if failure is not None:
        raise failure
    return judged


def _judge_own(services: Services, audit: AnyRow) -> bool:
    try:
        judgement = _judge(services, _own_case(services, audit))
    except UNREACHABLE:
        raise
    except ProblemError as error:
        judgement = _not_judged(audit, error.detail)
    except Exception as error:
        log.exception("audit %s cannot be judged", audit.id)
        judgement = _not_judged(audit, f"Internal error ({type(error).__name__}); see the log of the service.")
    with services.database.write() as session:
        if not repository.set_verdict(session, audit.id, judgement.verdict, event_seq=audit.event_seq):
            return False
        stored = _store(session, audit.id, judgement, audit.policy.get("document") or {}, is_own=True)
        told = {"verdict": stored.verdict, "judgement": stored.id}
        record_event(session, audit.id, "verdict", told)
        announce(session, audit.id, "audit.judged", {**told, "headline": stored.headline})
    return True


def _own_case(services: Services, audit: AnyRow) -> Case:
    chosen = kept(audit.policy)
    policy = parsed(chosen)
    with services.database.read() as session:
        baseline = find_baseline(session, audit, audit.baseline, policy.baseline)
        return _case(session, audit, chosen, policy, baseline)


def _case(session: Session, audit: AnyRow, chosen: Chosen, policy: Policy, baseline: AnyRow | None) -> Case:
    if all(rule.max_regression is None for rule in policy.rules):
        baseline = None
    before = None if baseline is None else read_measured(session, baseline.id)
    return Case(audit, chosen, policy, baseline, read_measured(session, audit.id), before)


def _judge(services: Services, case: Case) -> Judgement:
    paired = None if case.baseline is None else pair(services, case.audit, case.baseline)
    held = int(case.audit.dataset_facts["examples"])
    try:
        return judge(
            case.policy,
            case.chosen.source,
            case.measured,
            baseline=case.before,
            paired=paired,
            left=max(0, held - case.audit.samples),
            drawn=min(held, case.audit.samples),
        )
    except TooManyNumbersError as error:
        raise InvalidRequestError(str(error), pointer="/policy") from error


def _not_judged(audit: AnyRow, reason: str) -> Judgement:
    try:
        source = kept(audit.policy).source
    except (KeyError, TypeError, ValueError):
        source = PolicySource(id=None, name="unknown", version=None, digest="")
    return Judgement(
        audit=audit.id, verdict="errored", headline=f"It could not be judged. {reason}", rules=[], policy=source
    )


def _store(
    session: Session, audit_id: str, judgement: Judgement, document: dict[str, Any], *, is_own: bool
) -> Judgement:
    judged_at = utc_now()
    # By way of text: JSON has no infinity, and what is told now is what is read back later.
    told = judgement.model_copy(update={"id": new_id("jdg"), "judged_at": judged_at}).model_dump_json()
    stored = Judgement.model_validate_json(told)
    repository.add_judgement(
        session,
        id=stored.id,
        audit_id=audit_id,
        is_own=is_own,
        verdict=stored.verdict,
        judgement=json.loads(told),
        document=document,
        created_at=judged_at,
    )
    return stored
