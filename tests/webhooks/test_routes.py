"""Webhooks over HTTP: who may do what, what is refused, and a message from an audit's end to a receiver."""

import re
from datetime import timedelta
from typing import Any

import pytest

from app.web import allowances
from app.web.problems import InvalidRequestError
from app.webhooks.delivery import Deliverer, deliver_due
from app.webhooks.service import MAX_WEBHOOKS, check_url
from seatrial.contracts.states import RunState
from seatrial.store.settings import Settings
from seatrial.store.tables import DeliveryRow
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.conftest import TestClient, key_for
from tests.scripted import Scripted, answering, serving
from tests.servers import eventually
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem
from tests.webhooks.hooks import LOCAL, URL, Holding, api, make, send, services_of, verified


def test_the_secret_is_shown_once(quiet: TestClient) -> None:
    made = make(quiet, events=["audit.judged", "audit.failed", "audit.judged"], description="starts the deployment")
    assert made["secret"].startswith("whsec_")
    assert made["events"] == ["audit.judged", "audit.failed"]
    one = quiet.get(f"/v1/webhooks/{made['id']}")
    shown = {name: value for name, value in made.items() if name not in ("secret", "previous_until")}
    assert one.json() == shown
    assert quiet.get("/v1/webhooks").json()["items"] == [shown]
    changed = quiet.patch(f"/v1/webhooks/{made['id']}", json={"description": "x"})
    assert "whsec_" not in one.text + changed.text + quiet.get("/v1/webhooks").text


def test_an_audits_end_reaches_a_receiver_signed(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url, events=["audit.succeeded"])
    services = services_of(quiet)
    model, dataset = upload_both(quiet)
    make_ready(services)
    audit = quiet.post("/v1/audits", json=submission(model, dataset)).json()["id"]
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    run_shard(services)
    assert send(quiet) == 0
    end_check(services, RunState.SUCCEEDED)
    assert send(quiet) == 1
    [asked] = receiver.asked
    message = verified(asked, hook["secret"])
    assert message["type"] == "audit.succeeded"
    assert message["data"] == {
        "audit": audit,
        "state": "succeeded",
        "verdict": None,
        "model": model,
        "dataset": dataset,
    }
    [told] = quiet.get(f"/v1/webhooks/{hook['id']}/deliveries").json()["items"]
    assert told["message"] == message
    assert (told["status"], told["id"], told["due_at"]) == ("delivered", asked.headers["webhook-id"], None)


def test_a_running_api_sends_by_itself(settings: Settings, receiver: Scripted) -> None:
    with api(settings) as client:
        hook = make(client, receiver.url)
        client.post(f"/v1/webhooks/{hook['id']}/ping")
        eventually(lambda: receiver.asked)
    assert verified(receiver.asked[0], hook["secret"])


def test_a_ping_is_answered_where_location_says(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url, events=["audit.failed"])
    answer = quiet.post(f"/v1/webhooks/{hook['id']}/ping")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["log"]) == ("pending", [])
    assert answer.json()["due_at"]
    assert send(quiet) == 1
    assert verified(receiver.asked[0], hook["secret"])["data"] == {"webhook": hook["id"]}
    told = quiet.get(answer.headers["location"]).json()
    assert (told["event"], told["status"], told["log"][0]["status"], told["log"][0]["error"]) == (
        "ping",
        "delivered",
        200,
        None,
    )


def test_redelivery_sends_the_same_message_signed_anew(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url)
    message = quiet.post(f"/v1/webhooks/{hook['id']}/ping").json()["id"]
    send(quiet)
    again = quiet.post(f"/v1/webhooks/{hook['id']}/deliveries/{message}/redeliver")
    assert again.status_code == 202
    assert (again.json()["status"], len(again.json()["log"]), again.json()["finished_at"]) == ("pending", 1, None)
    send(quiet, timedelta(seconds=10))
    first, second = receiver.asked
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == message
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"]) + 9
    assert verified(second, hook["secret"])
    told = quiet.get(f"/v1/webhooks/{hook['id']}/deliveries/{message}").json()
    assert (told["status"], len(told["log"])) == ("delivered", 2)


@pytest.mark.parametrize("action", ["ping", "redeliver"])
def test_a_project_may_ask_for_so_many_messages_a_minute(
    settings: Settings, receiver: Scripted, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    moment = [1000.0]
    monkeypatch.setattr(allowances.Allowance.__init__, "__kwdefaults__", {"clock": lambda: moment[0]})
    client = api(settings, webhook_pings_per_minute=2)
    hook = make(client, receiver.url)
    path = f"/v1/webhooks/{hook['id']}/ping"
    if action == "redeliver":
        path = f"/v1/webhooks/{hook['id']}/deliveries/{client.post(path).json()['id']}/redeliver"
    assert [client.post(path).status_code for _ in range(2)] == [202, 202]
    moment[0] += 20
    refused = client.post(path)
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == "40"
    moment[0] += 40
    assert client.post(path).status_code == 202
    services_of(client).of(Deliverer).pings.take("another project", "pings")
    services_of(client).database.dispose()


def test_a_message_given_up_has_all_its_attempts_again(quiet: TestClient) -> None:
    with serving(answering({}, status=500)) as server:
        hook = make(quiet, server.url)
        message = quiet.post(f"/v1/webhooks/{hook['id']}/ping").json()["id"]
        later = timedelta(0)
        while send(quiet, later):
            later += timedelta(days=1)
        path = f"/v1/webhooks/{hook['id']}/deliveries/{message}"
        given_up = quiet.get(path).json()
        assert (given_up["status"], len(given_up["log"])) == ("failed", 8)
        quiet.post(f"{path}/redeliver")
        send(quiet, later)
        told = quiet.get(path).json()
        assert (told["status"], len(told["log"])) == ("pending", 9)


def test_what_is_being_sent_is_not_redelivered(quiet: TestClient) -> None:
    hanging = Holding()
    with serving(hanging) as server:
        hook = make(quiet, server.url)
        message = quiet.post(f"/v1/webhooks/{hook['id']}/ping").json()["id"]
        assert deliver_due(services_of(quiet)) == 1
        assert hanging.arrived.acquire(timeout=10)
        answer = quiet.post(f"/v1/webhooks/{hook['id']}/deliveries/{message}/redeliver")
        assert_problem(answer, 409, "conflict")
        hanging.release()
        assert services_of(quiet).of(Deliverer).settle(20)


def test_what_is_disabled_is_not_told(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url)
    path = f"/v1/webhooks/{hook['id']}"
    message = quiet.post(f"{path}/ping").json()["id"]
    assert quiet.patch(path, json={"is_enabled": False}).json()["is_enabled"] is False
    assert send(quiet) == 1
    told = quiet.get(f"{path}/deliveries/{message}").json()
    assert (told["status"], told["log"][0]["error"]) == ("failed", "not sent: the webhook is disabled")
    assert_problem(quiet.post(f"{path}/ping"), 409, "conflict")
    assert_problem(quiet.post(f"{path}/deliveries/{message}/redeliver"), 409, "conflict")
    assert receiver.asked == []
    assert quiet.patch(path, json={"is_enabled": True}).json()["is_enabled"] is True
    assert quiet.post(f"{path}/deliveries/{message}/redeliver").status_code == 202
    send(quiet)
    assert len(receiver.asked) == 1


def test_a_message_that_waits_goes_to_the_new_address(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, "http://127.0.0.1:9/", events=["*"])
    quiet.post(f"/v1/webhooks/{hook['id']}/ping")
    changed = quiet.patch(f"/v1/webhooks/{hook['id']}", json={"url": receiver.url, "events": ["ping"]}).json()
    assert (changed["url"], changed["events"]) == (receiver.url, ["ping"])
    send(quiet)
    assert verified(receiver.asked[0], hook["secret"])


@pytest.mark.slow
def test_deliveries_are_paged_and_filtered(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url)
    path = f"/v1/webhooks/{hook['id']}"
    sent = [quiet.post(f"{path}/ping").json()["id"] for _ in range(2)]
    while send(quiet):
        pass
    waiting = quiet.post(f"{path}/ping").json()["id"]
    first = quiet.get(f"{path}/deliveries", params={"limit": 2}).json()
    rest = quiet.get(f"{path}/deliveries", params={"limit": 2, "cursor": first["next"]}).json()
    assert [one["id"] for one in first["items"] + rest["items"]] == [waiting, *reversed(sent)]
    assert rest["next"] is None
    for status, wanted in (("pending", [waiting]), ("delivered", sent[::-1]), ("failed", [])):
        listed = quiet.get(f"{path}/deliveries", params={"status": status}).json()["items"]
        assert [one["id"] for one in listed] == wanted
    assert_problem(quiet.get(f"{path}/deliveries", params={"status": "lost"}), 422)


def test_what_is_deleted_takes_its_deliveries_along(quiet: TestClient) -> None:
    path = f"/v1/webhooks/{make(quiet)['id']}"
    quiet.post(f"{path}/ping")
    assert quiet.delete(path).status_code == 204
    assert_problem(quiet.get(path), 404)
    assert_problem(quiet.delete(path), 404)
    assert send(quiet) == 0
    with services_of(quiet).database.read() as session:
        assert session.query(DeliveryRow).count() == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://ci.example.com/", "http:// and https://"),
        ("ci.example.com/hook", "http:// and https://"),
        ("https:///hook-somewhere", "host"),
        ("https://ci.example.com/a b", "no spaces"),
        ("https://ci.example.com/é", "no spaces"),
        ("https://ci.example.com/\u0000", "no spaces"),
        ("https://user:secret@ci.example.com/", "password"),
        ("https://ci.example.com/#part", "fragment"),
        ("https://ci.example.com:0/", "port"),
        ("https://ci.example.com:99999/", "ort"),
        ("https://ci.example.com:http/", "port"),
        ("https://[::1/hook", "URL"),
        ("https://ci_%65xample.com/", "neither a name nor an address"),
        ("http://10.0.0.8/hook", "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS"),
        ("http://169.254.169.254/latest/meta-data", "no public address"),
        ("http://0x0a.1.2.3/", "no public address"),
        ("http://[fd00::1]:8080/", "no public address"),
        ("http://[::ffff:10.0.0.1]/", "no public address"),
    ],
)
def test_urls_that_cannot_be_told_are_refused(settings: Settings, url: str, said: str) -> None:
    check_url(URL, settings)
    with pytest.raises(InvalidRequestError, match=re.escape(said)):
        check_url(url, settings)


def test_a_refused_url_is_pointed_at_and_changes_nothing(quiet: TestClient) -> None:
    webhook = make(quiet)["id"]
    for answer in (
        quiet.post("/v1/webhooks", json={"url": "http://10.0.0.8/hook"}),
        quiet.patch(f"/v1/webhooks/{webhook}", json={"url": "http://10.0.0.8/hook", "description": "x"}),
    ):
        problem = assert_problem(answer, 422, "invalid-request")
        assert problem.errors
        assert [(error.part, error.pointer) for error in problem.errors] == [("body", "/url")]
    [left] = quiet.get("/v1/webhooks").json()["items"]
    assert (left["url"], left["description"]) == (URL, "")


def test_this_machine_is_told_only_where_the_operator_allows_it(settings: Settings) -> None:
    for allowed, status in (([], 422), (LOCAL, 201)):
        client = api(settings, endpoint_allowed_networks=allowed)
        for url in ("http://127.0.0.1:8080/", "http://localhost:8080/"):
            assert client.post("/v1/webhooks", json={"url": url}).status_code == status
        services_of(client).database.dispose()


def test_a_body_that_does_not_fit_is_pointed_at(quiet: TestClient) -> None:
    for body, pointer in (
        ({}, "/url"),
        ({"url": URL, "events": []}, "/events"),
        ({"url": URL, "events": ["audit.begun"]}, "/events/0"),
        ({"url": URL, "events": "*"}, "/events"),
        ({"url": URL, "secret": "whsec_mine"}, "/secret"),
        ({"url": URL, "description": "a\nb"}, "/description"),
        ({"url": "h" * 2001}, "/url"),
    ):
        problem = assert_problem(quiet.post("/v1/webhooks", json=body), 422)
        assert problem.errors
        assert pointer in {error.pointer for error in problem.errors}


def test_a_project_has_so_many(quiet: TestClient) -> None:
    for _ in range(MAX_WEBHOOKS):
        made = make(quiet)
    assert_problem(quiet.post("/v1/webhooks", json={"url": URL}), 409, "conflict")
    quiet.delete(f"/v1/webhooks/{made['id']}")
    make(quiet)


def test_readers_read_and_admins_change(settings: Settings) -> None:
    client = api(settings, require_keys=True)
    read, run, admin, stranger = (
        key_for(client, "read"),
        key_for(client, "run"),
        key_for(client, "admin"),
        key_for(client, "admin", project="speech"),
    )
    webhook = client.post("/v1/webhooks", json={"url": URL}, headers=admin).json()["id"]
    path = f"/v1/webhooks/{webhook}"
    message = client.post(f"{path}/ping", headers=admin).json()["id"]
    changes: list[tuple[str, str, Any]] = [
        ("PATCH", path, {"description": "x"}),
        ("POST", f"{path}/rotate-secret", {}),
        ("POST", f"{path}/ping", None),
        ("POST", f"{path}/deliveries/{message}/redeliver", None),
        ("DELETE", path, None),
    ]
    reads = [path, f"{path}/deliveries", f"{path}/deliveries/{message}"]
    for key in (read, run):
        for method, where, body in [*changes, ("POST", "/v1/webhooks", {"url": URL})]:
            assert_problem(client.request(method, where, json=body, headers=key), 403)
        for where in ("/v1/webhooks", *reads):
            assert client.get(where, headers=key).status_code == 200
    for where in reads:
        assert_problem(client.get(where, headers=stranger), 404)
    for method, where, body in changes:
        assert_problem(client.request(method, where, json=body, headers=stranger), 404)
    assert client.get("/v1/webhooks", headers=stranger).json()["items"] == []
    own = client.post("/v1/webhooks", json={"url": URL}, headers=stranger).json()["id"]
    assert_problem(client.get(f"/v1/webhooks/{own}/deliveries/{message}", headers=stranger), 404)
    for method, where, body in changes:
        assert client.request(method, where, json=body, headers=admin).status_code in (200, 202, 204)
    services_of(client).database.dispose()


def test_a_mistyped_event_is_told_once_with_the_one_that_was_meant(quiet: TestClient) -> None:
    problem = assert_problem(quiet.post("/v1/webhooks", json={"url": URL, "events": ["audit.notpassed"]}), 422)
    assert [one.pointer for one in problem.errors or ()] == ["/events/0"]
    assert "did you mean 'audit.not_passed'?" in problem.detail
    assert "audit.succeeded" in problem.detail
