"""The audit log: who did what to whom, in the transaction that did it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from seatrial.store.ids import new_id
from seatrial.store.tables import ActivityRow
from seatrial.store.tables.base import utc_now

RETENTION = "retention"
OPERATOR = "operator"
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Author:
    """Who does something.

    Attributes:
        actor: Id of a key; ``operator`` of the bootstrap key, and where no keys are needed; ``command line`` of a
            command beside the database; ``retention`` of what a project's retention deletes; the id of a
            hardening that promotes.
        request_id: Of the request, as the log has it.
    """

    actor: str
    request_id: str | None = None


def record_activity(
    session: Session, project_id: str, author: Author, action: str, subject: str, **details: Any
) -> None:
    """Write down what the caller's transaction does; without it, it is not written either."""
    session.execute(
        insert(ActivityRow).values(
            id=new_id("act"),
            project_id=project_id,
            actor=author.actor,
            action=action,
            subject=subject,
            details=details,
            request_id=author.request_id,
            created_at=utc_now(),
        )
    )
