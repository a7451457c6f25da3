"""What earlier checks of a project took of their estimates."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import RunState
from seatrial.families.cost import Cost
from seatrial.families.timing import UNTIMED, Spread, spread_of
from seatrial.store.database import AnyRow
from seatrial.store.tables import AuditRow, CheckRow, ShardRow

LOOKED_BACK = 200
"""Audits looked through: the speed of machines that are gone says nothing."""

MOST_RATIOS = 50
"""Checks of a family that count, the latest."""


def spreads(session: Session, project_id: str, kinds: Iterable[str]) -> dict[str, Spread]:
    """Return by family between which multiples of their estimates checks of a project ended.

    Checks that were measured as a whole, by this service: neither those that stopped when they were decided, whose
    estimate is of all examples, nor those whose records were there.
    """
    recent = select(AuditRow.id).where(AuditRow.project_id == project_id, AuditRow.state == RunState.SUCCEEDED)
    query = (
        select(CheckRow.kind, CheckRow.estimated_s, func.sum(ShardRow.seconds).label("took_s"))
        .join(ShardRow, ShardRow.check_id == CheckRow.id)
        .where(
            CheckRow.audit_id.in_(recent.order_by(AuditRow.id.desc()).limit(LOOKED_BACK)),
            CheckRow.kind.in_(set(kinds)),
            CheckRow.state == RunState.SUCCEEDED,
            CheckRow.reused.is_(None),
            CheckRow.estimated_s > 0,
            CheckRow.result["looks"].as_string().is_(None),
        )
        .group_by(CheckRow.id, CheckRow.kind, CheckRow.estimated_s)
        .order_by(CheckRow.id.desc())
    )
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    for row in session.execute(query):
        if row.took_s and len(ratios[row.kind]) < MOST_RATIOS:
            ratios[row.kind].append(row.took_s / row.estimated_s)
    return {kind: spread_of(found) for kind, found in ratios.items()}


def range_of(costs: Iterable[Cost], of: dict[str, Spread]) -> tuple[float, float] | None:
    """Return between which seconds checks that follow each other should end; None where some cost is not known."""
    low = high = 0.0
    for cost in costs:
        if cost.seconds is None:
            return None
        low, high = low + cost.seconds * of[cost.kind].low, high + cost.seconds * of[cost.kind].high
    return low, high


def spread_stored(check: AnyRow) -> Spread:
    """Return the spread a check was submitted with; what was seen elsewhere where it has none."""
    return Spread(*UNTIMED) if check.spread_low is None else Spread(check.spread_low, check.spread_high)
