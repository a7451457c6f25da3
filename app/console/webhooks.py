"""Pages of webhooks: who is told of what, a form that makes one, and what each was told."""

import json
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.console.forms import Form, flat
from app.console.pages import page
from app.console.paging import paged
from app.console.viewer import Admin, ConsoleRoute, Posted, Reader, Viewer
from app.web.bodies import parse_json
from app.web.identifiers import DeliveryId, WebhookId
from app.web.pagination import decode_cursor
from app.web.problems import InvalidRequestError, ProblemError
from app.web.services import Service, Services
from app.webhooks import repository, service
from app.webhooks.schemas import SecretRotation, WebhookChange, WebhookCreate
from seatrial.store.tables import WebhookRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 25
DONE = {
    "changed": "The webhook is changed.",
    "deleted": "The webhook is deleted, with its deliveries.",
    "pinged": "A ping is on its way: it is the newest delivery.",
    "sent": "The message is due once more.",
}
EVENTS = {
    "*": "everything",
    "audit.not_passed": "an audit was judged, and did not pass",
    "audit.judged": "an audit was judged, whatever the verdict",
    "audit.succeeded": "an audit ended with numbers",
    "audit.failed": "an audit ended without numbers",
    "audit.cancelled": "an audit was cancelled",
    "audit.attested": "a verdict was signed",
    "plan.notified": "a plan that names the webhook reached its end",
    "ping": "somebody sent a test message",
}
"""What a webhook may listen to, in words; a test holds it to the contract."""
STARTING = {"events": "audit.not_passed\naudit.failed"}


@router.get("/webhooks")
def list_webhooks(request: Request, viewer: Reader, services: Service, done: str = "") -> Response:
    """List the project's webhooks over a form that makes one."""
    return _webhooks(request, viewer, services, Form(STARTING), done=done)


@router.post("/webhooks")
def make_webhook(request: Request, viewer: Admin, services: Service, posted: Posted) -> Response:
    """Make a webhook and show its secret this once, or what is wrong beside each field."""
    form, body = _asked(posted)
    try:
        _check_address(form)
        row, secret = service.create(services, viewer.project_id, parse_json(json.dumps(body), WebhookCreate))
    except ProblemError as error:
        form.refuse_all(error, _field_of)
        return _webhooks(request, viewer, services, form, status=error.status)
    return _webhook(request, viewer, services, row.id, secret=secret, status=201)


@router.get("/webhooks/{webhook_id}")
def show_webhook(
    request: Request, webhook_id: WebhookId, viewer: Reader, services: Service, cursor: str = "", done: str = ""
) -> Response:
    """Show a webhook and what it was told."""
    return _webhook(request, viewer, services, webhook_id, cursor=cursor, done=done)


@router.post("/webhooks/{webhook_id}")
def change_webhook(
    request: Request, webhook_id: WebhookId, viewer: Admin, services: Service, posted: Posted
) -> Response:
    """Change a webhook, or show what is wrong beside each field."""
    form, body = _asked(posted)
    try:
        _check_address(form)
        change = parse_json(json.dumps({**body, "is_enabled": "is_enabled" in posted}), WebhookChange)
        service.change(services, viewer.project_id, webhook_id, change)
    except ProblemError as error:
        form.refuse_all(error, _field_of)
        return _webhook(request, viewer, services, webhook_id, form=form, status=error.status)
    return RedirectResponse(f"/webhooks/{webhook_id}?done=changed", status_code=303)


@router.post("/webhooks/{webhook_id}/ping")
def ping_webhook(webhook_id: WebhookId, viewer: Admin, services: Service) -> Response:
    """Send a message that means nothing."""
    service.ping(services, viewer.project_id, webhook_id)
    return RedirectResponse(f"/webhooks/{webhook_id}?done=pinged", status_code=303)


@router.post("/webhooks/{webhook_id}/rotate")
def rotate_secret(request: Request, webhook_id: WebhookId, viewer: Admin, services: Service) -> Response:
    """Put a new secret in force and show it this once; the old one signs too for a day."""
    overlap = timedelta(seconds=SecretRotation().overlap_s)
    read = service.rotate_secret(services, viewer.project_id, webhook_id, overlap)
    return _webhook(request, viewer, services, webhook_id, secret=read.secret)


@router.post("/webhooks/{webhook_id}/delete")
def delete_webhook(webhook_id: WebhookId, viewer: Admin, services: Service) -> Response:
    """Delete a webhook with its deliveries."""
    service.delete(services, viewer.project_id, webhook_id)
    return RedirectResponse("/webhooks?done=deleted", status_code=303)


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver")
def redeliver(webhook_id: WebhookId, delivery_id: DeliveryId, viewer: Admin, services: Service) -> Response:
    """Send a message once more."""
    service.redeliver(services, viewer.project_id, webhook_id, delivery_id)
    return RedirectResponse(f"/webhooks/{webhook_id}?done=sent", status_code=303)


def _check_address(form: Form) -> None:
    if "://" not in form.said("url"):
        raise InvalidRequestError("Write the whole address, beginning with https://.", pointer="/url")


def _asked(posted: dict[str, list[str]]) -> tuple[Form, dict[str, Any]]:
    """Return a form as it comes back, and the request it stands for."""
    chosen = posted.get("events", [])
    values = {**flat(posted), "events": "\n".join(chosen), "is_enabled": "yes" if "is_enabled" in posted else ""}
    form = Form(values)
    return form, {
        "url": form.said("url").strip(),
        "events": chosen,
        "description": form.said("description").strip(),
    }


def _field_of(pointer: str) -> str:
    return pointer.strip("/").partition("/")[0]


def _values(row: WebhookRow) -> dict[str, str]:
    return {
        "url": row.url,
        "events": "\n".join(row.events),
        "description": row.description,
        "is_enabled": "yes" if row.is_enabled else "",
    }


def _webhooks(
    request: Request, viewer: Viewer, services: Services, form: Form, *, done: str = "", status: int = 200
) -> Response:
    with services.database.read() as session:
        rows = list(repository.list_webhooks(session, viewer.project_id, before=None, limit=service.MAX_WEBHOOKS))
    return page(
        request,
        "webhooks.html",
        title="Webhooks",
        status=status,
        form=form,
        rows=rows,
        events=EVENTS,
        done=DONE.get(done),
        is_admin=viewer.principal.may("admin"),
    )


def _webhook(
    request: Request,
    viewer: Viewer,
    services: Services,
    webhook_id: str,
    *,
    form: Form | None = None,
    cursor: str = "",
    done: str = "",
    secret: str | None = None,
    status: int = 200,
) -> Response:
    before = decode_cursor(cursor, "dlv") if cursor else None
    with services.database.read() as session:
        row = service.get(session, viewer.project_id, webhook_id)
        deliveries = [
            service.read_delivery(one)
            for one in repository.list_deliveries(session, row.id, status=None, before=before, limit=PER_PAGE + 1)
        ]
    return page(
        request,
        "webhook.html",
        title=f"Webhook {row.id}",
        status=status,
        form=form or Form(_values(row)),
        webhook=row,
        events=EVENTS,
        secret=secret,
        done=DONE.get(done),
        is_admin=viewer.principal.may("admin"),
        **paged(deliveries, f"/webhooks/{row.id}", per_page=PER_PAGE, is_first=not cursor),
    )
