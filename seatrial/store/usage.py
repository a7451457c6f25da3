"""What a project's models, datasets and records take of the disk: a file counts once, however many rows name it."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow


@dataclass(frozen=True)
class DiskUse:
    """Bytes of a project's models, datasets and records.

    No row tells the sizes of the weights of hardened models (where they are no file that is counted as the model), of
    figures and of saved checkpoints: these are left out.

    Attributes:
        models: Of models.
        datasets: Of datasets.
        records: Of records of audits, as far as their workers told: those of versions before did not.
    """

    models: int
    datasets: int
    records: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.models + self.datasets + self.records


def disk_use(session: Session, project_id: str) -> DiskUse:
    """Return what a project's models, datasets and records take of the disk."""
    own = select(ShardRow.records_digest, ShardRow.records_bytes).distinct()
    own = own.join(CheckRow, CheckRow.id == ShardRow.check_id).join(AuditRow, AuditRow.id == CheckRow.audit_id)
    records = own.where(AuditRow.project_id == project_id, ShardRow.records_bytes.is_not(None)).subquery()
    return DiskUse(
        models=_uploads(session, ModelRow.digest, ModelRow.size_bytes, ModelRow.project_id == project_id),
        datasets=_uploads(session, DatasetRow.digest, DatasetRow.size_bytes, DatasetRow.project_id == project_id),
        records=int(session.scalar(select(func.coalesce(func.sum(records.c.records_bytes), 0))) or 0),
    )


def _uploads(
    session: Session, digest: InstrumentedAttribute[str], size: InstrumentedAttribute[int], own: object
) -> int:
    files = select(digest, size.label("bytes")).where(own).distinct().subquery()  # type: ignore[arg-type]
    return int(session.scalar(select(func.coalesce(func.sum(files.c.bytes), 0))) or 0)
