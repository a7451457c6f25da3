"""SQL of plans."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session, aliased

from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.database import epoch_now
from seatrial.store.tables import AuditRow, DeliveryRow, HardeningRow, PlanRow, PlanStepRow
from seatrial.store.transitions import claim

ACTIVE = (RunState.QUEUED, RunState.RUNNING)


def find(session: Session, project_id: str, plan_id: str) -> PlanRow | None:
    """Return a plan of the project."""
    return session.scalar(select(PlanRow).where(PlanRow.id == plan_id, PlanRow.project_id == project_id))


def list_plans(session: Session, project_id: str, *, before: str | None, limit: int) -> Iterable[PlanRow]:
    """Return plans, newest first."""
    query = select(PlanRow).where(PlanRow.project_id == project_id)
    if before is not None:
        query = query.where(PlanRow.id < before)
    return session.scalars(query.order_by(PlanRow.id.desc()).limit(limit))


def list_steps(session: Session, plan_id: str) -> Sequence[PlanStepRow]:
    """Return the steps of a plan, in order, as they are now."""
    query = select(PlanStepRow).where(PlanStepRow.plan_id == plan_id).order_by(PlanStepRow.ordinal)
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def steps_of(session: Session, plans: Sequence[str]) -> dict[str, list[PlanStepRow]]:
    """Return the steps of several plans, in order, by plan."""
    found: dict[str, list[PlanStepRow]] = {plan_id: [] for plan_id in plans}
    query = select(PlanStepRow).where(PlanStepRow.plan_id.in_(plans)).order_by(PlanStepRow.ordinal)
    for step in session.scalars(query) if plans else ():
        found[step.plan_id].append(step)
    return found


def is_any_due(session: Session) -> bool:
    """Return whether a claim would find something."""
    return session.scalar(_due().limit(1)) is not None


def claim_due(session: Session, *, lease_s: float, worker: str) -> tuple[str, str] | None:
    """Take a step that can be begun or ended and that nobody else takes; return its id and the token."""
    return claim(session, PlanStepRow, _due(), lease_s=lease_s, worker=worker)


def _due() -> Select[Any]:
    """Select steps to be begun, and those whose job has ended."""
    earlier = aliased(PlanStepRow)
    is_blocked = select(earlier.id).where(
        earlier.plan_id == PlanStepRow.plan_id,
        earlier.ordinal < PlanStepRow.ordinal,
        earlier.state != RunState.SUCCEEDED,
    )
    return (
        select(PlanStepRow.id)
        .join(PlanRow, PlanRow.id == PlanStepRow.plan_id)
        .where(
            PlanStepRow.state.in_(ACTIVE),
            PlanRow.state.in_(ACTIVE),
            # A lease that has run out is free at once, as a delivery's: the attempt it was for is counted.
            or_(PlanStepRow.lease_until.is_(None), PlanStepRow.lease_until < epoch_now()),
            ~is_blocked.exists(),
            or_(PlanStepRow.job.is_(None), _hardening_is_over(), _audit_is_over(), _delivery_is_over()),
        )
        .order_by(PlanStepRow.id)
    )


def _hardening_is_over() -> ColumnElement[bool]:
    """Return the condition that the hardening waited for has ended, its pair of audits with it."""
    over = HardeningRow.id == PlanStepRow.job, HardeningRow.state.in_(TERMINAL)
    return select(HardeningRow.id).where(*over).exists()


def _audit_is_over() -> ColumnElement[bool]:
    """Return the condition that the audit waited for has ended, and been judged where it is to be."""
    is_judged = or_(AuditRow.policy.is_(None), AuditRow.verdict.is_not(None))
    return select(AuditRow.id).where(AuditRow.id == PlanStepRow.job, AuditRow.state.in_(TERMINAL), is_judged).exists()


def _delivery_is_over() -> ColumnElement[bool]:
    over = DeliveryRow.id == PlanStepRow.job, DeliveryRow.status != "pending"
    return select(DeliveryRow.id).where(*over).exists()
