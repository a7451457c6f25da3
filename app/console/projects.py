"""Pages of projects: what one may use and uses, how long it keeps things, who did what; for the operator, of any."""

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.access.principal import author_of
from app.access.repository import list_keys
from app.console.forms import Form, flat
from app.console.pages import page
from app.console.paging import paged
from app.console.viewer import Admin, ConsoleRoute, Posted, Reader, Viewer
from app.projects import repository, service
from app.projects.routes import ProjectName
from app.web.bodies import parse_json
from app.web.pagination import decode_cursor
from app.web.problems import NotFoundError, ProblemError
from app.web.quotas import Quotas as QuotaCounts
from app.web.quotas import count_unfinished
from app.web.services import Service, Services
from seatrial.contracts.projects import ProjectChange, ProjectRead, Quotas, Retention

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

SHOWN_ACTIVITY = 50
SHOWN_KEYS = 100
PER_PAGE = 50


@router.get("/project")
def show_own_project(request: Request, viewer: Reader, services: Service, done: str = "") -> Response:
    """Show the viewer's project over a form that changes it."""
    return _show(request, viewer, services, viewer.project, None, is_stored=bool(done))


@router.get("/projects")
def list_projects(request: Request, viewer: Reader, services: Service, cursor: str = "") -> Response:
    """List the projects there are, newest first, for the operator; for others, theirs."""
    before = decode_cursor(cursor, "prj") if cursor else None
    own = None if viewer.principal.is_operator else viewer.project_id
    with services.database.read() as session:
        rows = repository.list_projects(session, own, before=before, limit=PER_PAGE + 1)
        ids = [row.id for row in rows]
        unfinished = {one: counted.total for one, counted in count_unfinished(session, ids).items()}
        quotas = {one: of.model_dump(exclude_none=True) for one, of in repository.find_quotas(session, ids).items()}
    return page(
        request,
        "projects.html",
        title="Projects",
        unfinished=unfinished,
        quotas=quotas,
        **paged(rows, "/projects", per_page=PER_PAGE, is_first=not cursor),
    )


@router.get("/projects/{name}")
def show_project(request: Request, name: ProjectName, viewer: Reader, services: Service, done: str = "") -> Response:
    """Show a project the viewer may see; of the operator, any."""
    return _show(request, viewer, services, name, None, is_stored=bool(done))


@router.post("/project")
def change_own_project(request: Request, viewer: Admin, services: Service, posted: Posted) -> Response:
    """Change the viewer's project, or show beside each field what is wrong with it."""
    return _change(request, viewer, services, viewer.project, posted, "/project")


@router.post("/projects/{name}")
def change_project(request: Request, name: ProjectName, viewer: Admin, services: Service, posted: Posted) -> Response:
    """Change a project the viewer may see; of the operator, any."""
    return _change(request, viewer, services, name, posted, f"/projects/{name}")


def _change(
    request: Request, viewer: Viewer, services: Services, name: str, posted: dict[str, list[str]], shown_at: str
) -> Response:
    form = Form(flat(posted))
    body: dict[str, Any] = {"retention": {kind: _number(form.said(kind)) for kind in Retention.model_fields}}
    if viewer.principal.is_operator:
        body |= {"quotas": {limit: _number(form.said(limit)) for limit in Quotas.model_fields}}
        body |= {name: _number(form.said(name)) for name in ("weight", "priority")}
    try:
        change = parse_json(json.dumps(body), ProjectChange)
        service.check_may_change(viewer.principal, change)
        with services.database.write() as session:
            row = service.get_project(session, viewer.principal, name)
            service.change_project(session, row, change, author_of(viewer.principal, request))
            project_id = row.id
    except NotFoundError:
        raise
    except ProblemError as error:
        form.refuse_all(error, lambda pointer: pointer.rpartition("/")[2])
        return _show(request, viewer, services, name, form, status=error.status)
    services.of(QuotaCounts).forget(project_id)
    return RedirectResponse(f"{shown_at}?done=stored", status_code=303)


def _number(text: str) -> float | int | str | None:
    """Return a field as JSON has it; what is no number stays a text, which the contract refuses."""
    text = text.strip().replace(",", "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _values(project: ProjectRead) -> dict[str, str]:
    said = {**project.retention.model_dump(), **project.quotas.model_dump()}
    said |= {"weight": project.weight, "priority": project.priority}
    return {name: "" if value is None else f"{value:.15g}" for name, value in said.items()}


def _show(
    request: Request,
    viewer: Viewer,
    services: Services,
    name: str,
    form: Form | None,
    *,
    is_stored: bool = False,
    status: int = 200,
) -> Response:
    with services.database.read() as session:
        row = service.get_project(session, viewer.principal, name)
        project = service.read_project(session, row)
        is_admin = viewer.principal.may("admin")
        rows = repository.list_activity(
            session, row.id, action=None, subject=None, before=None, limit=SHOWN_ACTIVITY if is_admin else 0
        )
        activity = list(rows)
        keys = [key for key, _ in list_keys(session, row.id, before=None, limit=SHOWN_KEYS)] if is_admin else []
    return page(
        request,
        "project.html",
        title=f"Project {project.name}",
        status=status,
        form=form or Form(_values(project)),
        project=project,
        is_own=project.id == viewer.project_id,
        activity=activity,
        keys=keys,
        is_admin=is_admin,
        is_operator=viewer.principal.is_operator,
        is_stored=is_stored,
    )
