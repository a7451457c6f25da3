"""What follows a training: the new version, the pair of audits, their comparison and the verdict.

Done by every API process at once. Each part is one transaction that holds the hardening's row and asks what is still
to be done, so a process killed anywhere leaves either nothing or all of a part, and none is done twice.
"""

import json
import logging

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.audits.preregistration import preregister
from app.audits.submitting import add_audit
from app.audits.submitting import plan as plan_audit
from app.gates.service import judge_audit, keep_judgement
from app.hardenings import repository
from app.hardenings.comparing import compare_versions
from app.policies.baselines import add_baseline
from app.web.bodies import parse_json
from app.web.origins import on_behalf_of
from app.web.problems import ConflictError, ProblemError
from app.web.quotas import AGAIN_S, passes_by_itself
from app.web.services import Services
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.hardenings import HardeningAudit, HardeningResult
from seatrial.contracts.policies import BaselineCreate, JudgementRequest
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState
from seatrial.reporting.outcomes import Judged
from seatrial.store.activity import Author
from seatrial.store.database import UNREACHABLE, epoch_now
from seatrial.store.hardening import end_hardening, record_hardening
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ModelRow
from seatrial.store.tables.hardenings import AUDITING
from seatrial.store.transitions import lock

log = logging.getLogger(__name__)


class AuditFailedError(ProblemError):
    """One of the pair has no numbers."""

    code = "audit-failed"
    title = "An audit of the pair has not succeeded"


def advance_hardenings(services: Services) -> int:
    """Go on with the hardenings that are due, each once, and return how many that were.

    Raises:
        SQLAlchemyError: The database does not answer; what is left waits for the next call.
    """
    with services.database.read() as session:
        due = repository.due(session)
    for hardening_id in due:
        try:
            _advance(services, hardening_id)
        except UNREACHABLE:
            raise
        except ProblemError as error:
            _fail(services, hardening_id, error.stored())
        except Exception as error:
            log.exception("hardening %s cannot go on", hardening_id)
            detail = f"{type(error).__name__}; see the log of the service."
            _fail(services, hardening_id, StoredProblem(code="internal-error", title="Internal error", detail=detail))
    return len(due)


def _advance(services: Services, hardening_id: str) -> None:
    with services.database.read() as session:
        row = session.get_one(HardeningRow, hardening_id)
    if row.audit_before is None or row.audit_after is None:
        asked = on_behalf_of("audits of a hardening", row.request_id, row.traceparent, hardening_id=row.id)
        with asked, services.database.write() as session:
            held = _hold(session, hardening_id)
            if held is not None:
                _submit_pair(session, services, held)
        services.notifier.notify()
        return
    _end(services, row)


def _hold(session: Session, hardening_id: str) -> HardeningRow | None:
    """Hold a hardening that is in its audits; None where another process was first, or it was cancelled."""
    row = lock(session, HardeningRow, hardening_id)
    return row if row is not None and (row.state, row.stage) == (RunState.RUNNING, AUDITING) else None


def _submit_pair(session: Session, services: Services, row: HardeningRow) -> None:
    if row.hardened_id is None:
        row.hardened_id = _add_version(session, row)
        session.flush()
    asked = parse_json(json.dumps(row.spec["audit"]), HardeningAudit)
    for column, model in (("audit_before", row.model_id), ("audit_after", row.hardened_id)):
        if getattr(row, column) is not None:
            continue
        # Judged together when both have ended: against each other, which neither could be by itself.
        request = asked.of(model, row.seed).model_copy(update={"policy": None})
        planned = plan_audit(session, row.project_id, request, services.settings)
        try:
            audit_id = add_audit(session, row.project_id, planned)
        except ProblemError as error:
            if not passes_by_itself(error):
                raise
            # The training is done, and not lost for it.
            _put_off(session, row, error)
            break
        preregister(session, services.of(KeyFolder), audit_id)
        submitted = {column: audit_id, "error": None}
        session.execute(update(HardeningRow).where(HardeningRow.id == row.id).values(submitted))
    session.flush()


def _put_off(session: Session, row: HardeningRow, error: ProblemError) -> None:
    """Leave a hardening alone that is refused for now, and say why."""
    log.info("hardening %s waits: %s", row.id, error.detail)
    if row.error is None:
        # Told once, not every time it is tried again.
        told = {"state": row.state, "stage": row.stage, "waits": error.detail}
        record_hardening(session, row.id, "hardening", told)
    again = {"lease_until": epoch_now() + AGAIN_S, "error": error.stored().model_dump()}
    session.execute(update(HardeningRow).where(HardeningRow.id == row.id).values(again))


def _add_version(session: Session, row: HardeningRow) -> str:
    """Store the new version of the model; a worker checks it as it checks an upload."""
    base, outcome = session.get_one(ModelRow, row.model_id), row.outcome or {}
    version = str(row.spec["version"])
    if version in repository.taken_versions(session, row.project_id, base.name):
        raise ConflictError(f"{base.name} version {version} has become another model while this one was trained.")
    # What its owner measured was measured of other weights, and so was an earlier map.
    dropped = ("clean_accuracy", "recalibration") if outcome["recalibration"] is None else ("clean_accuracy",)
    manifest = {name: value for name, value in base.manifest.items() if name not in dropped}
    manifest |= {"version": version, "clean_accuracy": None}
    if outcome["recalibration"] is not None:
        manifest["recalibration"] = outcome["recalibration"]
    made = ModelRow(
        id=new_id("mdl"),
        project_id=row.project_id,
        name=base.name,
        version=version,
        task=base.task,
        manifest=manifest,
        digest=outcome["digest"],
        size_bytes=outcome["size_bytes"],
        format=base.format,
        derived_from=base.id,
        weights_digest=outcome["weights_digest"],
        # Workers of versions before did not tell.
        weights_bytes=outcome.get("weights_bytes"),
    )
    session.add(made)
    session.flush()
    return made.id


def _end(services: Services, row: HardeningRow) -> None:
    before, after = str(row.audit_before), str(row.audit_after)
    with services.database.read() as session:
        for audit_id, which in ((before, "the model as it was"), (after, "the new version")):
            audit = session.get_one(AuditRow, audit_id)
            if audit.state != RunState.SUCCEEDED:
                raise AuditFailedError(f"Audit {audit_id}, of {which}, is {audit.state}{_why(session, audit_id)}")
    limit = float(row.spec["max_accuracy_loss"])
    compared = compare_versions(services, row.project_id, before, after, max_accuracy_loss=limit)
    judged: Judged | None = None
    if row.spec["audit"]["policy"] is not None:
        asked = {"policy": row.spec["audit"]["policy"], "baseline": before}
        request = parse_json(json.dumps(asked), JudgementRequest)
        judged = judge_audit(services, row.project_id, after, request, dry_run=True)
    with services.database.write() as session:
        held = _hold(session, row.id)
        if held is None:
            return
        verdict, judgement, promoted = None, None, None
        if judged is not None:
            kept = keep_judgement(session, after, judged)
            verdict, judgement = kept.verdict, kept.id
            record_hardening(session, row.id, "verdict", {"verdict": verdict, "judgement": judgement})
        is_promotable = verdict == "passed" and compared.accuracy_holds == "passed"
        if is_promotable and row.spec["promote"] is not None:
            note = f"by hardening {row.id}"
            baseline = BaselineCreate(audit=after, name=row.spec["promote"], note=note)
            promoted = add_baseline(session, row.project_id, baseline, Author(row.id)).id
        result = HardeningResult(
            differences=compared.differences,
            not_compared=compared.not_compared,
            accuracy=compared.accuracy,
            accuracy_holds=compared.accuracy_holds,
            judgement=judgement,
            is_promotable=is_promotable,
            promoted=promoted,
            summary=_summary(
                None if judged is None else judged.judgement.headline, compared.accuracy_holds, limit, promoted
            ),
        )
        told = json.loads(result.model_dump_json())
        end_hardening(session, row.id, RunState.SUCCEEDED, result=told, verdict=verdict, error=None)


def _why(session: Session, audit_id: str) -> str:
    """Return what the first check of an audit that failed says."""
    query = select(CheckRow.error).where(CheckRow.audit_id == audit_id, CheckRow.error.is_not(None))
    error = session.scalar(query.order_by(CheckRow.ordinal).limit(1))
    return ": its checks say why." if not error else f": {error['title']}: {error['detail']}"


def _summary(headline: str | None, accuracy_holds: str, limit: float, promoted: str | None) -> str:
    """Return what a hardening was worth: may the new version ship, is it as accurate, what was promoted."""
    points = f"{100 * limit:g} {'point' if limit == 0.01 else 'points'}"
    judged = "It was not judged: no policy was given." if headline is None else headline
    loss = {
        "passed": f"Clean accuracy is not worse by more than {points}",
        "failed": f"Clean accuracy is worse by more than {points}",
    }.get(accuracy_holds, f"The examples do not tell whether clean accuracy is worse by more than {points}")
    end = f"its audit is now baseline {promoted}" if promoted is not None else "nothing was promoted"
    return f"{judged} {loss}; {end}."


def _fail(services: Services, hardening_id: str, problem: StoredProblem) -> None:
    with services.database.write() as session:
        if _hold(session, hardening_id) is not None:
            end_hardening(session, hardening_id, RunState.FAILED, error=problem.model_dump())
