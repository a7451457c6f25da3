"""Audits with numbers in the operator's project, over versions of one model, as workers would have left them."""

from typing import Any

from app.access.schemas import DEFAULT_PROJECT
from app.access.service import ensure_project
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, PlanRow, PlanStepRow
from seatrial.store.tables.base import utc_now
from tests.reports import fabricated

HOSTILE = fabricated.HOSTILE + "<img src=x onerror=alert(2)>"


def finished(
    database: Database,
    store: ArtifactStore,
    *,
    model: dict[str, Any] | None = None,
    dataset_of: str | None = None,
    project: str = DEFAULT_PROJECT,
    audit: dict[str, Any] | None = None,
    **measured: Any,
) -> str:
    """Store a finished audit and return its id.

    Args:
        database: Where.
        store: Where its figures go.
        model: What differs in its model.
        dataset_of: Another audit whose dataset this one is of.
        project: Name of the project.
        audit: What differs in the audit.
        measured: Numbers, see :func:`fabricated.result`.
    """
    audit_id = fabricated.finished(database, store, **measured)
    project_id = ensure_project(database, project)
    with database.write() as session:
        row = session.get_one(AuditRow, audit_id)
        row.spec = {**row.spec, "checks": [{"kind": "uncertainty_span"}]}
        made_of = (row, session.get_one(ModelRow, row.model_id), session.get_one(DatasetRow, row.dataset_id))
        # A name and a version are one model's: the row gives way, in its turn.
        for n, one in enumerate(made_of):
            if n == 2 and dataset_of is not None:
                row.dataset_id = session.get_one(AuditRow, dataset_of).dataset_id
                session.flush()
                session.delete(one)
            else:
                if n == 1:
                    for name, value in (model or {}).items():
                        setattr(one, name, value)
                one.project_id = project_id
            session.flush()
        for name, value in (audit or {}).items():
            setattr(row, name, value)
    return audit_id


def running(database: Database, store: ArtifactStore, **more: Any) -> str:
    """Store an audit whose check runs and has no numbers yet, and return its id."""
    audit_id = finished(database, store, **more)
    with database.write() as session:
        row = session.get_one(AuditRow, audit_id)
        row.finished_at = None
        check = session.query(CheckRow).filter_by(audit_id=audit_id).one()
        check.result, check.figures, check.finished_at = None, None, None
    fabricated.change(database, audit_id, state="running")
    return audit_id


def planned(database: Database, audit_id: str, *, fails: str | None = None) -> str:
    """Store a plan around an audit with everything a step can tell, hostile where a stranger says it; return its id.

    Args:
        database: Where.
        audit_id: The audit of its second step.
        fails: Kind of the step that failed, where one did: the steps after it wait.
    """
    error = {"code": "job-failed", "title": HOSTILE, "detail": HOSTILE}
    with database.write() as session:
        audit = session.get_one(AuditRow, audit_id)
        results: dict[str, dict[str, Any]] = {
            "harden": {
                "hardening": new_id("hrd"),
                "model": audit.model_id,
                "verdict": None,
                "accuracy_holds": "passed",
            },
            "audit": {"audit": audit_id, "verdict": None},
            "judge": {"judgement": new_id("jdg"), "verdict": "inconclusive"},
            "attest": {"attestation": new_id("att"), "digest": "sha256:" + "5" * 64},
            "notify": {"delivery": new_id("dlv")},
        }
        jobs = {"harden": results["harden"]["hardening"], "audit": audit_id, "notify": results["notify"]["delivery"]}
        ended = {"state": "failed", "verdict": "inconclusive", "error": error, "finished_at": utc_now()}
        plan = PlanRow(id=new_id("pln"), project_id=audit.project_id, name=HOSTILE, started_at=utc_now(), **ended)
        session.add(plan)
        session.flush()
        is_reached = True
        for ordinal, (kind, result) in enumerate(results.items()):
            told: dict[str, Any] = {"state": "queued"}
            if is_reached:
                told = {"job": jobs.get(kind), "started_at": utc_now(), "finished_at": utc_now()}
                told |= (
                    {"state": "failed", "error": error} if kind == fails else {"state": "succeeded", "result": result}
                )
            is_reached = is_reached and kind != fails
            session.add(PlanStepRow(id=new_id("stp"), plan_id=plan.id, ordinal=ordinal, kind=kind, params={}, **told))
        return plan.id
