"""Baselines: audits others are compared with, by id or by the name they were promoted under."""

import re
from collections.abc import Iterable

from sqlalchemy.orm import Session

from app.policies import repository
from app.policies.service import check_name
from app.web.identifiers import no_such
from app.web.problems import ForbiddenError, InvalidRequestError
from app.web.services import Services
from seatrial.contracts.near_names import instead
from seatrial.contracts.policies import NAME, BaselineCreate, BaselineRead, PolicySource
from seatrial.contracts.states import RunState
from seatrial.store.activity import Author, record_activity
from seatrial.store.database import AnyRow
from seatrial.store.ids import new_id
from seatrial.store.tables import BaselineRow

_AUDIT_ID = "aud_"


class UnfitBaselineError(InvalidRequestError):
    """The audit named as a baseline is not there, has no numbers, or is of another kind."""

    code = "unfit-baseline"
    title = "Not a valid baseline for this audit"


def is_audit_id(named: str) -> bool:
    """Return whether a baseline is given as an audit rather than by name."""
    return named.startswith(_AUDIT_ID)


def check_baseline(session: Session, project_id: str, named: str, task: str) -> None:
    """Refuse what is neither an audit to compare with nor a name; that a name is not given yet is no mistake.

    Raises:
        UnfitBaselineError: ``errors`` points at ``/baseline``.
    """
    if is_audit_id(named):
        _fit_audit(session, project_id, named, task)
    elif not re.fullmatch(NAME, named, re.ASCII):
        raise UnfitBaselineError(
            f"baseline is the id of an audit or the name of a baseline (a to z, 0 to 9, - and _), got {named!r}",
            pointer="/baseline",
        )


def no_baseline(model: str, named: str, there: Iterable[str]) -> str:
    """Return the beginning of what a name is told that no baseline of a model has.

    >>> no_baseline("digits", "champoin", ["champion"])
    "Model digits has no baseline 'champoin': did you mean 'champion'? It has champion"
    """
    return f"Model {model} has no baseline {named!r}{instead(named, there, 'it has')}"


def not_promoted(session: Session, project_id: str, named: str | None, model: str) -> list[str]:
    """Return, in a sentence, that a name is none of a model's yet; nothing where it is, or where an audit is named.

    It is no mistake: the first audit that passes may become it.
    """
    if named is None or is_audit_id(named):
        return []
    there = repository.baseline_names(session, project_id, model)
    if named in there:
        return []
    return [
        f"{no_baseline(model, named, there)}. What is compared with it is skipped unless one is promoted under that "
        "name before the audit ends."
    ]


def find_baseline(session: Session, audit: AnyRow, named: str | None, default: str) -> AnyRow | None:
    """Return the audit to compare with; None where none has been promoted under the name.

    An audit is no baseline of itself: once promoted, it is still compared with the one before it.

    Args:
        session: Where to look.
        audit: The audit to judge.
        named: An audit or a name, if the judgement was asked for with one.
        default: The name the policy gives.

    Raises:
        UnfitBaselineError: ``named`` is an audit that cannot be compared with, or the audit itself.
    """
    if named is not None:
        check_baseline(session, audit.project_id, named, audit.task)
    if named is not None and is_audit_id(named):
        if named == audit.id:
            raise UnfitBaselineError(
                f"{named} cannot be compared with itself: name another audit.", pointer="/baseline"
            )
        return _fit_audit(session, audit.project_id, named, audit.task)
    baseline = repository.find_baseline(
        session, audit.project_id, audit.model_name, named or default, other_than=audit.id
    )
    return baseline if baseline is not None and baseline.task == audit.task else None


def _fit_audit(session: Session, project_id: str, audit_id: str, task: str) -> AnyRow:
    audit = repository.find_audit(session, project_id, audit_id) if "\0" not in audit_id else None
    if audit is None:
        raise UnfitBaselineError(no_such("audit", audit_id), pointer="/baseline")
    if audit.state != RunState.SUCCEEDED:
        raise UnfitBaselineError(
            f"Audit {audit_id} is {audit.state}: only a succeeded one can be compared with.", pointer="/baseline"
        )
    if audit.task != task:
        raise UnfitBaselineError(
            f"Audit {audit_id} is of a model for {audit.task}, this one does {task}.", pointer="/baseline"
        )
    return audit


def promote(
    services: Services, project_id: str, request: BaselineCreate, author: Author, *, needs_pass: bool
) -> BaselineRead:
    """Make an audit the baseline of its model under a name; the one before it becomes history.

    Args:
        services: What stores it.
        project_id: Whose it is.
        request: The audit and the name.
        author: Who asks.
        needs_pass: Whether it must have passed its own policy, that of the one before it where there is one: releases
            are compared with it, and so it is not for a pipeline to choose one that they can only be better than.

    Raises:
        ForbiddenError: It needs a pass and has none.
        ReservedNameError: The name reads as an id.
        UnfitBaselineError: There is no such audit, or it has not succeeded.
        InvalidRequestError: The note cannot be stored.
    """
    check_name(request.name, "aud")
    if "\0" in request.note:
        raise InvalidRequestError("note holds a character that cannot be stored (U+0000)", pointer="/note")
    with services.database.write() as session:
        return add_baseline(session, project_id, request, author, needs_pass=needs_pass)


def _require_pass(session: Session, audit: AnyRow, name: str) -> None:
    otherwise = "Any audit that succeeded can be promoted with a key of scope admin."
    if audit.verdict != "passed":
        verdict = f"is {audit.verdict}" if audit.verdict else "has no verdict of its own"
        raise ForbiddenError(
            f"Audit {audit.id} {verdict}: a key with scope run promotes what passed the policy it was submitted with. "
            + otherwise,
            pointer="/audit",
        )
    before = repository.find_baseline(session, audit.project_id, audit.model_name, name, other_than=audit.id)
    if before is None:
        return
    ours = PolicySource.model_validate(audit.policy["source"])
    theirs = PolicySource.model_validate(before.policy["source"]) if before.policy else None
    if theirs is None or not _is_same(ours, theirs):
        raise ForbiddenError(
            f"Audit {audit.id} passed policy {ours.name}, and the {name} it would replace was judged by "
            f"{_told_apart(ours, theirs)}: a key with scope run replaces a baseline by what passed the same policy. "
            + otherwise,
            pointer="/audit",
        )


def _is_same(one: PolicySource, other: PolicySource) -> bool:
    """Return whether two policies are one, or versions of one that are stored, which scope run cannot add to."""
    return one.digest == other.digest or (one.id is not None and other.id is not None and one.name == other.name)


def _told_apart(ours: PolicySource, theirs: PolicySource | None) -> str:
    if theirs is None:
        return "none"
    return theirs.name if theirs.name != ours.name else f"another document of that name ({theirs.digest[:12]})"


def add_baseline(
    session: Session, project_id: str, request: BaselineCreate, author: Author, *, needs_pass: bool = False
) -> BaselineRead:
    """Make an audit a baseline in a transaction of the caller's, who has checked the name.

    Raises:
        ForbiddenError: It needs a pass, as :func:`promote` says, and has none.
        UnfitBaselineError: There is no such audit, or it has not succeeded.
    """
    audit = repository.find_audit(session, project_id, request.audit) if "\0" not in request.audit else None
    if audit is None:
        raise UnfitBaselineError(no_such("audit", request.audit), pointer="/audit")
    if audit.state != RunState.SUCCEEDED:
        raise UnfitBaselineError(
            f"Audit {audit.id} is {audit.state}: only a succeeded one can be a baseline.", pointer="/audit"
        )
    if needs_pass:
        _require_pass(session, audit, request.name)
    row = repository.newest_baseline(session, project_id, audit.model_name, request.name)
    # Asked again, as by a client that lost the answer, it is what it is.
    if row is None or (row.audit_id, row.note) != (audit.id, request.note):
        row = BaselineRow(
            id=new_id("bas"),
            project_id=project_id,
            model_name=audit.model_name,
            name=request.name,
            audit_id=audit.id,
            note=request.note,
        )
        session.add(row)
        session.flush()
        told = {"name": request.name, "model": audit.model_name, "note": request.note}
        record_activity(session, project_id, author, "baseline.promoted", audit.id, **told)
    return BaselineRead(
        id=row.id,
        name=row.name,
        model=row.model_name,
        audit=row.audit_id,
        note=row.note,
        is_current=True,
        created_at=row.created_at,
    )
