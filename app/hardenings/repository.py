"""SQL of hardenings."""

from collections.abc import Iterable, Sequence

from sqlalchemy import or_, select
from sqlalchemy.orm import Session, aliased

from seatrial.contracts.states import TERMINAL, UNFINISHED, ModelState
from seatrial.store.database import AnyRow, epoch_now
from seatrial.store.tables import AuditRow, HardeningEventRow, HardeningRow, ModelRow
from seatrial.store.tables.hardenings import AUDITING


def find(session: Session, project_id: str, hardening_id: str) -> HardeningRow | None:
    """Return a hardening of the project, as it is now."""
    own = HardeningRow.id == hardening_id, HardeningRow.project_id == project_id
    return session.scalar(select(HardeningRow).where(*own), execution_options={"populate_existing": True})


def list_hardenings(
    session: Session, project_id: str, *, state: str | None, model: str | None, before: str | None, limit: int
) -> Iterable[HardeningRow]:
    """Return hardenings, newest first."""
    query = select(HardeningRow).where(HardeningRow.project_id == project_id)
    if state is not None:
        query = query.where(HardeningRow.state == state)
    if model is not None:
        query = query.where(or_(HardeningRow.model_id == model, HardeningRow.hardened_id == model))
    if before is not None:
        query = query.where(HardeningRow.id < before)
    return session.scalars(query.order_by(HardeningRow.id.desc()).limit(limit))


def list_events(
    session: Session, project_id: str, hardening_id: str, *, after: int, limit: int
) -> tuple[AnyRow, Sequence[AnyRow]] | None:
    """Return state and number of events of a hardening, and its events after ``after``; None without it."""
    own = HardeningRow.id == hardening_id, HardeningRow.project_id == project_id
    row = session.execute(select(HardeningRow.state, HardeningRow.event_seq).where(*own)).one_or_none()
    if row is None:
        return None
    event = HardeningEventRow
    query = select(event.seq, event.kind, event.data, event.created_at).where(
        event.hardening_id == hardening_id, event.seq > after
    )
    return row, session.execute(query.order_by(event.seq).limit(limit)).all()


def taken_versions(session: Session, project_id: str, name: str) -> set[str]:
    """Return the versions of a model that are held."""
    held = ModelRow.project_id == project_id, ModelRow.name == name, ModelRow.state != ModelState.REJECTED
    return set(session.scalars(select(ModelRow.version).where(*held)))


def promised_versions(session: Session, project_id: str, name: str) -> set[str]:
    """Return the versions of a model that unfinished hardenings are going to make."""
    query = (
        select(HardeningRow.spec)
        .join(ModelRow, ModelRow.id == HardeningRow.model_id)
        .where(HardeningRow.project_id == project_id, HardeningRow.state.in_(UNFINISHED), ModelRow.name == name)
    )
    return {str(spec["version"]) for spec in session.scalars(query)}


def due(session: Session) -> Sequence[str]:
    """Return the hardenings whose audits can be submitted, or have ended: in the words of their index."""
    before, after = aliased(AuditRow), aliased(AuditRow)
    waits = HardeningRow.state == "running", HardeningRow.stage == AUDITING
    # One that a quota refused for now is put off, held by nobody.
    is_due = or_(HardeningRow.lease_until.is_(None), HardeningRow.lease_until < epoch_now())
    query = (
        select(HardeningRow.id)
        .outerjoin(before, before.id == HardeningRow.audit_before)
        .outerjoin(after, after.id == HardeningRow.audit_after)
        .where(*waits, is_due)
        .where(or_(before.id.is_(None), after.id.is_(None), before.state.in_(TERMINAL) & after.state.in_(TERMINAL)))
    )
    return session.scalars(query.order_by(HardeningRow.id)).all()
