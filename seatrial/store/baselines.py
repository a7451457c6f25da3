"""Whether an audit has a baseline: what a worker has to know of one that stops when it is decided."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.store.tables import AuditRow, BaselineRow, ModelRow


def has_baseline(session: Session, audit: AuditRow) -> bool:
    """Tell whether there may be an audit that regressions are measured from, under any name."""
    if audit.baseline is not None:
        return True
    promoted = (
        select(BaselineRow.id)
        .join(ModelRow, ModelRow.name == BaselineRow.model_name)
        .where(BaselineRow.project_id == audit.project_id, ModelRow.id == audit.model_id)
    )
    return session.scalar(promoted.limit(1)) is not None
