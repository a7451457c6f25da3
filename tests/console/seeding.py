"""Audits with numbers in the operator's project, over versions of one model, as workers would have left them."""

from typing import Any

from app.access.schemas import DEFAULT_PROJECT
from app.access.service import ensure_project
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow
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
