"""SQL of leaderboards."""

from collections.abc import Collection, Sequence

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import RunState
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow, StageRow


def find_dataset(session: Session, project_id: str, dataset_id: str) -> DatasetRow | None:
    """Return a dataset of the project."""
    return session.scalar(select(DatasetRow).where(DatasetRow.id == dataset_id, DatasetRow.project_id == project_id))


def list_measured(session: Session, project_id: str, digest: str, kind: str, *, limit: int) -> Sequence[AnyRow]:
    """Return the checks of a family that succeeded on the same bytes, newest audit first, their results apart."""
    query = (
        select(
            AuditRow.id.label("audit"),
            AuditRow.samples,
            AuditRow.seed,
            AuditRow.verdict,
            AuditRow.finished_at,
            DatasetRow.manifest.label("dataset_manifest"),
            ModelRow.id.label("model"),
            ModelRow.name.label("model_name"),
            ModelRow.version.label("model_version"),
            CheckRow.id.label("check"),
            CheckRow.ordinal,
            CheckRow.params,
        )
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
        .where(
            AuditRow.project_id == project_id,
            DatasetRow.digest == digest,
            CheckRow.kind == kind,
            CheckRow.state == RunState.SUCCEEDED,
            CheckRow.result.is_not(None),
        )
        .order_by(AuditRow.id.desc(), CheckRow.ordinal)
        .limit(limit)
    )
    return session.execute(query).all()


def list_results(session: Session, checks: Collection[str]) -> dict[str, str]:
    """Return results as JSON text, by the id of their check."""
    query = select(CheckRow.id, cast(CheckRow.result, Text).label("result")).where(CheckRow.id.in_(checks))
    return {row.id: row.result for row in session.execute(query)}


def list_records(session: Session, check: str, stage: str) -> list[str]:
    """Return the digests of a stage's records in order; none where a shard has left none."""
    query = (
        select(ShardRow.records_digest, StageRow.shards)
        .join(StageRow, (StageRow.check_id == ShardRow.check_id) & (StageRow.name == ShardRow.stage))
        .where(
            ShardRow.check_id == check,
            ShardRow.stage == stage,
            ShardRow.state == RunState.SUCCEEDED,
            ShardRow.records_digest.is_not(None),
        )
        .order_by(ShardRow.ordinal)
    )
    rows = session.execute(query).all()
    return [row.records_digest for row in rows] if rows and len(rows) == rows[0].shards else []
