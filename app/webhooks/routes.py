"""Routes of webhooks."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.access.principal import Admin, Reader
from app.web.bodies import accepts, json_body, read_json
from app.web.identifiers import DeliveryId, WebhookId
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from app.webhooks import repository, service
from app.webhooks.schemas import (
    CHANGE_EXAMPLES,
    ROTATION_EXAMPLES,
    WEBHOOK_EXAMPLES,
    DeliveryRead,
    SecretRead,
    SecretRotation,
    WebhookChange,
    WebhookCreate,
    WebhookCreated,
    WebhookRead,
)
from seatrial.contracts.webhooks import DeliveryStatus
from seatrial.store.tables import DeliveryRow, WebhookRow

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=raises(401, 403))


async def _rotation_body(request: Request) -> SecretRotation:
    return await read_json(request, SecretRotation) if await request.body() else SecretRotation()


def _accepts_rotation() -> dict[str, Any]:
    documented = accepts(SecretRotation, examples=ROTATION_EXAMPLES)
    documented["requestBody"]["required"] = False
    return documented


@router.post(
    "",
    status_code=201,
    response_model=WebhookCreated,
    responses=raises(400, 409, 413, 415, 422),
    openapi_extra=accepts(WebhookCreate, examples=WEBHOOK_EXAMPLES),
    summary="Make a webhook",
)
def make_webhook(
    principal: Admin,
    body: Annotated[WebhookCreate, Depends(json_body(WebhookCreate))],
    services: Service,
    response: Response,
) -> WebhookCreated:
    """Have an address told when audits end and are judged. The secret is in this response and in no later one.

    Each message is a POST of a `WebhookMessage`, signed after [Standard Webhooks](https://www.standardwebhooks.com):
    verify `webhook-id`, `webhook-timestamp` and `webhook-signature` with any library of that name. Any answer from 200
    to 299 within 15 seconds, the look-up of the name included, is a success. Anything else is tried again after about
    5 s, 5 min, 30 min, 2 h, 5 h, 8 h and 8 h, later if `Retry-After` asks for it, and then given up; 410 disables the
    webhook. A message may come more than once and out of order: `webhook-id` tells which have been seen.
    """
    row, secret = service.create(services, principal.project_id, body)
    response.headers["Location"] = f"/v1/webhooks/{row.id}"
    return WebhookCreated(**_read(row).model_dump(), secret=secret)


@router.get("", response_model=Page[WebhookRead], responses=raises(422), summary="List webhooks")
def list_webhooks(
    request: Request, principal: Reader, services: Service, page: Annotated[PageRequest, Depends(page_request("whk"))]
) -> Response:
    """List the project's webhooks, newest first, without their secrets."""
    with services.database.read() as session:
        rows = repository.list_webhooks(session, principal.project_id, before=page.before, limit=page.fetch)
    return page_response(request, page, rows, lambda row: _read(row).model_dump(mode="json"))


@router.get("/{webhook_id}", response_model=WebhookRead, responses=raises(404, 422), summary="Read a webhook")
def read_webhook(webhook_id: WebhookId, principal: Reader, services: Service) -> WebhookRead:
    """Read a webhook, without its secret."""
    with services.database.read() as session:
        return _read(service.get(session, principal.project_id, webhook_id))


@router.patch(
    "/{webhook_id}",
    response_model=WebhookRead,
    responses=raises(400, 404, 413, 415, 422),
    openapi_extra=accepts(WebhookChange, examples=CHANGE_EXAMPLES),
    summary="Change a webhook",
)
def change_webhook(
    webhook_id: WebhookId,
    principal: Admin,
    body: Annotated[WebhookChange, Depends(json_body(WebhookChange))],
    services: Service,
) -> WebhookRead:
    """Change what is in the body and leave the rest. Messages that wait go to the new address."""
    return _read(service.change(services, principal.project_id, webhook_id, body))


@router.delete("/{webhook_id}", status_code=204, responses=raises(404, 422), summary="Delete a webhook")
def delete_webhook(webhook_id: WebhookId, principal: Admin, services: Service) -> Response:
    """Delete a webhook with all its deliveries; to keep them, disable it."""
    service.delete(services, principal.project_id, webhook_id)
    return Response(status_code=204)


@router.post(
    "/{webhook_id}/rotate-secret",
    response_model=SecretRead,
    responses=raises(400, 404, 409, 413, 415, 422),
    openapi_extra=_accepts_rotation(),
    summary="Rotate the secret",
)
def rotate_secret(
    webhook_id: WebhookId,
    principal: Admin,
    body: Annotated[SecretRotation, Depends(_rotation_body)],
    services: Service,
) -> SecretRead:
    """Put a new secret in force; messages are signed with both until the overlap ends, so no receiver misses one.

    Without a body the overlap is a day.
    """
    overlap = timedelta(seconds=body.overlap_s)
    return service.rotate_secret(services, principal.project_id, webhook_id, overlap)


@router.post(
    "/{webhook_id}/ping",
    status_code=202,
    response_model=DeliveryRead,
    responses=raises(404, 409, 422, 429),
    summary="Ping a webhook",
)
def ping_webhook(webhook_id: WebhookId, principal: Admin, services: Service, response: Response) -> DeliveryRead:
    """Send a `ping`, whatever events it listens to; `Location` tells what came of it."""
    row = service.ping(services, principal.project_id, webhook_id)
    response.headers["Location"] = f"/v1/webhooks/{webhook_id}/deliveries/{row.id}"
    return service.read_delivery(row)


@router.get(
    "/{webhook_id}/deliveries",
    response_model=Page[DeliveryRead],
    responses=raises(404, 422),
    summary="List deliveries",
)
def list_deliveries(
    request: Request,
    webhook_id: WebhookId,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("dlv"))],
    status: Annotated[DeliveryStatus | None, Query(description="Only with this status.")] = None,
) -> Response:
    """List what a webhook was told, newest first, every attempt with its time, status, milliseconds and error.

    They are kept for 30 days after their end.
    """
    with services.database.read() as session:
        service.get(session, principal.project_id, webhook_id)
        rows = repository.list_deliveries(session, webhook_id, status=status, before=page.before, limit=page.fetch)

    def render(row: DeliveryRow) -> dict[str, object]:
        return service.read_delivery(row).model_dump(mode="json")

    return page_response(request, page, rows, render)


@router.get(
    "/{webhook_id}/deliveries/{delivery_id}",
    response_model=DeliveryRead,
    responses=raises(404, 422),
    summary="Read a delivery",
)
def read_delivery(webhook_id: WebhookId, delivery_id: DeliveryId, principal: Reader, services: Service) -> DeliveryRead:
    """Read a message and the attempts to deliver it."""
    with services.database.read() as session:
        return service.read_delivery(service.get_delivery(session, principal.project_id, webhook_id, delivery_id))


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=DeliveryRead,
    responses=raises(404, 409, 422, 429),
    summary="Redeliver a message",
)
def redeliver(webhook_id: WebhookId, delivery_id: DeliveryId, principal: Admin, services: Service) -> DeliveryRead:
    """Send a message once more, delivered or not: the same id and body, signed anew, all attempts before it."""
    return service.read_delivery(service.redeliver(services, principal.project_id, webhook_id, delivery_id))


def _read(row: WebhookRow) -> WebhookRead:
    return WebhookRead.model_validate(row)
