"""Route of reports."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from app.access.principal import Reader
from app.reports.html import content_security_policy, render_html
from app.reports.negotiation import choose_format
from app.reports.schemas import ReportRead
from app.reports.service import compose_report
from app.web.problems import raises
from app.web.services import Service

router = APIRouter(prefix="/v1/audits", tags=["reports"], responses=raises(401, 403))

AuditId = Annotated[str, Path(max_length=100, description="Id of the audit.", examples=["aud_..."])]
Format = Annotated[
    str | None,
    Query(max_length=100, description="`html` or `json`; goes before the Accept header.", examples=["html"]),
]


@router.get(
    "/{audit_id}/report",
    response_model=ReportRead,
    responses={
        200: {
            "description": "The report, as asked for. A partial one says so.",
            "content": {"text/html": {"schema": {"type": "string"}}},
        },
        **raises(404, 406, 422),
    },
    summary="Read the report of an audit",
)
def read_report(
    audit_id: AuditId,
    principal: Reader,
    services: Service,
    format: Format = None,
    accept: Annotated[
        list[str] | None, Header(description="`text/html` (default) or `application/json`, with quality values.")
    ] = None,
) -> Response:
    """Return what an audit found: a page to read or print (one file, no scripts), or the same as JSON."""
    kind = choose_format(",".join(accept) if accept else None, format)
    with services.database.read() as session:
        report = compose_report(session, services.store, principal.project_id, audit_id)
    headers = {"Vary": "Accept", "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    if kind == "json":
        return JSONResponse(report.model_dump(mode="json"), headers=headers)
    return HTMLResponse(
        render_html(report),
        headers={
            **headers,
            "Content-Security-Policy": content_security_policy() + "; frame-ancestors 'none'; sandbox",
            "Content-Disposition": f'inline; filename="seatrial-{report.audit}.html"',
            "Referrer-Policy": "no-referrer",
        },
    )
