"""Webhooks in a database, a deliverer that may reach this machine, and receivers that hold a request open."""

import threading
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook

from app.main import create_app
from app.web.services import Services
from app.webhooks.delivery import Deliverer, deliver_due
from app.webhooks.signing import new_secret, stored
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.outbox import enqueue
from seatrial.store.settings import Settings
from seatrial.store.tables import DeliveryRow, WebhookRow
from seatrial.store.tables.base import utc_now
from tests.conftest import BASE_URL, TestClient
from tests.rows import add_project
from tests.scripted import Asked, answering

LOCAL = ["127.0.0.0/8"]
URL = "https://ci.example.com/hooks/seatrial"


def add_webhook(database: Database, url: str, *, project_id: str | None = None, **values: Any) -> tuple[str, str]:
    """Store a webhook and return its id and its secret."""
    secret = new_secret()
    row = WebhookRow(
        **{
            "id": new_id("whk"),
            "project_id": project_id or add_project(database),
            "url": url,
            "events": ["*"],
            "description": "",
            "secrets": [stored(secret)],
            **values,
        }
    )
    with database.write() as session:
        session.add(row)
    return row.id, secret


def leave(database: Database, webhook_id: str, count: int = 1) -> list[str]:
    """Leave pings for a webhook and return their ids."""
    with database.write() as session:
        return [enqueue(session, webhook_id, "ping", {"webhook": webhook_id}) for _ in range(count)]


def deliverer(database: Database, **options: Any) -> Deliverer:
    """Return a deliverer that may connect to this machine."""
    return Deliverer(Settings(endpoint_allowed_networks=LOCAL), database, **options)


def send_all(sending: Deliverer, now: datetime | None = None) -> int:
    """Send what is due until nothing is, and return how many attempts that took."""
    begun = 0
    while count := sending.begin(now):
        begun += count
        assert sending.settle(20)
    return begun


def delivery(database: Database, delivery_id: str) -> DeliveryRow:
    """Read a delivery."""
    with database.read() as session:
        return session.get_one(DeliveryRow, delivery_id)


def verified(asked: Asked, secret: str) -> Any:
    """Return what a receiver with that secret reads, or raise."""
    return Webhook(secret).verify(asked.body, asked.headers)


class Holding:
    """Answers nothing until it is released; as an answerer of :func:`tests.scripted.serving`."""

    def __init__(self) -> None:
        self.arrived, self._released = threading.Semaphore(0), threading.Event()

    def __call__(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        self.arrived.release()
        assert self._released.wait(30)
        answering({})(handler, asked)

    def release(self) -> None:
        self._released.set()


def api(settings: Settings, **changes: Any) -> TestClient:
    """Return a client of an API that has not been started: no thread of it sends anything by itself."""
    app = create_app(settings.model_copy(update={"endpoint_allowed_networks": LOCAL, **changes}))
    return TestClient(app, base_url=BASE_URL, raise_server_exceptions=False)


def services_of(client: TestClient) -> Services:
    return client.app.state.services  # type: ignore[attr-defined, no-any-return]


def make(client: httpx.Client, url: str = URL, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/webhooks", json={"url": url, **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/webhooks/{answer.json()['id']}"
    return dict(answer.json())


def send(client: TestClient, later: timedelta = timedelta(0)) -> int:
    """Send what is due by then and wait for it."""
    services = services_of(client)
    begun = deliver_due(services, now=utc_now() + later)
    assert services.of(Deliverer).settle(20)
    return begun
