"""Routes of hardenings."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from app.access.authenticator import Authenticator
from app.access.principal import Reader, Runner
from app.audits.events import event_schema
from app.audits.routes import LastEventId, SeqNumber
from app.audits.schemas import AUDIT_EXAMPLES
from app.audits.streams import EventStream, EventStreams, Follower
from app.hardenings import repository, service
from app.hardenings.report import ReportFormat, compose, render
from app.hardenings.submitting import estimate, look_up, why_not
from app.reports.routes import report_page
from app.web.bodies import accepts, json_body
from app.web.heads import Stream
from app.web.idempotency import IdempotencyKey
from app.web.identifiers import HardeningId, OfModel
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.hardenings import (
    HardeningCreate,
    HardeningEstimate,
    HardeningEventKind,
    HardeningRead,
    HardeningReportRead,
    HardeningSummary,
)
from seatrial.contracts.states import RunState

router = APIRouter(prefix="/v1/hardenings", tags=["hardenings"], responses=raises(401, 403))

Submitted = Annotated[HardeningCreate, Depends(json_body(HardeningCreate))]
EXAMPLES: dict[str, Any] = {
    "Train on attacked images and audit both versions": {
        "model": "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11",
        "dataset": "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c13",
        "method": "adversarial",
        "params": {"epochs": 10, "epsilon": 0.1, "steps": 7},
        "audit": {
            "dataset": "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12",
            "checks": next(iter(AUDIT_EXAMPLES.values()))["checks"],
            "policy": "standard",
        },
    }
}
_TEXTS = ("text/html", "text/markdown")
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"itemSchema": event_schema("HardeningEventRead", HardeningEventKind)}},
        "description": "Events as they happen.",
    }
}


@router.post(
    "",
    status_code=202,
    response_model=HardeningRead,
    responses=raises(400, 409, 413, 415, 422, 429),
    openapi_extra=accepts(HardeningCreate, examples=EXAMPLES),
    summary="Submit a hardening",
)
def submit_hardening(
    principal: Runner, body: Submitted, services: Service, idempotency_key: IdempotencyKey = None
) -> Response:
    """Queue a hardening: train a model, store the next version of it, audit both versions and compare them in pairs.

    A worker that dies costs the steps since its last save; the weights are the same to the bit. Nothing of the audited
    dataset may be in what is trained or judged on, by content. Nothing is promoted unless the verdict is `passed` and
    clean accuracy holds.
    A training counts in the project's quotas as an audit does, and each of its audits again when that is submitted; one
    that a quota refuses for now is put off, and `error` says what it waits for.
    """
    answer, is_replay = service.submit(services, principal.project_id, body, idempotency_key)
    return answer.response(replayed=is_replay)


@router.post(
    "/estimate",
    response_model=HardeningEstimate,
    responses=raises(400, 409, 413, 415, 422),
    openapi_extra=accepts(HardeningCreate, examples=EXAMPLES),
    summary="Estimate a hardening",
)
def estimate_hardening(principal: Reader, body: Submitted, services: Service) -> HardeningEstimate:
    """Estimate what a hardening costs, without queueing it: passes at most, seconds, memory."""
    with services.database.read() as session:
        wanted = look_up(session, principal.project_id, body, services.settings)
        return estimate(wanted, refused=why_not(session, principal.project_id, wanted))


@router.get("", response_model=Page[HardeningSummary], responses=raises(422), summary="List hardenings")
def list_hardenings(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("hrd"))],
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    model: OfModel = None,
) -> Response:
    """List hardenings, newest first, without their curves; those that made a model as well as those of it."""
    with services.database.read() as session:
        rows = repository.list_hardenings(
            session, principal.project_id, state=state, model=model, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, service.render_summary)


@router.get("/{hardening_id}", response_model=HardeningRead, responses=raises(404, 422), summary="Read a hardening")
def read_hardening(hardening_id: HardeningId, principal: Reader, services: Service) -> Response:
    """Read a hardening: its curves, the epoch that was kept, the pair of audits, the differences and the verdict."""
    with services.database.read() as session:
        return JSONResponse(service.read_hardening(session, principal.project_id, hardening_id))


@router.get(
    "/{hardening_id}/report",
    response_model=HardeningReportRead,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in _TEXTS}, "description": "The report."},
        **raises(404, 409, 422),
    },
    summary="Read the report of a hardening",
)
def read_hardening_report(
    hardening_id: HardeningId,
    principal: Reader,
    services: Service,
    format: Annotated[ReportFormat, Query(description="A page without scripts, JSON, or Markdown.")] = "html",
) -> Response:
    """Return both versions side by side, their paired differences, doubts and the verdict, once they were compared."""
    with services.database.read() as session:
        told = render(compose(session, principal.project_id, hardening_id), format)
    headers = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    if format != "html":
        media_type = "application/json" if format == "json" else "text/markdown; charset=utf-8"
        return Response(told, media_type=media_type, headers=headers)
    return report_page(told, {**headers, "Content-Disposition": f'inline; filename="seatrial-{hardening_id}.html"'})


@router.post(
    "/{hardening_id}/cancel",
    status_code=202,
    response_model=HardeningRead,
    responses=raises(404, 409, 422),
    summary="Cancel a hardening",
)
def cancel_hardening(hardening_id: HardeningId, principal: Runner, services: Service) -> Response:
    """Ask a hardening to stop: a training ends within a second of a step; its audits are cancelled with it."""
    return JSONResponse(service.cancel(services, principal.project_id, hardening_id), status_code=202)


@router.post(
    "/{hardening_id}/retry",
    status_code=202,
    response_model=HardeningRead,
    responses=raises(404, 409, 422),
    summary="Retry a hardening",
)
def retry_hardening(hardening_id: HardeningId, principal: Runner, services: Service) -> Response:
    """Retry what failed: the training from its beginning, or the audits that failed; no training is repeated."""
    return JSONResponse(service.retry(services, principal.project_id, hardening_id), status_code=202)


@router.get(
    "/{hardening_id}/events",
    response_class=Stream,
    responses={**EVENTS, **raises(404, 422, 429)},
    summary="Follow a hardening",
)
async def follow_hardening(
    hardening_id: HardeningId,
    principal: Reader,
    services: Service,
    last_event_id: LastEventId = None,
    after: SeqNumber = None,
) -> Response:
    """Stream what happens (server-sent events), as `/v1/audits/{audit_id}/events` does; it ends with the hardening."""
    since = after if after is not None else last_event_id or 0
    follower = Follower(
        principal.project_id, principal.key_digest, lambda: services.of(Authenticator).is_known(principal)
    )
    streams = services.of(EventStreams)
    return EventStream(streams, services.database, follower, hardening_id, since, read=service.read_events)
