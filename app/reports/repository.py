"""SQL of reports: everything read within one project."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.deletions.service import missing
from app.gates import repository as gates
from app.policies import repository as policies
from app.web.problems import NotFoundError
from seatrial.contracts.policies import Judgement
from seatrial.reporting.outcomes import Judged
from seatrial.store.tables import AttestationRow, AuditRow, CheckRow, DatasetRow, JudgementRow, ModelRow, ShardRow


def get_audit(session: Session, project_id: str, audit_id: str) -> AuditRow:
    """Return an audit of the project.

    Raises:
        NotFoundError: There is none of that id in this project.
        DeletedError: There was one.
    """
    row = session.scalar(select(AuditRow).where(AuditRow.id == audit_id, AuditRow.project_id == project_id))
    if row is None:
        raise missing(session, project_id, audit_id, "audit")
    return row


def list_checks(session: Session, audit_id: str) -> list[CheckRow]:
    """Return the checks of an audit in the order asked."""
    return list(session.scalars(select(CheckRow).where(CheckRow.audit_id == audit_id).order_by(CheckRow.ordinal)))


def find_model(session: Session, project_id: str, model_id: str) -> ModelRow | None:
    """Return a model of the project."""
    return session.scalar(select(ModelRow).where(ModelRow.id == model_id, ModelRow.project_id == project_id))


def find_dataset(session: Session, project_id: str, dataset_id: str) -> DatasetRow | None:
    """Return a dataset of the project."""
    return session.scalar(select(DatasetRow).where(DatasetRow.id == dataset_id, DatasetRow.project_id == project_id))


def stage_progress(session: Session, check: CheckRow) -> tuple[int, int]:
    """Return the examples done and to do of a check's present stage."""
    done, total = session.execute(
        select(
            func.coalesce(func.sum(ShardRow.done), 0), func.coalesce(func.sum(ShardRow.stop - ShardRow.start), 0)
        ).where(ShardRow.check_id == check.id, ShardRow.stage == check.stage)
    ).one()
    return int(done), int(total)


def workers_of(session: Session, audit_id: str) -> list[str]:
    """Return the names of the workers that ran shards of an audit."""
    query = (
        select(ShardRow.worker)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .where(CheckRow.audit_id == audit_id, ShardRow.worker.is_not(None))
        .distinct()
        .order_by(ShardRow.worker)
    )
    return [name for name in session.scalars(query) if name is not None]


HARDWARE = "hardware that measured"
"""Its name among the versions of a report or a bundle."""


def measured_by(session: Session, audit_id: str) -> dict[str, str]:
    """Return the codes and the types of hardware that measured an audit, as far as its shards tell."""
    query = select(ShardRow.code, ShardRow.hardware).join(CheckRow, CheckRow.id == ShardRow.check_id)
    told = session.execute(query.where(CheckRow.audit_id == audit_id, ShardRow.records_digest.is_not(None)).distinct())
    rows = told.all()
    codes = sorted({row.code[:12] for row in rows if row.code})
    machines = sorted({row.hardware for row in rows if row.hardware})
    found = {"code that measured": ", ".join(codes), HARDWARE: "; ".join(machines)}
    return {name: value for name, value in found.items() if value}


def asked_of(session: Session, check_id: str) -> tuple[int, int] | None:
    """Return the queries and forward passes of a check's shards; None where none are counted."""
    queries, passes = session.execute(
        select(func.sum(ShardRow.queries), func.sum(ShardRow.forward_passes)).where(ShardRow.check_id == check_id)
    ).one()
    return None if queries is None else (int(queries), int(passes or 0))


def find_own_judgement(session: Session, audit_id: str) -> Judged | None:
    """Return what the policy an audit was submitted with makes of it; None before, and while it is retried."""
    row = policies.find_own_judgement(session, audit_id)
    return None if row is None else _judged(row)


def get_judgement(session: Session, audit_id: str, judgement_id: str) -> Judged:
    """Return a judgement of an audit by id.

    Raises:
        NotFoundError: The audit has none of that id.
    """
    row = gates.find_judgement(session, audit_id, judgement_id)
    if row is None:
        raise NotFoundError(f"Audit {audit_id} has no judgement {judgement_id}.")
    return _judged(row)


def find_attestation(session: Session, judgement_id: str) -> AttestationRow | None:
    """Return what was signed last of a verdict."""
    query = select(AttestationRow).where(AttestationRow.judgement_id == judgement_id)
    return session.scalar(query.order_by(AttestationRow.id.desc()).limit(1))


def _judged(row: JudgementRow) -> Judged:
    return Judged(Judgement.model_validate({**row.judgement, "id": row.id}), row.document)
