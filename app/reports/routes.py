"""Routes of reports."""

from collections.abc import Callable, Iterator
from typing import IO, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from app.access.principal import Reader
from app.reports.annex_markdown import render_annex_markdown
from app.reports.bundle import build_bundle, bundle_name, get_ended
from app.reports.exported import check_ended
from app.reports.html import content_security_policy, render_annex, render_html
from app.reports.junit import render_junit
from app.reports.markdown import render_markdown
from app.reports.ml_bom import render_ml_bom
from app.reports.model_index import render_model_index
from app.reports.negotiation import MEDIA_TYPES, OF_ENDED, SUFFIXES, ReportFormat, choose_format
from app.reports.pictures import find_pictures
from app.reports.sarif import render_sarif
from app.reports.service import compose_report, no_verdict, pick_judgement
from app.web.heads import Stream, is_head
from app.web.identifiers import ID, POLICY, AuditId
from app.web.links import console_address
from app.web.problems import raises
from app.web.services import Service, Services
from seatrial.reporting.outcomes import Judged
from seatrial.reporting.schemas import ReportRead
from seatrial.reporting.words import enumerate_words

router = APIRouter(prefix="/v1/audits", tags=["reports"], responses=raises(401, 403))

Format = Annotated[
    str | None,
    Query(
        max_length=100,
        description=f"{enumerate_words((f'`{kind}`' for kind in MEDIA_TYPES), 'or')}; goes before the Accept header.",
        examples=["html"],
    ),
]
PolicyName = Annotated[
    str | None,
    Query(
        pattern=POLICY,
        description="Judge by this policy for this answer, without storing the verdict: an id, a name, `name@version` "
        "or a shipped one. Default: the verdict of the policy the audit was submitted with.",
        examples=["standard"],
    ),
]
JudgementId = Annotated[
    str | None,
    Query(
        pattern=ID,
        description="Print this stored judgement of the audit instead.",
        examples=["jdg_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"],
    ),
]
_SENT = {"text/html": {"schema": {"type": "string"}}} | {
    MEDIA_TYPES[kind]: {"schema": {"type": "string"}} for kind in ("markdown", "junit", "model-index")
}
_TEXTS: dict[ReportFormat, Callable[[ReportRead], str]] = {
    "model-index": render_model_index,
    "annex-iv-markdown": render_annex_markdown,
}
_ZIP = "application/zip"
# Streams the bytes of a file in pieces of this size.
_CHUNK_BYTES = 2**20


@router.get(
    "/{audit_id}/report",
    response_model=ReportRead,
    responses={
        200: {
            "description": "The report, as asked for. A partial one says so.",
            "content": {
                **_SENT,
                **{MEDIA_TYPES[kind]: {"schema": {"type": "object"}} for kind in ("sarif", "cyclonedx")},
            },
        },
        **raises(404, 406, 409, 422, 429),
    },
    summary="Read the report of an audit",
)
async def read_report(
    request: Request,
    audit_id: AuditId,
    principal: Reader,
    services: Service,
    format: Format = None,
    policy: PolicyName = None,
    judgement: JudgementId = None,
) -> Response:
    """Return what an audit found: a page to read or print (one file, no scripts), the same as JSON, or for a pipeline.

    Without a `format` it is the type that the Accept header prefers, `text/html` where it has no preference.

    Markdown is short enough for a comment on a pull request, JUnit XML and SARIF 2.1.0 are read by CI systems. All of
    them print one verdict; an audit without any has no JUnit and no SARIF (409). In JUnit a rule that is inconclusive
    is a failure, since there is no third state and a green build must not come of it.

    `cyclonedx` is a machine-learning bill of materials (CycloneDX 1.6) with every number and its interval,
    `model-index` the same as YAML for the head of a Hugging Face model card, `annex-iv` (a page to print) and
    `annex-iv-markdown` an extract for the technical documentation of Annex IV of the EU AI Act. They are made of audits
    that have ended (409), and leave out the numbers of checks with a flag of severity `error`.
    """
    # Not a parameter: OpenAPI has no headers of this name (3.1, 4.8.12), and says which types there are.
    kind = choose_format(",".join(request.headers.getlist("accept")) or None, format)
    project_id, console = principal.project_id, console_address(services.settings, request)

    def answer() -> Response:
        judged = pick_judgement(services, project_id, audit_id, policy=policy, judgement=judgement)
        return _report(services, project_id, audit_id, kind, judged, console)

    return await services.computations.run(request, project_id, answer)


def _report(
    services: Services, project_id: str, audit_id: str, kind: ReportFormat, judged: Judged | None, console: str | None
) -> Response:
    with services.database.read() as session:
        report = compose_report(session, services.store, project_id, audit_id, judged=judged)
        pictures = find_pictures(session, services.store, project_id, audit_id) if kind == "html" else {}
    if console is not None:
        report = report.model_copy(update={"url": f"{console}/audits/{report.audit}"})
    headers = {"Vary": "Accept", "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    if kind == "json":
        return JSONResponse(report.model_dump(mode="json"), headers=headers)
    if kind == "markdown":
        return Response(render_markdown(report), media_type=f"{MEDIA_TYPES[kind]}; charset=utf-8", headers=headers)
    if kind == "html":
        headers["Content-Disposition"] = f'inline; filename="seatrial-{report.audit}.html"'
        return report_page(render_html(report, pictures), headers)
    headers["Content-Disposition"] = f'inline; filename="seatrial-{report.audit}.{SUFFIXES[kind]}"'
    if kind in OF_ENDED:
        check_ended(report)
        if kind == "annex-iv":
            return report_page(render_annex(report), headers)
        if kind in _TEXTS:
            return Response(_TEXTS[kind](report), media_type=f"{MEDIA_TYPES[kind]}; charset=utf-8", headers=headers)
        return JSONResponse(render_ml_bom(report), media_type=MEDIA_TYPES[kind], headers=headers)
    if judged is None:
        raise no_verdict(report)
    if kind == "junit":
        return Response(render_junit(report, judged), media_type=MEDIA_TYPES[kind], headers=headers)
    return JSONResponse(render_sarif(report, judged), media_type=MEDIA_TYPES[kind], headers=headers)


def report_page(page: str, headers: dict[str, str]) -> Response:
    """Return a report as an answer that nothing in it can act in."""
    return HTMLResponse(
        page,
        headers={
            **headers,
            "Content-Security-Policy": content_security_policy() + "; frame-ancestors 'none'; sandbox",
            "Referrer-Policy": "no-referrer",
        },
    )


@router.get(
    "/{audit_id}/bundle",
    response_class=Stream,
    responses={
        200: {
            "description": "A zip; the same audit gives the same bytes, as long as it is judged no further.",
            "content": {_ZIP: {"schema": {"type": "string", "format": "binary"}}},
        },
        **raises(404, 409, 410, 422, 429, 507),
    },
    summary="Take an audit away to run it again",
)
async def read_bundle(
    request: Request,
    audit_id: AuditId,
    principal: Reader,
    services: Service,
    inputs: Annotated[bool, Query(description="Whether the files of models and datasets are inside.")] = False,
) -> Response:
    """Return everything it takes to run an ended audit again and compare: `seatrial replay` does both.

    `audit.json` has the specification, seed, digests, versions and the verdict, `inputs/` the manifests (and with
    `?inputs=true` the files), `results.json` the numbers, `records/` the per-example records of every stage as Parquet,
    `SHA256SUMS` the digest of each of these.
    """
    headers = {
        "Content-Disposition": f'attachment; filename="{bundle_name(audit_id)}"',
        "Cache-Control": "private, no-cache",
    }
    project_id = principal.project_id
    if is_head(request.scope):
        await run_in_threadpool(_check_ended, services, project_id, audit_id)
        return Response(media_type=_ZIP, headers=headers)

    def build() -> IO[bytes]:
        return build_bundle(services, project_id, audit_id, with_inputs=inputs)

    file = await services.computations.run(request, project_id, build)
    size = file.seek(0, 2)
    file.seek(0)

    def chunks() -> Iterator[bytes]:
        with file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    return Stream(chunks(), media_type=_ZIP, headers={**headers, "Content-Length": str(size)})


def _check_ended(services: Services, project_id: str, audit_id: str) -> None:
    with services.database.read() as session:
        get_ended(session, project_id, audit_id)
