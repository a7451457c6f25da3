"""Pages of audits: the list, one of them as it runs and when it has ended, and what can be asked of it."""

import json
import re
from typing import get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, RedirectResponse

from app.access.principal import author_of
from app.attestations.routes import JudgementId, read_attestation
from app.audits import service as audits
from app.audits.records import RecordsFormat, find_records, records_response
from app.audits.routes import read_figure
from app.console import repository, service
from app.console.following import follow
from app.console.pages import fragment, page
from app.console.viewer import (
    ConsoleRoute,
    Posted,
    Reader,
    Runner,
    first,
    requires,
)
from app.gates.service import judge_audit as judge
from app.policies.baselines import promote
from app.reports.negotiation import MEDIA_TYPES, OF_ENDED, OF_VERDICTS, ReportFormat
from app.reports.routes import read_bundle, read_report
from app.web.bodies import parse_json
from app.web.identifiers import AuditId, CheckName, FigureName
from app.web.pagination import PageRequest, decode_cursor, encode_cursor
from app.web.services import Service
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.policies import BaselineCreate, JudgementRequest, Verdict
from seatrial.contracts.states import ModelState, RunState

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 25
VERDICTS: tuple[str, ...] = get_args(Verdict)

FORMATS: dict[ReportFormat, str] = {
    "html": "a page",
    "json": "JSON",
    "markdown": "Markdown",
    "junit": "JUnit XML",
    "sarif": "SARIF",
    "cyclonedx": "a bill of materials (CycloneDX)",
    "model-index": "the head of a model card (model-index)",
    "annex-iv": "an extract for Annex IV of the EU AI Act, to print",
    "annex-iv-markdown": "an extract for Annex IV of the EU AI Act, as Markdown",
}
DONE = {
    "cancelled": "Cancelling: running work stops at its next batch.",
    "retried": "What failed is queued again.",
    "judged": "It was judged; what came of it is below.",
    "promoted": "The audit is a baseline now.",
}
"""What is said after something was done, by the word in the address: nothing an address says is shown itself."""


@router.get("/")
def list_audits(
    request: Request,
    services: Service,
    state: str = "",
    model: str = "",
    verdict: str = "",
    cursor: str = "",
) -> Response:
    """List audits, newest first; an API client that asks for JSON is told where the API is."""
    if _wants_json(request):
        return JSONResponse(_index(request), headers={"Vary": "Accept, Cookie"})
    viewer = requires("read")(request, services)
    # What the page does not offer filters nothing.
    asked = {
        "state": state if state in tuple(RunState) else "",
        "model": model if re.fullmatch(r"mdl_[0-9a-f]{32}", model) else "",
        "verdict": verdict if verdict in VERDICTS else "",
    }
    wanted = {name: value or None for name, value in asked.items()}
    before = decode_cursor(cursor, "aud") if cursor else None
    asked_page = PageRequest(PER_PAGE, before)
    with services.database.read() as session:
        rows = service.listed(session, viewer.project_id, **wanted, page=asked_page)
        models = repository.recent_models(session, viewer.project_id)
    shown = rows[:PER_PAGE]
    following = encode_cursor(shown[-1].id) if len(rows) > PER_PAGE else None
    kept = {name: value for name, value in asked.items() if value}
    return page(
        request,
        "audits.html",
        title="Audits",
        rows=shown,
        asked=asked,
        states=[str(one) for one in RunState],
        verdicts=VERDICTS,
        # What was rejected was never audited; one that a link names stays.
        models=[
            (row.id, f"{row.name} {row.version}")
            for row in models
            if row.state != ModelState.REJECTED or row.id == asked["model"]
        ],
        newest=f"/?{urlencode(kept)}" if cursor else None,
        following=f"/?{urlencode({**kept, 'cursor': following})}" if following else None,
    )


def _wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "").lower()
    return "json" in accept and "text/html" not in accept


def _index(request: Request) -> dict[str, str]:
    app = request.app
    return {
        "name": app.title,
        "version": app.version,
        "openapi": "/openapi.json",
        "documentation": "/docs",
        "audits": "/v1/audits",
    }


@router.get("/audits/{audit_id}")
def show_audit(request: Request, audit_id: AuditId, viewer: Reader, services: Service, done: str = "") -> Response:
    """Show an audit: how far it is, its verdict, what it found."""
    shown = service.audit_page(services, viewer.project_id, audit_id)
    # Nothing is printed for a pipeline of an audit without a verdict, nor given away of one that runs.
    missing = {*(() if shown.progress.audit.verdict else OF_VERDICTS), *(() if shown.progress.has_ended else OF_ENDED)}
    offered = [name for name in MEDIA_TYPES if name not in missing]
    return page(
        request,
        "audit.html",
        title=f"{shown.model} on {shown.dataset}",
        shown=shown,
        done=None if done == "cancelled" and shown.progress.has_ended else DONE.get(done),
        formats=[(name, FORMATS[name]) for name in offered],
        can_sign=bool(shown.own) and bool(services.of(KeyFolder).published().keys),
    )


@router.get("/audits/{audit_id}/examples")
def show_examples(request: Request, audit_id: AuditId, viewer: Reader, services: Service) -> Response:
    """Show the attacked images and texts that were kept, the worst first."""
    shown = service.audit_page(services, viewer.project_id, audit_id)
    return page(request, "worst.html", title=f"Worst examples of {shown.model}", shown=shown)


@router.get("/audits/{audit_id}/progress")
def show_progress(audit_id: AuditId, viewer: Reader, services: Service) -> Response:
    """Return the part of an audit's page that changes while it runs."""
    with services.database.read() as session:
        progress = service.progress_of(session, viewer.project_id, audit_id, lease_s=services.settings.lease_s)
    return fragment("progress.html", progress=progress)


@router.get("/audits/{audit_id}/events")
async def follow_audit(request: Request, audit_id: AuditId, services: Service) -> Response:
    """Stream what happens, as the API does."""
    return await follow(request, services, audit_id)


@router.get("/audits/{audit_id}/report")
async def show_report(
    request: Request, audit_id: AuditId, viewer: Reader, services: Service, format: str | None = None
) -> Response:
    """Return the report, in every format the API has."""
    return await read_report(request, audit_id, viewer.principal, services, format=format or "html")


@router.get("/audits/{audit_id}/bundle")
async def download_bundle(request: Request, audit_id: AuditId, viewer: Reader, services: Service) -> Response:
    """Download what it takes to run the audit again."""
    return await read_bundle(request, audit_id, viewer.principal, services)


@router.get("/audits/{audit_id}/attestation")
async def download_attestation(
    request: Request, audit_id: AuditId, viewer: Reader, services: Service, judgement: JudgementId = None
) -> Response:
    """Download the signed verdict: its own, or that of a later judgement."""
    return await read_attestation(request, audit_id, viewer.principal, services, judgement)


@router.get("/audits/{audit_id}/records/{check}")
async def download_records(
    request: Request,
    audit_id: AuditId,
    check: CheckName,
    viewer: Reader,
    services: Service,
    format: RecordsFormat = "parquet",
) -> Response:
    """Download the table behind a check's numbers."""

    def answer() -> Response:
        records = find_records(services, viewer.project_id, audit_id, check, None)
        return records_response(services, records, format, f"{audit_id}-{check}")

    return await services.computations.run(request, viewer.project_id, answer)


@router.get("/audits/{audit_id}/figures/{check}/{name}")
def show_figure(
    audit_id: AuditId,
    check: CheckName,
    name: FigureName,
    viewer: Reader,
    services: Service,
) -> Response:
    """Return a figure."""
    return read_figure(audit_id, check, name, viewer.principal, services)


@router.post("/audits/{audit_id}/cancel")
def cancel_audit(audit_id: AuditId, viewer: Runner, services: Service) -> Response:
    """Ask an audit to stop."""
    audits.cancel(services, viewer.project_id, audit_id)
    return _back(audit_id, "cancelled")


@router.post("/audits/{audit_id}/retry")
def retry_audit(audit_id: AuditId, viewer: Runner, services: Service) -> Response:
    """Queue what failed again."""
    audits.retry(services, viewer.project_id, audit_id)
    return _back(audit_id, "retried")


@router.post("/audits/{audit_id}/judge")
async def judge_audit(
    request: Request, audit_id: AuditId, viewer: Runner, services: Service, posted: Posted
) -> Response:
    """Judge an audit by another policy, or against another baseline."""
    body = {"policy": first(posted, "policy"), "baseline": first(posted, "baseline") or None}
    asked, project_id = parse_json(json.dumps(body), JudgementRequest), viewer.project_id
    await services.computations.run(request, project_id, lambda: judge(services, project_id, audit_id, asked))
    return _back(audit_id, "judged", "#judged")


@router.post("/audits/{audit_id}/promote")
def promote_audit(request: Request, audit_id: AuditId, viewer: Runner, services: Service, posted: Posted) -> Response:
    """Make an audit a baseline of its model."""
    body = {"audit": audit_id, "name": first(posted, "name") or "champion", "note": first(posted, "note")}
    asked = parse_json(json.dumps(body), BaselineCreate)
    author, is_admin = author_of(viewer.principal, request), viewer.principal.may("admin")
    # What a key may not promote at all is refused without asking whether it is meant.
    if is_admin and not first(posted, "sure"):
        shown = service.audit_page(services, viewer.project_id, audit_id)
        audit = shown.progress.audit
        if audit.state == RunState.SUCCEEDED and audit.verdict != "passed":
            replaced = shown.baselines.get(asked.name)
            return page(
                request,
                "promote.html",
                title="Promote an audit",
                asked=asked,
                shown=shown,
                audit=audit,
                replaced=replaced,
            )
    promote(services, viewer.project_id, asked, author, needs_pass=not is_admin)
    return _back(audit_id, "promoted")


def _back(audit_id: str, done: str, part: str = "") -> Response:
    return RedirectResponse(f"/audits/{audit_id}?done={done}{part}", status_code=303)
