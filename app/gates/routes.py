"""Routes that judge an audit."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from app.access.principal import Reader, Runner
from app.audits.repository import exists
from app.deletions.service import missing
from app.gates import repository, service
from app.gates.schemas import JUDGEMENT_EXAMPLES
from app.web.bodies import accepts, json_body
from app.web.identifiers import AuditId
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.policies import Judgement, JudgementRequest
from seatrial.store.tables import JudgementRow

router = APIRouter(prefix="/v1", responses=raises(401, 403))


@router.post(
    "/audits/{audit_id}/judge",
    response_model=Judgement,
    responses=raises(400, 404, 409, 413, 415, 422, 429),
    openapi_extra=accepts(JudgementRequest, examples=JUDGEMENT_EXAMPLES),
    summary="Judge an audit",
    tags=["audits"],
)
async def judge_audit(
    request: Request,
    audit_id: AuditId,
    principal: Runner,
    body: Annotated[JudgementRequest, Depends(json_body(JudgementRequest))],
    services: Service,
) -> Judgement:
    """Judge an audit that has ended, by any policy and against any baseline: nothing is run again.

    A failed or cancelled audit can be judged too: what did not run is `errored` and never passes. The judgement is
    stored; the audit's own verdict, of the policy it was submitted with, stays as it is.
    """
    project_id = principal.project_id
    judged = await services.computations.run(
        request, project_id, lambda: service.judge_audit(services, project_id, audit_id, body)
    )
    return judged.judgement


@router.get(
    "/audits/{audit_id}/judgements",
    response_model=Page[Judgement],
    responses=raises(404, 422),
    summary="List an audit's judgements",
    tags=["audits"],
)
def list_judgements(
    request: Request,
    audit_id: AuditId,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("jdg"))],
) -> Response:
    """List what policies made of an audit, its own and those it was judged by later, newest first."""
    with services.database.read() as session:
        if not exists(session, principal.project_id, audit_id):
            raise missing(session, principal.project_id, audit_id, "audit")
        rows = repository.list_judgements(session, audit_id, before=page.before, limit=page.fetch)
        return page_response(request, page, rows, _render_judgement)


def _render_judgement(row: JudgementRow) -> dict[str, Any]:
    return row.judgement
