"""Making, changing and trying webhooks."""

import re
from datetime import timedelta
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from app.web.problems import ConflictError, InvalidRequestError, NotFoundError
from app.web.services import Services
from app.webhooks import repository
from app.webhooks.delivery import Deliverer
from app.webhooks.schemas import AttemptRead, DeliveryRead, SecretRead, WebhookChange, WebhookCreate
from app.webhooks.signing import in_force, new_secret, rotated, stored
from seatrial.contracts.endpoints import parse_network
from seatrial.net import AddressRefusedError, RequestRefusedError, check_host, host_of
from seatrial.store.ids import new_id
from seatrial.store.outbox import enqueue
from seatrial.store.settings import Settings
from seatrial.store.tables import DeliveryRow, WebhookRow
from seatrial.store.tables.base import utc_now

MAX_WEBHOOKS = 50
MAX_SECRETS = 4


def check_url(url: str, settings: Settings) -> None:
    """Raise for a URL that no message can be sent to, as far as that is known without looking a name up.

    Raises:
        InvalidRequestError: It is none, or leads to an address that is not to be connected to; points at ``/url``.
    """
    try:
        if not re.fullmatch(r"[\x21-\x7e]+", url):
            raise RequestRefusedError("a URL has no spaces and only ASCII: write other letters with % and xn--")
        host = host_of(url)
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise RequestRefusedError("a user name or password would not be sent: messages are signed instead")
        if "#" in url:
            raise RequestRefusedError("a fragment (#) would not be sent: leave it out")
        if parts.port == 0:
            raise RequestRefusedError("port 0 cannot be connected to")
        check_host(host, [parse_network(network) for network in settings.endpoint_allowed_networks])
    # A ValueError is a port that is none.
    except (AddressRefusedError, RequestRefusedError, ValueError) as error:
        raise InvalidRequestError(f"url: {error}", pointer="/url") from error


def create(services: Services, project_id: str, request: WebhookCreate) -> tuple[WebhookRow, str]:
    """Store a webhook and return it with its secret.

    Raises:
        InvalidRequestError: No message can be sent to the URL.
        ConflictError: The project has as many as it may have.
    """
    check_url(request.url, services.settings)
    secret = new_secret()
    row = WebhookRow(
        id=new_id("whk"),
        project_id=project_id,
        url=request.url,
        events=list(dict.fromkeys(request.events)),
        description=request.description,
        is_enabled=True,
        secrets=[stored(secret)],
    )
    with services.database.write() as session:
        if repository.count(session, project_id) >= MAX_WEBHOOKS:
            raise ConflictError(f"This project has {MAX_WEBHOOKS} webhooks already: delete one first.")
        session.add(row)
    return row, secret


def get(session: Session, project_id: str, webhook_id: str, *, for_update: bool = False) -> WebhookRow:
    """Return a webhook.

    Raises:
        NotFoundError: The project has none of that id.
    """
    row = repository.find(session, project_id, webhook_id, for_update=for_update)
    if row is None:
        raise NotFoundError(f"There is no webhook {webhook_id} in this project.")
    return row


def get_delivery(session: Session, project_id: str, webhook_id: str, delivery_id: str) -> DeliveryRow:
    """Return a delivery of a webhook.

    Raises:
        NotFoundError: The project has no such webhook, or it has no such delivery.
    """
    get(session, project_id, webhook_id)
    row = repository.find_delivery(session, webhook_id, delivery_id)
    if row is None:
        raise NotFoundError(f"Webhook {webhook_id} has no delivery {delivery_id}; they are kept for 30 days.")
    return row


def change(services: Services, project_id: str, webhook_id: str, request: WebhookChange) -> WebhookRow:
    """Change what the request names and return the webhook.

    Raises:
        NotFoundError: The project has none of that id.
        InvalidRequestError: No message can be sent to the new URL.
    """
    changes = request.model_dump(exclude_none=True)
    if request.events is not None:
        changes["events"] = list(dict.fromkeys(request.events))
    with services.database.write() as session:
        row = get(session, project_id, webhook_id, for_update=True)
        if request.url is not None:
            check_url(request.url, services.settings)
        for name, value in changes.items():
            setattr(row, name, value)
    return row


def delete(services: Services, project_id: str, webhook_id: str) -> None:
    """Delete a webhook with its deliveries; what is being sent this moment still arrives.

    Raises:
        NotFoundError: The project has none of that id.
    """
    with services.database.write() as session:
        repository.remove(session, get(session, project_id, webhook_id).id)


def rotate_secret(services: Services, project_id: str, webhook_id: str, overlap: timedelta) -> SecretRead:
    """Put a new secret in force and return it.

    Raises:
        NotFoundError: The project has no such webhook.
        ConflictError: Too many old secrets are signed with still.
    """
    now, secret = utc_now(), new_secret()
    with services.database.write() as session:
        row = get(session, project_id, webhook_id, for_update=True)
        if overlap and len(in_force(row.secrets, now)) >= MAX_SECRETS:
            raise ConflictError(
                f"{MAX_SECRETS} secrets of webhook {webhook_id} are signed with already: wait until one of them ends, "
                "or end all old ones with overlap_s 0."
            )
        row.secrets = rotated(row.secrets, secret, now, overlap)
    return SecretRead(secret=secret, previous_until=now + overlap if overlap else None)


def ping(services: Services, project_id: str, webhook_id: str) -> DeliveryRow:
    """Leave a message of no other meaning and return its delivery.

    Raises:
        NotFoundError: The project has no such webhook.
        ConflictError: It is disabled.
        TooManyRequestsError: The project has had as many within a minute as it may have.
    """
    services.of(Deliverer).pings.take(project_id, "pings")
    with services.database.write() as session:
        row = get(session, project_id, webhook_id, for_update=True)
        _refuse_disabled(row)
        message_id = enqueue(session, row.id, "ping", {"webhook": row.id})
        return get_delivery(session, project_id, webhook_id, message_id)


def redeliver(services: Services, project_id: str, webhook_id: str, delivery_id: str) -> DeliveryRow:
    """Make a delivery due once more, its id and body as they were, and return it.

    Raises:
        NotFoundError: The project has no such webhook or delivery.
        ConflictError: The webhook is disabled, or the message is being sent this moment.
        TooManyRequestsError: The project has had as many within a minute as it may have.
    """
    services.of(Deliverer).redeliveries.take(project_id, "redeliveries")
    with services.database.write() as session:
        _refuse_disabled(get(session, project_id, webhook_id, for_update=True))
        get_delivery(session, project_id, webhook_id, delivery_id)
        if not repository.send_again(session, delivery_id, utc_now()):
            raise ConflictError(f"Delivery {delivery_id} is being sent this moment: look at it again.")
        return get_delivery(session, project_id, webhook_id, delivery_id)


def _refuse_disabled(row: WebhookRow) -> None:
    if not row.is_enabled:
        raise ConflictError(f'Webhook {row.id} is disabled: PATCH it with {{"is_enabled": true}} first.')


def read_delivery(row: DeliveryRow) -> DeliveryRead:
    """Return a delivery as it is shown."""
    return DeliveryRead(
        id=row.id,
        webhook=row.webhook_id,
        event=row.event,
        status=row.status,
        due_at=row.due_at if row.status == repository.PENDING else None,
        message=row.payload,
        log=[AttemptRead.model_validate(entry) for entry in row.log],
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
