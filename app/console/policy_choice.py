"""The policy in the form of an audit: which checks it is about, and that of an audit where nobody stored it."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.console import service
from app.console.parameters import write_params
from app.policies.baselines import is_audit_id
from app.policies.presets import RESERVED
from app.policies.repository import newest_policies
from app.policies.service import choose_policy, shipped_policies
from app.reports.repository import get_audit
from app.web.identifiers import POLICY, is_id
from app.web.problems import NotFoundError, ProblemError
from seatrial.contracts.policies import PolicySource
from seatrial.contracts.registry import families

NONE = ("", "none: only numbers")


class Filled(NamedTuple):
    """What a form is filled with: checks, or all that an audit was asked.

    Attributes:
        values: What stands in each field.
        kinds: Families that are chosen.
        left_behind: What the form has no field for, each in a sentence.
    """

    values: dict[str, str]
    kinds: list[str]
    left_behind: list[str]


def in_fields(checks: Iterable[Mapping[str, Any]], *, owner: str) -> Filled:
    """Return checks as a form holds them; ``owner`` is whose they are, in a sentence."""
    found = Filled({}, [], [])
    for check in checks:
        kind = check["kind"]
        if kind not in families():
            found.left_behind.append(f"The family `{kind}` is not installed any more.")
        elif kind in found.kinds:
            found.left_behind.append(f"{owner} has `{kind}` more than once: the form holds the first.")
        else:
            found.kinds.append(kind)
            found.values.update(write_params(kind, check) | {f"params-{kind}": ""})
    return found


def checks_of(session: Session, project_id: str, said: str) -> Filled:
    """Return the checks a chosen policy is about; none of one that is about whatever was run.

    Raises:
        NotFoundError: It is that of an audit which the project does not have, or no name.
        UnknownPolicyError: There is no such policy.
    """
    document = document_of(session, project_id, said)
    if document is None:
        if not re.fullmatch(POLICY.strip("^$"), said):
            raise NotFoundError("A policy is named by small letters, digits, _, - and @.")
        document = choose_policy(session, project_id, said).document
    return in_fields(document.get("checks", ()), owner="The policy")


def document_of(session: Session, project_id: str, said: str) -> dict[str, Any] | None:
    """Return the policy of an audit that was judged by one of its own; None where a name, or nothing, is said.

    Raises:
        NotFoundError: The project has no such audit, or it was judged by none.
    """
    if not (is_id(said) and is_audit_id(said)):
        return None
    policy = get_audit(session, project_id, said).policy or {}
    return policy.get("document")


def said_of(
    session: Session, project_id: str, audit_id: str, policy: Mapping[str, Any] | None
) -> tuple[str, list[str]]:
    """Return what the form says of the policy an audit was submitted with, and what it cannot say of it.

    By name while that means the same, by version where it does not any more, and as that of the audit where nobody
    stored it.
    """
    if policy is None:
        return "", []
    source = PolicySource.model_validate(policy["source"])
    for name in (source.name, f"{source.name}@{source.version}"):
        try:
            chosen = choose_policy(session, project_id, name)
        except ProblemError:
            continue
        if chosen.source.digest == source.digest:
            return name, []
    if source.name in RESERVED:
        return source.name, [f"It was judged by `{source.name}` of another version of Seatrial; the form has today's."]
    return audit_id, []


def options(session: Session, project_id: str, said: str) -> list[tuple[str, str]]:
    """Return the policies to choose from: by name, and the one that is chosen where it is none of those."""
    names = service.policy_names(session, project_id)
    more = []
    if said and said not in names:
        try:
            own = document_of(session, project_id, said)
        except ProblemError:
            own = None
        more = [(said, said if own is None else f"{own['name']}, not stored: that of the audit submitted again")]
    return [NONE, *((name, name) for name in names), *more]


def about_checks(session: Session, project_id: str, said: str) -> list[str]:
    """Return which of the policies to choose from say what checks they are about."""
    newest = {row.name: bool(row.document.get("checks")) for row in newest_policies(session, project_id)}
    newest |= {one.name: bool(one.document.get("checks")) for one in shipped_policies()}
    found = [name for name, has_checks in newest.items() if has_checks]
    if said and said not in newest:
        with contextlib.suppress(ProblemError):
            found += [said] if checks_of(session, project_id, said).kinds else []
    return found
