"""Routes of projects and of the audit log."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.principal import Admin, Reader, author_of
from app.projects import repository, service
from app.web.bodies import accepts, json_body
from app.web.identifiers import VERSIONED_NAME
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.quotas import Quotas
from app.web.services import Service
from seatrial.contracts.projects import ActivityRead, ProjectChange, ProjectRead, ProjectSummary
from seatrial.store.tables import ActivityRow

router = APIRouter(prefix="/v1", tags=["projects"], responses=raises(401, 403))

ProjectName = Annotated[str, Path(pattern=VERSIONED_NAME, description="Name of the project.", examples=["vision"])]
CHANGE_EXAMPLES: dict[str, Any] = {
    "Twice the share of the others": {"weight": 2},
    "Twenty audits at a time, an hour of workers each, 100 GB": {
        "quotas": {"unfinished_audits": 20, "audit_s": 3600, "stored_bytes": 100_000_000_000}
    },
    "Keep audits for 90 days, and datasets for ever": {"retention": {"audits": 90, "datasets": None}},
}


@router.get("/projects", response_model=Page[ProjectSummary], responses=raises(422), summary="List projects")
def list_projects(
    request: Request, principal: Reader, services: Service, page: Annotated[PageRequest, Depends(page_request("prj"))]
) -> Response:
    """List one's own project; for the operator, all of them, newest first."""
    own = None if principal.is_operator else principal.project_id
    with services.database.read() as session:
        rows = repository.list_projects(session, own, before=page.before, limit=page.fetch)
        return page_response(request, page, rows, service.render_summary)


@router.get("/projects/{name}", response_model=ProjectRead, responses=raises(404, 422), summary="Read a project")
def read_project(name: ProjectName, principal: Reader, services: Service) -> ProjectRead:
    """Read a project: its share of the workers, how long it keeps things, and what it takes of the disk."""
    with services.database.read() as session:
        return service.read_project(session, service.get_project(session, principal, name))


@router.patch(
    "/projects/{name}",
    response_model=ProjectRead,
    responses=raises(400, 404, 413, 415, 422),
    openapi_extra=accepts(ProjectChange, examples=CHANGE_EXAMPLES),
    summary="Change a project",
)
def change_project(
    request: Request,
    name: ProjectName,
    principal: Admin,
    body: Annotated[ProjectChange, Depends(json_body(ProjectChange))],
    services: Service,
) -> ProjectRead:
    """Change what is named, and leave the rest. How long things are kept is for the project's admins to say.

    What it takes from others, `weight`, `priority` and `quotas`, is for the operator. What is past its days is deleted
    within minutes, with a tombstone each.
    """
    service.check_may_change(principal, body)
    with services.database.write() as session:
        row = service.get_project(session, principal, name)
        service.change_project(session, row, body, author_of(principal, request))
        told = service.read_project(session, row)
    services.of(Quotas).forget(told.id)
    return told


@router.get("/activity", response_model=Page[ActivityRead], responses=raises(404, 422), summary="Read the audit log")
def list_activity(
    request: Request,
    principal: Admin,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("act"))],
    action: Annotated[
        str | None, Query(pattern=r"^[a-z.-]{1,50}$", description="Only this action.", examples=["audit.deleted"])
    ] = None,
    subject: Annotated[
        str | None, Query(pattern=r"^[A-Za-z0-9._@-]{1,100}$", description="Only what was done to this.")
    ] = None,
    project: Annotated[
        str | None,
        Query(pattern=VERSIONED_NAME, description="Of this project; the operator may name others than the key's."),
    ] = None,
) -> Response:
    """List who did what in the project, newest first. Entries are never changed or deleted.

    The operator may name any project.
    """
    with services.database.read() as session:
        of = principal.project_id if project is None else service.get_project(session, principal, project).id
        rows = repository.list_activity(
            session, of, action=action, subject=subject, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, _render)


def _render(row: ActivityRow) -> dict[str, Any]:
    return ActivityRead.model_validate(row).model_dump(mode="json")
