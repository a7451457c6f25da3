"""Reading and changing projects, with or without HTTP."""

from typing import Any

from sqlalchemy.orm import Session

from app.access.schemas import Principal
from app.projects import repository
from app.web.problems import ForbiddenError, NotFoundError
from app.web.quotas import count_unfinished, spent_daily_s
from seatrial.contracts.projects import DiskRead, ProjectChange, ProjectRead, ProjectSummary, Retention, SpentRead
from seatrial.store.activity import Author, record_activity
from seatrial.store.tables import ProjectRow
from seatrial.store.usage import disk_use


def get_project(session: Session, principal: Principal, name: str) -> ProjectRow:
    """Return a project the asker may see: their own; of the operator, any.

    Raises:
        NotFoundError: There is none of that name to be seen.
    """
    row = repository.find_project(session, name)
    if row is None or (row.id != principal.project_id and not principal.is_operator):
        raise NotFoundError(f"There is no project {name} that this key may see.")
    return row


def check_may_change(principal: Principal, change: ProjectChange) -> None:
    """Refuse what only the operator may change: what a project takes from others.

    Raises:
        ForbiddenError: It is not the operator who asks.
    """
    operators = {"weight", "priority", "quotas"} & change.model_fields_set
    if operators and not principal.is_operator:
        raise ForbiddenError(f"Only the operator may change {' and '.join(sorted(operators))} of a project.")


def change_project(session: Session, row: ProjectRow, change: ProjectChange, author: Author) -> None:
    """Change what is named, and write down who did."""
    named = change.model_dump(mode="json", exclude_unset=True)
    told = {name: value for name, value in named.items() if value is not None}
    shares = {name: value for name, value in told.items() if name in ("weight", "priority") and value is not None}
    if shares:
        repository.change_shares(session, row.id, **shares)
        session.refresh(row)
    for kind, keep_days in (told.get("retention") or {}).items():
        repository.set_retention(session, row.id, kind, keep_days)
    if told.get("quotas"):
        repository.set_quotas(session, row.id, told["quotas"])
    record_activity(session, row.id, author, "project.changed", row.name, **told)


def render_summary(row: ProjectRow) -> dict[str, Any]:
    """Return a project as a list has it."""
    return _summary(row).model_dump(mode="json")


def read_project(session: Session, row: ProjectRow) -> ProjectRead:
    """Return a project with what it keeps and uses."""
    return ProjectRead(
        **_summary(row).model_dump(),
        retention=Retention(**repository.find_retention(session, row.id)),
        quotas=repository.find_quotas(session, [row.id])[row.id],
        spent=SpentRead(
            unfinished_audits=count_unfinished(session, [row.id])[row.id].total,
            daily_s=spent_daily_s(session, row.id),
        ),
        disk=DiskRead.model_validate(disk_use(session, row.id)),
    )


def _summary(row: ProjectRow) -> ProjectSummary:
    return ProjectSummary(
        id=row.id,
        name=row.name,
        weight=row.weight,
        priority=row.priority,
        worked_s=row.turn,
        created_at=row.created_at,
    )
