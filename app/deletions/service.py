"""Deleting, and telling what was deleted."""

from typing import Any

from sqlalchemy.orm import Session

from app.deletions import repository
from app.web.identifiers import no_such
from app.web.problems import ConflictError, NotFoundError, ProblemError
from app.web.services import Services
from seatrial.contracts.deletions import TombstoneRead, TombstoneSummary
from seatrial.store.activity import Author
from seatrial.store.deleting import InUseError, NotThereError, delete_one
from seatrial.store.tables import TombstoneRow

TOLD_USES = 20


class DeletedError(ProblemError):
    """It was there, and was deleted."""

    status = 410
    code = "deleted"
    title = "It was deleted"


class StillUsedError(ConflictError):
    """Something uses what was to be deleted."""

    code = "in-use"
    title = "Something uses it"


def delete(
    services: Services, project_id: str, subject_id: str, kind: str, author: Author, *, cascade: bool
) -> TombstoneRead:
    """Delete an audit, a model, a dataset or a hardening; deleting twice is the same as once.

    Raises:
        NotFoundError: The project never had one of that id.
        StillUsedError: Something uses it; ``uses`` says what.
    """
    try:
        with services.database.write() as session:
            gone = delete_one(session, project_id, subject_id, author, cascade=cascade)
            return _read(gone[0], [one.subject for one in gone[1:]])
    except NotThereError:
        with services.database.read() as session:
            row = repository.find(session, project_id, subject_id)
            if row is None:
                raise NotFoundError(no_such(kind, subject_id)) from None
            return _read(row, list(repository.list_along(session, row)))
    except InUseError as error:
        raise _still_used(subject_id, kind, error) from error


def _still_used(subject_id: str, kind: str, error: InUseError) -> StillUsedError:
    first = error.uses[0]
    others = (
        "" if len(error.uses) == 1 else f" (and {len(error.uses) - 1} other use{'s' if len(error.uses) > 2 else ''})"
    )
    must_end = any(use.must_end for use in error.uses)
    hint = (
        "What runs or is waited for is never deleted."
        if must_end
        else "With cascade (`?cascade=true`, `--cascade`) its audits and the hardenings about it are deleted too, and "
        "baselines taken away; attestations stay in the tombstone."
    )
    used_by = f"{first.id} {first.detail}{others}" if first.id != subject_id else f"it {first.detail}{others}"
    return StillUsedError(
        f"The {kind} {subject_id} is not deleted: {used_by}. {hint}",
        uses=[
            {"kind": use.kind, "id": use.id, "detail": use.detail, "must_end": use.must_end}
            for use in error.uses[:TOLD_USES]
        ],
        uses_in_all=len(error.uses),
        can_cascade=not must_end,
    )


def get_tombstone(services: Services, project_id: str, named: str) -> TombstoneRead:
    """Return a tombstone by its id or by that of what was deleted.

    Raises:
        NotFoundError: There is none.
    """
    with services.database.read() as session:
        row = repository.find(session, project_id, named)
        if row is None:
            raise NotFoundError(f"Nothing of the id {named} was deleted in this project.")
        return _read(row, list(repository.list_along(session, row)))


def missing(session: Session, project_id: str, subject_id: str, kind: str) -> ProblemError:
    """Return the answer for an id the project does not have: that it was deleted, or that it never was."""
    row = repository.find(session, project_id, subject_id)
    if row is None:
        return NotFoundError(no_such(kind, subject_id))
    return DeletedError(
        f"The {kind} {subject_id} ({row.name}) was deleted on {row.deleted_at:%Y-%m-%d at %H:%M:%S} UTC by "
        f"{row.actor}: GET /v1/tombstones/{subject_id} has what stays of it.",
        tombstone=row.id,
    )


def render_summary(row: TombstoneRow) -> dict[str, Any]:
    """Return a tombstone as a list has it."""
    return TombstoneSummary.model_validate(row).model_dump(mode="json")


def _read(row: TombstoneRow, along: list[str]) -> TombstoneRead:
    summary = TombstoneSummary.model_validate(row)
    return TombstoneRead(**summary.model_dump(), details=row.details, along=along)
