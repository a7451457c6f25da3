"""SQL of attestations."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.policies import repository as policies
from seatrial.store.database import AnyRow
from seatrial.store.tables import AttestationRow, AuditRow, DatasetRow, JudgementRow, ModelRow, TombstoneRow
from seatrial.store.tombstones import asks


def find_attestation(session: Session, judgement_id: str, key_id: str) -> AttestationRow | None:
    """Return what a key has signed of a verdict."""
    return session.scalar(
        select(AttestationRow).where(AttestationRow.judgement_id == judgement_id, AttestationRow.key_id == key_id)
    )


def find_own_judgement(session: Session, audit_id: str) -> JudgementRow | None:
    """Return the verdict of the policy an audit was submitted with."""
    return policies.find_own_judgement(session, audit_id)


def find_preregistration(session: Session, audit_id: str) -> AttestationRow | None:
    """Return what was signed of an audit when it was submitted."""
    query = select(AttestationRow).where(AttestationRow.audit_id == audit_id, AttestationRow.judgement_id.is_(None))
    return session.scalar(query.order_by(AttestationRow.id).limit(1))


def count_other_seeds(session: Session, audit: AuditRow, before: JudgementRow) -> int:
    """Return how many audits asked the same of the same model and data with another seed before a verdict was made.

    The same bytes count, whatever ids they had, and so do audits that were deleted since: whoever deletes those that
    failed, or the model with them, has tried no less often.
    """
    model = session.execute(select(ModelRow.digest).where(ModelRow.id == audit.model_id)).scalar_one()
    dataset = session.execute(select(DatasetRow.digest).where(DatasetRow.id == audit.dataset_id)).scalar_one()
    others = (
        select(AuditRow.spec, AuditRow.seed)
        .join(ModelRow, ModelRow.id == AuditRow.model_id)
        .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
        .where(
            AuditRow.project_id == audit.project_id,
            ModelRow.digest == model,
            DatasetRow.digest == dataset,
            AuditRow.id != audit.id,
            AuditRow.seed != audit.seed,
            AuditRow.created_at < before.created_at,
        )
    )
    asked = asks(session, audit.project_id, audit.spec)
    count = sum(asks(session, audit.project_id, row.spec) == asked for row in session.execute(others).all())
    deleted = select(TombstoneRow.details).where(
        TombstoneRow.project_id == audit.project_id,
        TombstoneRow.kind == "audit",
        TombstoneRow.created_at < before.created_at,
    )
    for details in session.scalars(deleted.execution_options(yield_per=100)):
        is_same = (details["model"]["digest"], details["dataset"]["digest"], details["asks"]) == (model, dataset, asked)
        count += is_same and details["seed"] != audit.seed
    return count


def list_unattested(session: Session, key_id: str, *, since: datetime, limit: int) -> list[AnyRow]:
    """Return verdicts of audits' own policies that a key has not signed: (audit, project, judgement), oldest first.

    Args:
        session: A transaction.
        key_id: The key.
        since: Only those made since then.
        limit: At most so many.
    """
    signed = select(AttestationRow.id).where(
        AttestationRow.judgement_id == JudgementRow.id, AttestationRow.key_id == key_id
    )
    query = (
        select(AuditRow.id.label("audit"), AuditRow.project_id.label("project"), JudgementRow.id.label("judgement"))
        .join(JudgementRow, JudgementRow.audit_id == AuditRow.id)
        .where(
            # Ids begin with the time (UUIDv7), and are the only index there is on it.
            JudgementRow.id >= f"jdg_{int(since.timestamp() * 1000):012x}",
            JudgementRow.is_own.is_(True),
            JudgementRow.verdict == AuditRow.verdict,
            ~signed.exists(),
        )
        .order_by(JudgementRow.id)
        .limit(limit)
    )
    return list(session.execute(query).all())
