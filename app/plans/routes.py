"""Routes of plans."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.responses import JSONResponse

from app.access.principal import Reader, Runner
from app.audits.schemas import AUDIT_EXAMPLES
from app.plans import repository, service
from app.web.bodies import accepts, json_body
from app.web.idempotency import IdempotencyKey
from app.web.identifiers import ID
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.plans import PlanCreate, PlanRead, PlanSummary

router = APIRouter(prefix="/v1/plans", tags=["plans"], responses=raises(401, 403))

PlanId = Annotated[str, Path(pattern=ID, description="Id of the plan.", examples=["pln_..."])]
PLAN_EXAMPLES: dict[str, Any] = {
    "Audit and judge": {
        "steps": [
            {"kind": "audit", "audit": next(iter(AUDIT_EXAMPLES.values()))},
            {"kind": "judge", "policy": "standard"},
        ]
    }
}


@router.post(
    "",
    status_code=202,
    response_model=PlanRead,
    responses=raises(400, 409, 413, 415, 422),
    openapi_extra=accepts(PlanCreate, examples=PLAN_EXAMPLES),
    summary="Submit a plan",
)
def submit_plan(
    principal: Runner,
    body: Annotated[PlanCreate, Depends(json_body(PlanCreate))],
    services: Service,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Queue jobs that follow each other: an audit, a verdict on it, its attestation, a message to a webhook.

    Each begins when the one before it has succeeded. A step that fails ends the plan; a retry goes on from there. A
    verdict that is not `passed` is attested and told as well, and then ends the plan as `failed`: its state alone is
    never taken for a pass.
    """
    answer, is_replay = service.submit(services, principal.project_id, body, idempotency_key)
    return answer.response(replayed=is_replay)


@router.get("", response_model=Page[PlanSummary], responses=raises(422), summary="List plans")
def list_plans(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("pln"))],
) -> Response:
    """List plans, newest first, without their steps."""
    with services.database.read() as session:
        rows = repository.list_plans(session, principal.project_id, before=page.before, limit=page.fetch)
        return page_response(request, page, rows, service.render_summary)


@router.get("/{plan_id}", response_model=PlanRead, responses=raises(404, 422), summary="Read a plan")
def read_plan(plan_id: PlanId, principal: Reader, services: Service) -> Response:
    """Read a plan: the state of each step, the job it began, and what came of it."""
    with services.database.read() as session:
        return JSONResponse(service.read_plan(session, principal.project_id, plan_id))


@router.post(
    "/{plan_id}/cancel",
    status_code=202,
    response_model=PlanRead,
    responses=raises(404, 409, 422),
    summary="Cancel a plan",
)
def cancel_plan(plan_id: PlanId, principal: Runner, services: Service) -> Response:
    """End a plan, and the audit it waits for."""
    return JSONResponse(service.cancel(services, principal.project_id, plan_id), status_code=202)


@router.post(
    "/{plan_id}/retry",
    status_code=202,
    response_model=PlanRead,
    responses=raises(404, 409, 422),
    summary="Retry the step that failed",
)
def retry_plan(plan_id: PlanId, principal: Runner, services: Service) -> Response:
    """Continue from the step that failed: of an audit its failed shards run again; what succeeded is not done again."""
    return JSONResponse(service.retry(services, principal.project_id, plan_id), status_code=202)
