"""Policies: found by what they are called, stored as versions that never change."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.policies import presets, repository
from app.web.bodies import parse_json
from app.web.problems import ForbiddenError, InvalidRequestError
from app.web.services import Services
from seatrial.contracts.near_names import instead
from seatrial.contracts.policies import Policy, PolicyRead, PolicySource
from seatrial.store.activity import Author, record_activity
from seatrial.store.ids import new_id
from seatrial.store.tables import PolicyRow

REFERENCE = re.compile(
    r"(?P<id>pol_[0-9a-f]{32})|(?P<name>[a-z][a-z0-9_-]{0,63})(?:@(?P<version>[1-9][0-9]{0,8}))?", re.ASCII
)


class UnknownPolicyError(InvalidRequestError):
    """The request names a policy this project does not have."""

    code = "unknown-policy"
    title = "There is no such policy"


class ReservedNameError(InvalidRequestError):
    """The name is not for policies or baselines of a project."""

    code = "reserved-name"
    title = "This name is taken"


@dataclass(frozen=True)
class Chosen:
    """A policy to judge by.

    Attributes:
        source: Which it is, as told.
        document: The policy, defaults filled in.
        given: The same, where the request brought it.
    """

    source: PolicySource
    document: dict[str, Any]
    given: Policy | None = None

    def policy(self) -> Policy:
        """Return it for judging.

        Raises:
            ValidationError: It was stored by a version that knew other rules.
        """
        return self.given or Policy.model_validate_json(json.dumps(self.document))

    def stored(self) -> dict[str, Any]:
        """Return it as an audit keeps it; :func:`kept` reads it back."""
        return {"source": self.source.model_dump(), "document": self.document}


def kept(policy: Mapping[str, Any]) -> Chosen:
    """Return what :meth:`Chosen.stored` gave."""
    return Chosen(PolicySource.model_validate(policy["source"]), policy["document"])


_RUN = {"/samples", "/seed", "/stop"}


def parse_policy(text: str | bytes) -> Policy:
    """Return JSON text as a policy.

    Raises:
        MalformedBodyError: The text is not JSON.
        InvalidRequestError: A field does not fit; what is run is told where it belongs.
    """
    try:
        return parse_json(text, Policy)
    except InvalidRequestError as error:
        if not any(one.pointer in _RUN for one in error.errors or ()):
            raise
        errors = [
            one.model_copy(update={"detail": _elsewhere(one.pointer)}) if one.pointer in _RUN else one
            for one in error.errors or ()
        ]
        raise InvalidRequestError("; ".join(f"{one.pointer}: {one.detail}" for one in errors), errors=errors) from error


def _elsewhere(pointer: str) -> str:
    return (
        f"A policy says what must hold, and of which checks. How they are run ({pointer.removeprefix('/')}) is told in "
        "POST /v1/audits, or beside the rules in the file of seatrial gate."
    )


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document with its defaults filled in; the order of its fields does not matter."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def find_policy(session: Session, project_id: str, reference: str) -> PolicyRead | None:
    """Return the policy a reference names: an id, a name (its newest version), ``name@version`` or a shipped one."""
    if reference in presets.RESERVED:
        return _shipped(reference)
    found = REFERENCE.fullmatch(reference)
    if found is None:
        return None
    if found["id"] is not None:
        row = repository.find_policy(session, project_id, found["id"])
    else:
        version = int(found["version"]) if found["version"] else None
        row = repository.find_policy_by_name(session, project_id, found["name"], version)
    return None if row is None else PolicyRead.model_validate(row)


def shipped_policies() -> list[PolicyRead]:
    """Return the policies that come with Seatrial, from the least demanding to the most."""
    return [_shipped(name) for name in presets.POLICIES]


@cache
def _shipped(name: str) -> PolicyRead:
    document = presets.get(name).model_dump(mode="json")
    return PolicyRead(
        id=name, name=name, version=presets.VERSION, digest=digest_of(document), document=document, created_at=None
    )


def choose_policy(session: Session, project_id: str, asked: str | Policy) -> Chosen:
    """Return the policy a request names or brings.

    Raises:
        UnknownPolicyError: There is none of that name; ``errors`` points at ``/policy``.
        ReservedNameError: The policy it brings has the name of a shipped one and asks for something else.
    """
    if isinstance(asked, Policy):
        document = asked.model_dump(mode="json")
        if asked.name in presets.RESERVED and document != _shipped(asked.name).document:
            # Whoever reads "passed, by strict" must not have to compare digests.
            raise _shipped_name("/policy/name")
        source = PolicySource(
            id=None, name=asked.name, version=None, digest=digest_of(document), description=asked.description
        )
        return Chosen(source, document, asked)
    read = find_policy(session, project_id, asked)
    if read is None:
        raise UnknownPolicyError(
            f"There is no policy {asked!r} in this project{instead(asked, presets.POLICIES, 'shipped are')}. Give the "
            "id of one, its name, name@version, or the policy itself.",
            pointer="/policy",
        )
    is_shipped = read.created_at is None
    source = PolicySource(
        id=None if is_shipped else read.id,
        name=read.name,
        version=None if is_shipped else read.version,
        digest=read.digest,
        description=str(read.document.get("description") or ""),
    )
    return Chosen(source, read.document)


def parsed(chosen: Chosen) -> Policy:
    """Return a chosen policy for judging.

    Raises:
        InvalidRequestError: It was stored by a version that knew other rules; ``errors`` points at ``/policy``.
    """
    try:
        return chosen.policy()
    except ValidationError as error:
        raise InvalidRequestError(broken(chosen, error), pointer="/policy") from error


def broken(chosen: Chosen, error: ValidationError) -> str:
    """Return why a stored policy cannot be judged by any more."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"/{step}" for step in first["loc"])
    return f"Policy {chosen.source.name} does not fit this version of Seatrial: {place}: {first['msg']}"


def check_name(name: str, prefix: str, *, pointer: str = "/name") -> None:
    """Refuse a name that reads as an id.

    Raises:
        ReservedNameError: It begins with ``prefix``.
    """
    if name.startswith(f"{prefix}_"):
        raise ReservedNameError(f"Names beginning with {prefix}_ are ids: choose another.", pointer=pointer)


def _shipped_name(pointer: str) -> ReservedNameError:
    return ReservedNameError(
        f"{', '.join(presets.POLICIES)} are shipped with Seatrial: choose another name.",
        pointer=pointer,
    )


def store_policy(
    services: Services, project_id: str, policy: Policy, author: Author, *, may_replace: bool
) -> tuple[PolicyRead, bool]:
    """Store a policy as the next version of its name, and return it and whether it is new.

    The document of the newest version again is that version. An older one's again is a new version: whoever asks for
    the name gets what was stored last.

    Args:
        services: What stores it.
        project_id: Whose it is.
        policy: The document.
        author: Who asks.
        may_replace: Whether another version of a name that there is may be stored: it decides for all who ask by name.

    Raises:
        ForbiddenError: There is another version, and it may not be replaced.
        ReservedNameError: The name belongs to a shipped policy, or reads as an id.
    """
    check_name(policy.name, "pol")
    if policy.name in presets.RESERVED:
        raise _shipped_name("/name")
    document = policy.model_dump(mode="json")
    digest = digest_of(document)
    with services.database.write() as session:
        # Two at once would take the same version.
        repository.lock_project(session, project_id)
        newest = repository.find_policy_by_name(session, project_id, policy.name, None)
        if newest is not None and newest.digest == digest:
            return PolicyRead.model_validate(newest), False
        if newest is not None and not may_replace:
            raise ForbiddenError(
                f"{policy.name} is stored already, in version {newest.version}, and pipelines that ask for it by name "
                "are judged by the newest: a further version takes a key with scope admin. With scope run, store it "
                "under another name, or give it with the audit.",
                pointer="/name",
            )
        row = PolicyRow(
            id=new_id("pol"),
            project_id=project_id,
            name=policy.name,
            version=1 if newest is None else newest.version + 1,
            document=document,
            digest=digest,
        )
        session.add(row)
        session.flush()
        told = {"policy": row.id, "digest": digest}
        record_activity(session, project_id, author, "policy.stored", f"{row.name}@{row.version}", **told)
        return PolicyRead.model_validate(row), True
