"""Pages of policies: those that ship, those of the project, one of them in words, and a form that stores one."""

from typing import Any

import yaml
from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.responses import RedirectResponse

from app.access.principal import author_of
from app.console.forms import Form, flat
from app.console.pages import page
from app.console.paging import paged
from app.console.viewer import ConsoleRoute, Posted, Reader, Runner, Viewer
from app.policies import repository
from app.policies.documents import YamlError, yaml_to_json
from app.policies.schemas import POLICY_EXAMPLES
from app.policies.service import find_policy, parse_policy, shipped_policies, store_policy
from app.web.identifiers import PolicyReference
from app.web.pagination import decode_cursor
from app.web.problems import MalformedBodyError, NotFoundError, ProblemError
from app.web.services import Service, Services
from seatrial.contracts.policies import Policy, PolicyRead, Rule
from seatrial.judging.wording import requirement

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 50
STARTING = yaml.safe_dump(next(iter(POLICY_EXAMPLES.values())), sort_keys=False)
"""What stands in the form at first."""


@router.get("/policies")
def list_policies(request: Request, viewer: Reader, services: Service, cursor: str = "") -> Response:
    """List policies over a form to add one."""
    return _policies(request, viewer, services, Form({"document": STARTING}), cursor=cursor)


@router.post("/policies")
def add_policy(request: Request, viewer: Runner, services: Service, posted: Posted) -> Response:
    """Store a policy, or show what is wrong with it."""
    form = Form(flat(posted))
    try:
        policy, _ = store_policy(
            *(services, viewer.project_id, _parsed(form.said("document")), author_of(viewer.principal, request)),
            may_replace=viewer.principal.may("admin"),
        )
    except ProblemError as error:
        form.refuse_all(error, lambda _: "document")
        return _policies(request, viewer, services, form, status=error.status)
    return RedirectResponse(f"/policies/{policy.name}@{policy.version}", status_code=303)


def _parsed(text: str) -> Policy:
    # Every JSON text is YAML, and says where it is not.
    try:
        return parse_policy(yaml_to_json(text.encode()))
    except YamlError as error:
        raise MalformedBodyError(str(error), pointer="") from error


@router.get("/policies/{reference}")
def show_policy(
    request: Request,
    reference: PolicyReference,
    viewer: Reader,
    services: Service,
) -> Response:
    """Show a version of a policy, rule by rule."""
    with services.database.read() as session:
        policy = find_policy(session, viewer.project_id, reference)
        if policy is None:
            raise NotFoundError(f"There is no policy {reference} in this project.")
        versions = (
            list(repository.list_policies(session, viewer.project_id, name=policy.name, before=None, limit=PER_PAGE))
            if policy.created_at is not None
            else []
        )
    return page(
        request,
        "policy.html",
        title=f"Policy {policy.name}",
        policy=policy,
        document=policy.document,
        rules=_rules(policy),
        versions=versions,
    )


def _rules(policy: PolicyRead) -> list[tuple[dict[str, Any], str]]:
    """Return the rules with what they ask in words; without words those of a version that knew other rules."""
    rules: list[dict[str, Any]] = policy.document.get("rules", [])
    return [(rule, _asked(rule)) for rule in rules]


def _asked(rule: dict[str, Any]) -> str:
    try:
        return requirement(Rule.model_validate(rule))
    except ValidationError:
        return "not known to this version"


def _policies(
    request: Request, viewer: Viewer, services: Services, form: Form, *, cursor: str = "", status: int = 200
) -> Response:
    before = decode_cursor(cursor, "pol") if cursor else None
    with services.database.read() as session:
        rows = list(repository.list_policies(session, viewer.project_id, name=None, before=before, limit=PER_PAGE + 1))
    return page(
        request,
        "policies.html",
        title="Policies",
        status=status,
        form=form,
        shipped=shipped_policies(),
        **paged(rows, "/policies", per_page=PER_PAGE, is_first=not cursor),
    )
