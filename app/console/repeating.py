"""From an audit back to the form that submits one like it."""

from sqlalchemy.orm import Session

from app.console.policy_choice import Filled, in_fields, said_of
from app.reports.repository import get_audit
from seatrial.contracts.audits import AuditCreate

_IN_FORM = ("model", "dataset", "checks", "seed", "samples", "policy", "baseline", "reuse")


def repeated(session: Session, project_id: str, audit_id: str) -> Filled:
    """Return the form of an audit like another.

    Raises:
        NotFoundError: The project has none of that id.
    """
    row = get_audit(session, project_id, audit_id)
    values = {"model": row.model_id, "dataset": row.dataset_id, "samples": str(row.samples), "seed": str(row.seed)}
    policy, left_behind = said_of(session, project_id, row.id, row.policy)
    values |= {"policy": policy, "baseline": row.baseline or ""}
    values |= {"reuse": "true"} if row.spec.get("reuse") else {}
    checks = in_fields(row.spec.get("checks", ()), owner="The audit")
    values |= checks.values
    left_behind += checks.left_behind
    for name, field in AuditCreate.model_fields.items():
        if name not in _IN_FORM and row.spec.get(name, field.default) != field.default:
            left_behind.append(f"Its `{name}` was {row.spec[name]}; the form leaves it at its default.")
    return Filled(values, checks.kinds, left_behind)
