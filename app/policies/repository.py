"""SQL of policies and baselines, and of the audits they are about."""

from collections.abc import Iterable, Sequence

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session, aliased

from app.web.pagination import BATCH
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, BaselineRow, DatasetRow, JudgementRow, ModelRow, PolicyRow, ProjectRow

_AUDIT = (
    AuditRow.id,
    AuditRow.project_id,
    AuditRow.state,
    AuditRow.verdict,
    AuditRow.policy,
    AuditRow.baseline,
    AuditRow.event_seq,
    ModelRow.name.label("model_name"),
    ModelRow.task,
    DatasetRow.digest.label("dataset_digest"),
    DatasetRow.manifest.label("dataset_manifest"),
    DatasetRow.facts.label("dataset_facts"),
    AuditRow.samples,
)
AUDITS = (
    select(*_AUDIT)
    .join(ModelRow, ModelRow.id == AuditRow.model_id)
    .join(DatasetRow, DatasetRow.id == AuditRow.dataset_id)
)
_FIND_AUDIT = AUDITS.where(AuditRow.id == bindparam("audit_id"), AuditRow.project_id == bindparam("project_id"))
_FIND_POLICY_BY_NAME = (
    select(PolicyRow)
    .where(PolicyRow.project_id == bindparam("project_id"), PolicyRow.name == bindparam("name"))
    .order_by(PolicyRow.version.desc())
    .limit(1)
)
_FIND_BASELINE = (
    AUDITS.join(BaselineRow, BaselineRow.audit_id == AuditRow.id)
    .where(
        BaselineRow.project_id == bindparam("project_id"),
        BaselineRow.model_name == bindparam("model_name"),
        BaselineRow.name == bindparam("name"),
        BaselineRow.audit_id != bindparam("other_than"),
    )
    .order_by(BaselineRow.id.desc())
    .limit(1)
)
# Of a retried audit there are several. Ids are ordered by the clocks of the processes that made them, which may differ:
# only one that says the audit's verdict can be the one in force.
_FIND_OWN_JUDGEMENT = (
    select(JudgementRow)
    .join(AuditRow, AuditRow.id == JudgementRow.audit_id)
    .where(
        AuditRow.id == bindparam("audit_id"), JudgementRow.verdict == AuditRow.verdict, JudgementRow.is_own.is_(True)
    )
    .order_by(JudgementRow.id.desc())
    .limit(1)
)


def find_audit(session: Session, project_id: str, audit_id: str) -> AnyRow | None:
    """Return what judging needs to know of an audit of the project, its checks apart."""
    return session.execute(_FIND_AUDIT, {"audit_id": audit_id, "project_id": project_id}).one_or_none()


def find_own_judgement(session: Session, audit_id: str) -> JudgementRow | None:
    """Return what the policy an audit was submitted with makes of it; None before, and while it is retried."""
    return session.scalar(_FIND_OWN_JUDGEMENT, {"audit_id": audit_id})


def find_policy(session: Session, project_id: str, policy_id: str) -> PolicyRow | None:
    """Return a version of a policy of the project by id."""
    return session.scalar(select(PolicyRow).where(PolicyRow.id == policy_id, PolicyRow.project_id == project_id))


def find_policy_by_name(session: Session, project_id: str, name: str, version: int | None) -> PolicyRow | None:
    """Return a version of a policy of the project, the newest one by default."""
    query = _FIND_POLICY_BY_NAME if version is None else _FIND_POLICY_BY_NAME.where(PolicyRow.version == version)
    return session.scalar(query, {"project_id": project_id, "name": name})


def policy_digests(session: Session, project_id: str, name: str) -> set[str]:
    """Return the digests of all versions of a policy."""
    query = select(PolicyRow.digest).where(PolicyRow.project_id == project_id, PolicyRow.name == name)
    return set(session.scalars(query))


def lock_project(session: Session, project_id: str) -> None:
    """Hold a project for the rest of the transaction; rows that only name it may still be written by others."""
    session.execute(select(ProjectRow.id).where(ProjectRow.id == project_id).with_for_update(key_share=True))


def newest_policies(session: Session, project_id: str) -> Sequence[PolicyRow]:
    """Return the newest version of each of the project's policies, by name."""
    other = aliased(PolicyRow)
    newest = select(func.max(other.version)).where(
        other.project_id == PolicyRow.project_id, other.name == PolicyRow.name
    )
    is_newest = PolicyRow.version == newest.correlate(PolicyRow).scalar_subquery()
    query = select(PolicyRow).where(PolicyRow.project_id == project_id, is_newest)
    return session.scalars(query.order_by(PolicyRow.name)).all()


def policy_names(session: Session, project_id: str) -> Sequence[str]:
    """Return the names of the project's policies, in their order."""
    query = select(PolicyRow.name).where(PolicyRow.project_id == project_id).distinct()
    return session.scalars(query.order_by(PolicyRow.name)).all()


def list_policies(
    session: Session, project_id: str, *, name: str | None, before: str | None, limit: int
) -> Iterable[PolicyRow]:
    """Return all versions of the project's policies, newest first, read from the database a few at a time."""
    query = select(PolicyRow).where(PolicyRow.project_id == project_id)
    if name is not None:
        query = query.where(PolicyRow.name == name)
    if before is not None:
        query = query.where(PolicyRow.id < before)
    query = query.order_by(PolicyRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))


def find_baseline(session: Session, project_id: str, model_name: str, name: str, *, other_than: str) -> AnyRow | None:
    """Return the audit promoted last under a name for a model, ``other_than`` apart: it is no baseline of itself."""
    asked = {"project_id": project_id, "model_name": model_name, "name": name, "other_than": other_than}
    return session.execute(_FIND_BASELINE, asked).one_or_none()


def newest_baseline(session: Session, project_id: str, model_name: str, name: str) -> BaselineRow | None:
    """Return what is in force under a name of a model."""
    query = select(BaselineRow).where(
        BaselineRow.project_id == project_id, BaselineRow.model_name == model_name, BaselineRow.name == name
    )
    return session.scalars(query.order_by(BaselineRow.id.desc()).limit(1)).one_or_none()


def baseline_names(session: Session, project_id: str, model_name: str) -> Sequence[str]:
    """Return the names of a model's baselines, in their order."""
    query = select(BaselineRow.name).where(BaselineRow.project_id == project_id, BaselineRow.model_name == model_name)
    return session.scalars(query.distinct().order_by(BaselineRow.name)).all()


def list_baselines(
    session: Session, project_id: str, *, model: str | None, name: str | None, before: str | None, limit: int
) -> Sequence[AnyRow]:
    """Return baselines with ``is_current``, newest first; those that were replaced are their history."""
    newer = aliased(BaselineRow)
    newest = select(func.max(newer.id)).where(
        newer.project_id == BaselineRow.project_id,
        newer.model_name == BaselineRow.model_name,
        newer.name == BaselineRow.name,
    )
    query = select(
        BaselineRow.id,
        BaselineRow.name,
        BaselineRow.model_name.label("model"),
        BaselineRow.audit_id.label("audit"),
        BaselineRow.note,
        (BaselineRow.id == newest.correlate(BaselineRow).scalar_subquery()).label("is_current"),
        BaselineRow.created_at,
    ).where(BaselineRow.project_id == project_id)
    for column, wanted in ((BaselineRow.model_name, model), (BaselineRow.name, name)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(BaselineRow.id < before)
    return session.execute(query.order_by(BaselineRow.id.desc()).limit(limit)).all()
