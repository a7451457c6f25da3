"""What a project's files take of the disk: a file counts once, however many rows name it."""

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import BigInteger, Select, TableValuedAlias, cast, func, select, true, union
from sqlalchemy.orm import InstrumentedAttribute, Session

from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, HardeningRow, ModelRow, ShardRow


@dataclass(frozen=True)
class DiskUse:
    """Bytes of a project's files, as far as those who stored them told: workers of versions before did not.

    Attributes:
        models: Of models, as they were uploaded or trained, and of the weights of those that were trained.
        datasets: Of datasets.
        records: Of records of audits.
        figures: Of figures of audits; of checks that workers of versions before ended, each counts for itself.
        checkpoints: Of what audits and trainings that go on have saved.
    """

    models: int
    datasets: int
    records: int
    figures: int
    checkpoints: int

    @property
    def by_kind(self) -> dict[str, int]:
        """Bytes by kind."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_kind.values())


def disk_use(session: Session, project_id: str) -> DiskUse:
    """Return what a project's files take of the disk."""
    audits = select(AuditRow.id).where(AuditRow.project_id == project_id)
    checks = select(CheckRow.id).where(CheckRow.audit_id.in_(audits))
    records = select(ShardRow.records_digest, ShardRow.records_bytes)
    records = records.where(ShardRow.check_id.in_(checks), ShardRow.records_bytes.is_not(None))
    drawn = CheckRow.audit_id.in_(audits)
    untold = select(func.sum(CheckRow.figures_bytes)).where(drawn, CheckRow.figure_sizes.is_(None))
    sizes = _entries(session, CheckRow.figure_sizes)
    figures = select(sizes.c.key, cast(sizes.c.value, BigInteger)).select_from(CheckRow).join(sizes, true())
    # Whoever has ended has saved nothing that is kept: by the index of those that have.
    saved = select(func.sum(ShardRow.saved_bytes))
    saved = saved.where(ShardRow.saved_digest.is_not(None), ShardRow.check_id.in_(checks))
    trained = select(func.sum(HardeningRow.saved_bytes)).where(HardeningRow.project_id == project_id)
    own = (ModelRow.project_id == project_id,)
    files = select(ModelRow.digest, ModelRow.size_bytes).where(*own)
    weights = select(ModelRow.weights_digest, ModelRow.weights_bytes).where(*own, ModelRow.weights_bytes.is_not(None))
    datasets = select(DatasetRow.digest, DatasetRow.size_bytes).where(DatasetRow.project_id == project_id)
    return DiskUse(
        models=_each_once(session, files, weights),
        datasets=_each_once(session, datasets),
        records=_each_once(session, records),
        figures=int(session.scalar(untold) or 0)
        + _each_once(session, figures.where(drawn, CheckRow.figure_sizes.is_not(None))),
        checkpoints=int(session.scalar(saved) or 0) + int(session.scalar(trained) or 0),
    )


def _entries(session: Session, column: InstrumentedAttribute[dict[str, int] | None]) -> TableValuedAlias:
    """Return the keys and values of a column of JSON objects, a row for each."""
    each = func.json_each_text if session.get_bind().dialect.name == "postgresql" else func.json_each
    return each(column).table_valued("key", "value")


def _each_once(session: Session, *files: Select[*tuple[Any, ...]]) -> int:
    """Return the bytes of files, given as digests and sizes, each counted once."""
    found = union(*files).subquery() if len(files) > 1 else files[0].distinct().subquery()
    return int(session.scalar(select(func.coalesce(func.sum(found.c[1]), 0))) or 0)
