"""Routes of plans."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.responses import JSONResponse

from app.access.principal import Reader, Runner
from app.audits.schemas import AUDIT_EXAMPLES
from app.hardenings.routes import EXAMPLES as HARDENING_EXAMPLES
from app.plans import repository, service
from app.plans.submitting import estimate, look_up
from app.web.bodies import accepts, json_body
from app.web.idempotency import IdempotencyKey
from app.web.identifiers import ID
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.plans import HARDENED, PlanCreate, PlanEstimate, PlanRead, PlanSummary

router = APIRouter(prefix="/v1/plans", tags=["plans"], responses=raises(401, 403))

PlanId = Annotated[
    str, Path(pattern=ID, description="Id of the plan.", examples=["pln_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
]
_HARDENING: dict[str, Any] = next(iter(HARDENING_EXAMPLES.values()))
PLAN_EXAMPLES: dict[str, Any] = {
    "Audit and judge": {
        "steps": [
            {"kind": "audit", "audit": next(iter(AUDIT_EXAMPLES.values()))},
            {"kind": "judge", "policy": "standard"},
        ]
    },
    "Harden, audit what came of it, and judge": {
        "steps": [
            {"kind": "harden", "hardening": _HARDENING},
            {
                "kind": "audit",
                "audit": {
                    "model": HARDENED,
                    "dataset": _HARDENING["audit"]["dataset"],
                    "checks": _HARDENING["audit"]["checks"],
                    "samples": 2000,
                    "seed": 1,
                },
            },
            {"kind": "judge", "policy": "standard"},
        ]
    },
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
    """Queue jobs that follow each other: a hardening, an audit, a verdict, its attestation, a message to a webhook.

    Each begins when the one before it has succeeded. A step that fails ends the plan; a retry goes on from there. A
    verdict that is not `passed` is attested and told as well, and then ends the plan as `failed`: its state alone is
    never taken for a pass. After a `harden` step the audit is of the version that was made, and that is not passed
    unless the hardening's own verdict is, where it has a policy, and clean accuracy holds.
    """
    answer, is_replay = service.submit(services, principal.project_id, body, idempotency_key)
    return answer.response(replayed=is_replay)


@router.post(
    "/estimate",
    response_model=PlanEstimate,
    responses=raises(400, 409, 413, 415, 422),
    openapi_extra=accepts(PlanCreate, examples=PLAN_EXAMPLES),
    summary="Estimate a plan",
)
def estimate_plan(
    principal: Reader, body: Annotated[PlanCreate, Depends(json_body(PlanCreate))], services: Service
) -> PlanEstimate:
    """Estimate what a plan costs, without queueing it; what it is refused for, it is refused for here too.

    Quotas refuse no plan but its jobs, when their turn comes: `refused` of a step's `audit` or `hardening` says what
    would refuse it now.
    """
    with services.database.read() as session:
        found = look_up(session, services, principal.project_id, body)
        return estimate(session, principal.project_id, found)


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
    """End a plan, and the hardening or the audit it waits for."""
    return JSONResponse(service.cancel(services, principal.project_id, plan_id), status_code=202)


@router.post(
    "/{plan_id}/retry",
    status_code=202,
    response_model=PlanRead,
    responses=raises(404, 409, 422),
    summary="Retry the step that failed",
)
def retry_plan(plan_id: PlanId, principal: Runner, services: Service) -> Response:
    """Continue from the step that failed; what succeeded is not done again.

    Of an audit its failed shards run again, of a hardening the training or the audits, as its own retry does.
    """
    return JSONResponse(service.retry(services, principal.project_id, plan_id), status_code=202)
