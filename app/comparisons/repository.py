"""SQL of comparisons."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, DatasetRow, ModelRow


def list_audits(session: Session, project_id: str, audits: Collection[str]) -> dict[str, AnyRow]:
    """Return audits of the project with their model and data, by id."""
    query = (
        select(
            AuditRow.id.label("audit"),
            AuditRow.state,
            AuditRow.samples,
            AuditRow.seed,
            ModelRow.id.label("model"),
            ModelRow.name.label("model_name"),
            ModelRow.version.label("model_version"),
            ModelRow.digest.label("model_digest"),
            DatasetRow.digest.label("dataset_digest"),
            DatasetRow.manifest.label("dataset_manifest"),
        )
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
        .where(AuditRow.project_id == project_id, AuditRow.id.in_(audits))
    )
    return {row.audit: row for row in session.execute(query)}
