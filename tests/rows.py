"""Rows as the API would have written them, for tests that need no API."""

from typing import Any

from seatrial.contracts.states import ModelState
from seatrial.store.database import Database
from seatrial.store.events import record_event
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ProjectRow

FACTS = {"format": "npz", "examples": 100, "classes": 2, "shape": [1, 8, 8], "label_counts": {"0": 50, "1": 50}}


def add_project(database: Database) -> str:
    """Insert a project and return its id."""
    row = ProjectRow(id=new_id("prj"), name=new_id("project"))
    with database.write() as session:
        session.add(row)
    return row.id


def add_audit(
    database: Database,
    *,
    checks: int = 1,
    model_state: str = ModelState.READY,
    project_id: str | None = None,
    **audit: Any,
) -> str:
    """Insert a model, a dataset and a queued audit on them, and return the audit's id."""
    project = project_id or add_project(database)
    digest = "sha256:" + "0" * 64
    model = ModelRow(
        id=new_id("mdl"),
        project_id=project,
        name=new_id("m"),
        version="1",
        task="image-classification",
        manifest={},
        digest=digest,
        size_bytes=1,
        format="safetensors",
        state=model_state,
    )
    dataset = DatasetRow(
        id=new_id("dat"),
        project_id=project,
        name=new_id("d"),
        version="1",
        task="image-classification",
        split="test",
        manifest={},
        digest=digest,
        size_bytes=1,
        format="npz",
        facts=FACTS,
    )
    row = AuditRow(
        **{
            "id": new_id("aud"),
            "project_id": project,
            "model_id": model.id,
            "dataset_id": dataset.id,
            "seed": 0,
            "samples": 100,
            "spec": {"batch_size": 10, "shards": None, "max_error_rate": 0.05},
            "spec_digest": digest,
            **audit,
        }
    )
    with database.write() as session:
        session.add_all([model, dataset])
        session.flush()
        session.add(row)
        session.flush()
        session.add_all(
            CheckRow(
                id=new_id("chk"),
                audit_id=row.id,
                ordinal=n,
                kind="uncertainty_span",
                params={"kind": "uncertainty_span"},
            )
            for n in range(checks)
        )
        record_event(session, row.id, "audit", {"state": "queued"})
    return row.id
