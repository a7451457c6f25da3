"""Webhooks in the console: made, tried, changed and deleted there, and what each was told."""

import re
from typing import get_args

import pytest

from app.console.webhooks import EVENTS
from app.webhooks import repository
from app.webhooks.schemas import Listened
from seatrial.store.outbox import enqueue
from seatrial.store.tables import DeliveryRow, WebhookRow
from seatrial.store.tables.base import utc_now
from tests.console.conftest import Console, actions, elements, words
from tests.console.test_uploads import wrong

URL = "https://93.184.216.34/hooks"


def flattened(annotation: object) -> set[object]:
    """Return the literals a union is made of."""
    inner = get_args(annotation)
    return {annotation} if not inner else {each for one in inner for each in flattened(one)}


@pytest.fixture
def webhook(console: Console) -> str:
    """Id of a webhook that was made on the page."""
    made = console.post("/webhooks", url=URL, events=["audit.judged", "ping"], description="a channel")
    assert made.status_code == 201, made.text
    with console.services.database.read() as session:
        return session.query(WebhookRow).one().id


def test_every_event_of_the_contract_can_be_ticked() -> None:
    assert set(EVENTS) == flattened(Listened)


def test_its_secret_is_shown_once(console: Console) -> None:
    made = words(console.post("/webhooks", url=URL, events=["*"]))
    assert re.search(r"whsec_[\w+/=]{20,}", made)
    with console.services.database.read() as session:
        own = session.query(WebhookRow).one().id
    for path in ("/webhooks", f"/webhooks/{own}"):
        page = words(console.get(path))
        assert URL in page
        assert "whsec_" not in page
    assert "whsec_" in words(console.post(f"/webhooks/{own}/rotate"))
    assert "whsec_" not in words(console.get(f"/webhooks/{own}"))


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(console: Console) -> None:
    refused = console.post("/webhooks", url="http://127.0.0.1/x", events=["ping"], description="to myself")
    assert refused.status_code == 422
    assert "url" in wrong(refused)
    assert "to myself" in refused.text
    assert [one["value"] for one in elements(refused, "input") if "checked" in one] == ["ping"]
    no_address = console.post("/webhooks", url="not a url", events=["ping"])
    assert "Address: Write the whole address, beginning with https://." in words(no_address)
    nothing = console.post("/webhooks", url=URL)
    assert 'id="events-wrong"' in nothing.text
    with console.services.database.read() as session:
        assert session.query(WebhookRow).count() == 0


def test_it_is_changed_and_deleted(console: Console, webhook: str) -> None:
    changed = console.post(f"/webhooks/{webhook}", url=f"{URL}/2", events=["*"])
    assert changed.headers["location"] == f"/webhooks/{webhook}?done=changed"
    with console.services.database.read() as session:
        row = session.get_one(WebhookRow, webhook)
        assert (row.url, row.events, row.description, row.is_enabled) == (f"{URL}/2", ["*"], "", False)
    page = console.get(f"/webhooks/{webhook}")
    assert f"/webhooks/{webhook}/ping" not in actions(page)
    assert "disabled" in words(console.get("/webhooks"))
    assert console.post(f"/webhooks/{webhook}/ping").status_code == 409
    assert console.post(f"/webhooks/{webhook}/delete").headers["location"] == "/webhooks?done=deleted"
    assert console.get(f"/webhooks/{webhook}").status_code == 404


def test_deliveries_tell_their_attempts_and_are_sent_again(console: Console, webhook: str) -> None:
    assert console.post(f"/webhooks/{webhook}/ping").status_code == 303
    audit = console.finished()
    with console.services.database.write() as session:
        told = enqueue(session, webhook, "audit.judged", {"audit": audit, "verdict": "failed"})
        row = session.get_one(DeliveryRow, told)
        row.status, row.finished_at = "failed", utc_now()
        row.log = [{"at": "2026-11-20T10:00:00Z", "status": 503, "ms": 1234, "error": "HTTP 503 <b>"}]
    page = console.get(f"/webhooks/{webhook}")
    said = words(page)
    for expected in ("HTTP 503 <b>", "1,234 ms", "audit.judged", "failed", "none yet", "next attempt"):
        assert expected in said
    assert "<b>" not in page.text
    assert f"/audits/{audit}" in page.text
    again = f"/webhooks/{webhook}/deliveries/{told}/redeliver"
    assert {one for one in actions(page) if "deliveries" in one} == {again}
    assert console.post(again).headers["location"] == f"/webhooks/{webhook}?done=sent"
    with console.services.database.read() as session:
        assert session.get_one(DeliveryRow, told).status == repository.PENDING


def test_many_deliveries_are_paged(console: Console, webhook: str) -> None:
    with console.services.database.write() as session:
        for _ in range(30):
            enqueue(session, webhook, "ping", {"webhook": webhook})
    first = console.get(f"/webhooks/{webhook}")
    following = next(str(one["href"]) for one in elements(first, "a") if one.get("rel") == "next")
    assert len(re.findall("<details>", first.text)) == 0
    assert words(first).count("pending") == 25
    assert words(console.get(following)).count("pending") == 5


def test_another_projects_webhook_is_not_there(locked: Console) -> None:
    locked.log_in("admin", "other")
    assert locked.post("/webhooks", url=URL, events=["*"]).status_code == 201
    with locked.services.database.read() as session:
        own = session.query(WebhookRow).one().id
    locked.post("/logout")
    locked.log_in("admin")
    for answer in (
        locked.get(f"/webhooks/{own}"),
        locked.post(f"/webhooks/{own}/ping"),
        locked.post(f"/webhooks/{own}/delete"),
    ):
        assert answer.status_code == 404
    assert URL not in words(locked.get("/webhooks"))
