"""Routes of audits."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.responses import JSONResponse

from app.access.authenticator import Authenticator
from app.access.principal import Reader, Runner
from app.audits import repository, service
from app.audits.events import EVENT_SCHEMA
from app.audits.reading import read_audit, render_summary
from app.audits.records import (
    CSV,
    JSONL,
    MAX_ROWS,
    PARQUET,
    RecordsFormat,
    Rows,
    choose_format,
    find_records,
    pick_check,
    records_response,
)
from app.audits.schemas import AUDIT_EXAMPLES
from app.audits.streams import EventStream, EventStreams, Follower
from app.audits.submitting import estimate, plan, why_not
from app.web.bodies import accepts, json_body
from app.web.files import StoredFile
from app.web.heads import Stream
from app.web.idempotency import IdempotencyKey
from app.web.identifiers import FILE, AuditId, CheckName, FigureName, OfModel
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.periodic import Hurry
from app.web.problems import NotFoundError, raises
from app.web.services import Service
from seatrial.contracts.audits import AuditCreate, AuditEstimate, AuditRead, AuditSummary
from seatrial.contracts.policies import Verdict
from seatrial.contracts.states import TERMINAL, RunState

router = APIRouter(prefix="/v1/audits", tags=["audits"], responses=raises(401, 403))

# Stands after the principal in every signature: a stranger's body is not read.
Submitted = Annotated[AuditCreate, Depends(json_body(AuditCreate))]
SeqNumber = Annotated[
    int | None, Query(ge=0, description="Only events after this sequence number; goes before Last-Event-ID.")
]
LastEventId = Annotated[
    int | None, Header(ge=0, description="`id` of the last event seen, a whole number from 0: continue after it.")
]


@router.post(
    "",
    status_code=202,
    response_model=AuditRead,
    responses=raises(400, 409, 413, 415, 422, 429),
    openapi_extra=accepts(AuditCreate, examples=AUDIT_EXAMPLES),
    summary="Submit an audit",
)
def submit_audit(
    principal: Runner, body: Submitted, services: Service, idempotency_key: IdempotencyKey = None
) -> Response:
    """Queue an audit of a model on a dataset; read it at `Location`.

    It may be submitted while the model is still `checking`: it starts when the model is ready, and fails with the
    model's problem if it is rejected. With an `Idempotency-Key` the same request twice is one audit.

    With a `policy` it is judged when it ends, by that policy as it is now: `verdict` and `judgement` come right after
    the end, for a failed or cancelled audit too.
    """
    answer, is_replay = service.submit(services, principal.project_id, body, idempotency_key)
    return answer.response(replayed=is_replay)


@router.get("", response_model=Page[AuditSummary], responses=raises(422), summary="List audits")
def list_audits(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("aud"))],
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    model: OfModel = None,
    verdict: Annotated[Verdict | None, Query(description="Only with this verdict.")] = None,
) -> Response:
    """List audits, newest first."""
    with services.database.read() as session:
        rows = repository.list_audits(
            session,
            principal.project_id,
            state=state,
            model=model,
            verdict=verdict,
            before=page.before,
            limit=page.fetch,
        )
        return page_response(request, page, rows, render_summary)


@router.post(
    "/estimate",
    response_model=AuditEstimate,
    responses=raises(400, 413, 415, 422),
    openapi_extra=accepts(AuditCreate, examples=AUDIT_EXAMPLES),
    summary="Estimate an audit",
)
def estimate_audit(principal: Reader, body: Submitted, services: Service) -> AuditEstimate:
    """Tell what an audit would cost, without queueing it: passes and queries at most, and a range of seconds.

    Seconds are null until the model is checked. `refused` says why it would be refused now, as beyond a quota.
    """
    with services.database.read() as session:
        planned = plan(session, principal.project_id, body, services.settings)
        return estimate(planned, refused=why_not(session, principal.project_id, planned))


@router.get(
    "/{audit_id}", name="read_audit", response_model=AuditRead, responses=raises(404, 422), summary="Read an audit"
)
def read_one_audit(audit_id: AuditId, principal: Reader, services: Service) -> Response:
    """Read an audit: state, progress and remaining seconds of each check, results, errors, and the verdict.

    An audit with a policy is over for good when it has ended and its `verdict` is not null.
    """
    with services.database.read() as session:
        lease_s = services.settings.lease_s
        found = read_audit(session, principal.project_id, audit_id, lease_s=lease_s)
    if found["state"] in TERMINAL and found["verdict"] is None and found["spec"].get("policy") is not None:
        # Whoever reads it waits for that; by itself it comes within half a second.
        services.of(Hurry).ask()
    return JSONResponse(found)


@router.post(
    "/{audit_id}/cancel",
    status_code=202,
    response_model=AuditRead,
    responses=raises(404, 409, 422),
    summary="Cancel an audit",
)
def cancel_audit(audit_id: AuditId, principal: Runner, services: Service) -> Response:
    """Ask an audit to stop: what waits is cancelled now, what runs stops at its next batch; records stay readable."""
    return JSONResponse(service.cancel(services, principal.project_id, audit_id), status_code=202)


@router.post(
    "/{audit_id}/retry",
    status_code=202,
    response_model=AuditRead,
    responses=raises(404, 409, 422),
    summary="Retry what failed",
)
def retry_audit(audit_id: AuditId, principal: Runner, services: Service) -> Response:
    """Run the failed shards of a failed audit again; those that succeeded keep their records."""
    return JSONResponse(service.retry(services, principal.project_id, audit_id), status_code=202)


@router.get(
    "/{audit_id}/events",
    response_class=Stream,
    responses={
        200: {"content": {"text/event-stream": {"itemSchema": EVENT_SCHEMA}}, "description": "Events as they happen."},
        **raises(404, 422, 429),
    },
    summary="Follow an audit",
)
async def follow_audit(
    audit_id: AuditId,
    principal: Reader,
    services: Service,
    last_event_id: LastEventId = None,
    after: SeqNumber = None,
) -> Response:
    """Stream what happens (server-sent events): `id` is a sequence number, `event` is the kind of what happened.

    The stream ends when the audit has; where the audit has a policy, after its verdict. Send the last `id` as
    `Last-Event-ID` (or `?after=`) to continue where it broke; beyond the newest event, what comes next is streamed and
    nothing is repeated. It ends early when the key is revoked. A stream more than may be open per key and project is
    a 429.
    """
    since = after if after is not None else last_event_id or 0
    follower = Follower(
        principal.project_id, principal.key_digest, lambda: services.of(Authenticator).is_known(principal)
    )
    return EventStream(services.of(EventStreams), services.database, follower, audit_id, since)


@router.get(
    "/{audit_id}/records/{check}",
    response_class=Response,
    responses={
        200: {
            "description": "One row per example, in the order of the stage's source; never depends on how the stage "
            "was cut. `Seatrial-Complete: false` means the stage still runs and these are its finished shards. In "
            "JSON lines a number that is not finite is null, and bytes, as those of a perturbed image, are base64. In "
            "CSV lists are JSON, and an apostrophe stands before a text that a spreadsheet would run as a formula. "
            "`Seatrial-Reused-From` names the audit that measured them, where it is an earlier one. "
            "With `limit` a page of rows; `Seatrial-Next-Offset` says where the next begins, and is left out of the "
            "last.",
            "content": {
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
                JSONL: {"schema": {"type": "string"}},
                CSV: {"schema": {"type": "string"}},
            },
        },
        **raises(404, 406, 410, 422, 429),
    },
    summary="Read per-example records",
)
async def read_audit_records(
    request: Request,
    audit_id: AuditId,
    check: CheckName,
    principal: Reader,
    services: Service,
    stage: Annotated[
        str | None,
        Query(
            pattern=FILE,
            description="Which stage; by default the first whose name begins with `attack`, of those begun, else the "
            "first after the preflight. `Seatrial-Stage` tells which it was.",
        ),
    ] = None,
    format: Annotated[RecordsFormat | None, Query(description="Wins over the Accept header.")] = None,
    offset: Annotated[int, Query(ge=0, le=2**40, description="Rows to leave out at the beginning.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=MAX_ROWS, description="Rows at most; by default all.")] = None,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Read the table behind a check's numbers: everything published can be recomputed from it."""
    wanted = choose_format(format, accept)

    def answer() -> Response:
        records = find_records(services, principal.project_id, audit_id, check, stage)
        return records_response(services, records, wanted, f"{audit_id}-{check}", Rows(offset, limit))

    return await services.computations.run(request, principal.project_id, answer)


@router.get(
    "/{audit_id}/figures/{check}/{name}",
    status_code=200,
    response_class=StoredFile,
    responses={200: {"content": {"image/svg+xml": {}}}, **raises(404, 410, 416, 422)},
    summary="Read a figure",
)
def read_figure(
    audit_id: AuditId,
    check: CheckName,
    name: FigureName,
    principal: Reader,
    services: Service,
) -> Response:
    """Read a figure as SVG."""
    with services.database.read() as session:
        chosen = pick_check(session, principal.project_id, audit_id, check)
    digest = (chosen.figures or {}).get(name.removesuffix(".svg"))
    if digest is None:
        raise NotFoundError(f"Check {chosen.id} has no figure {name}.")
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return StoredFile(
        services.store, digest, media_type="image/svg+xml", filename=f"{name.removesuffix('.svg')}.svg", **policy
    )
