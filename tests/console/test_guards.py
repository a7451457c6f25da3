"""What no page of another site can do, what a key's scope keeps from whom, and what every page is sent with."""

import re

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from app.console import routes, service
from app.console.viewer import ConsoleRoute
from seatrial.store.tables import AuditRow, ModelRow
from tests.conftest import TestClient
from tests.console.conftest import HERE, Console, actions, elements, words

FORMS = [
    "/login",
    "/logout",
    "/models",
    "/datasets",
    "/dataset-preview",
    "/submit",
    "/submit/about",
    "/submit/confirmed",
    "/policies",
    "/project",
    "/tags/{subject_id}",
    "/harden",
    "/harden/confirmed",
    "/hardenings/{hardening_id}/cancel",
    "/hardenings/{hardening_id}/retry",
    "/hardenings/{hardening_id}/delete",
    "/projects/{name}",
    "/webhooks",
    "/webhooks/{webhook_id}",
    "/webhooks/{webhook_id}/ping",
    "/webhooks/{webhook_id}/rotate",
    "/webhooks/{webhook_id}/delete",
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    "/plans/{plan_id}/cancel",
    "/plans/{plan_id}/retry",
]
OF_ADMINS = ("/project", "/webhooks", "/hardenings/{hardening_id}/delete")
OF_AUDIT = ["cancel", "retry", "judge", "promote"]


def state_of(console: Console, audit: str) -> str:
    with console.services.database.read() as session:
        return session.get_one(AuditRow, audit).state


def test_every_form_is_known_to_these_tests() -> None:
    every = [route for router in routes.ROUTERS for route in router.routes]
    assert {type(route) for route in every} == {ConsoleRoute}
    posts = {route.path for route in every if "POST" in route.methods}  # type: ignore[attr-defined]
    assert posts == {*FORMS, *(f"/audits/{{audit_id}}/{action}" for action in OF_AUDIT)}


ELSEWHERE: dict[str, dict[str, str]] = {
    "nothing": {},
    "another site": {"sec-fetch-site": "cross-site"},
    "a sister site": {"sec-fetch-site": "same-site"},
    "nobody": {"sec-fetch-site": "none"},
    "another origin": {"origin": "https://evil.example"},
    "no origin": {"origin": "null"},
    "a forged origin": {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1"},
}


def test_no_form_works_from_anywhere_else(locked: Console) -> None:
    audit = locked.running()
    locked.log_in("admin")
    for path in [*FORMS, *(f"/audits/{audit}/{action}" for action in OF_AUDIT)]:
        for where, headers in ELSEWHERE.items():
            answer = locked.client.post(path, data={"key": "x"}, headers=headers, follow_redirects=False)
            assert answer.status_code == 403, (path, where)
    assert state_of(locked, audit) == "running"


def test_over_plain_http_the_origin_has_to_do(locked: Console) -> None:
    answer = locked.client.post(
        "/login", data={"key": locked.key()}, headers={"origin": "http://127.0.0.1"}, follow_redirects=False
    )
    assert answer.status_code == 303


def test_without_keys_another_name_of_this_host_is_refused(console: Console) -> None:
    assert console.get("/", host="rebound.example").status_code == 403


def test_a_link_on_another_site_loads_once_more_from_here(locked: Console) -> None:
    """The first request comes without the strict cookie; the page that answers it brings it."""
    page = locked.get("/audits/aud_x?done=judged", **{"sec-fetch-site": "cross-site"})
    assert page.status_code == 200
    refresh = [one["content"] for one in elements(page, "meta") if one.get("http-equiv") == "refresh"]
    assert refresh == ["0; url=/audits/aud_x?done=judged"]
    assert locked.get("/audits/aud_x", **HERE).status_code == 303


def test_a_reader_sees_no_button_and_no_form_works(locked: Console) -> None:
    finished = locked.finished()
    running = locked.running(model={"version": "4"}, dataset_of=finished)
    locked.log_in("read")
    for path in (
        "/",
        f"/audits/{finished}",
        f"/audits/{running}",
        "/models",
        "/datasets",
        "/policies",
        "/compare",
        "/search",
        "/webhooks",
    ):
        page = locked.get(path)
        assert page.status_code == 200
        assert actions(page) == {"/logout"}, path
        assert "/submit" not in {str(link.get("href")) for link in elements(page, "a")}
    assert locked.get("/submit").status_code == 403
    for path in [*FORMS[2:], *(f"/audits/{finished}/{action}" for action in OF_AUDIT)]:
        answer = locked.post(path, policy="standard")
        assert answer.status_code == 403, path
        wanted = "admin" if path.startswith(OF_ADMINS) else "run"
        assert f"needs a key with scope {wanted}" in words(answer)
    with locked.services.database.read() as session:
        assert session.query(ModelRow).count() == 2


def test_pages_let_only_their_own_two_files_act(console: Console) -> None:
    audit = console.finished()
    for path in (
        "/",
        f"/audits/{audit}",
        "/models",
        "/datasets",
        "/policies",
        "/policies/standard",
        "/compare",
        "/search",
        "/submit",
    ):
        page = console.get(path)
        policy = dict(part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";"))
        nonce = re.fullmatch(r"'nonce-([\w-]{16,})'", policy["script-src"])
        assert nonce is not None
        assert policy == {
            "default-src": "'none'",
            "script-src": nonce[0],
            "style-src": nonce[0],
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        (script,) = elements(page, "script")
        assert (script["src"], script["nonce"]) == ("/console/console.js", nonce[1])
        for attributes in elements(page):
            assert not [name for name in attributes if name.startswith("on") or name == "style"], (path, attributes)
            for name in ("src", "href", "action"):
                assert (attributes.get(name) or "/").startswith(("/", "#", "?")), (path, attributes)


def test_a_nonce_is_used_once(console: Console) -> None:
    first, second = (console.get("/").headers["content-security-policy"] for _ in range(2))
    assert first != second


def test_the_three_files_are_there(console: Console) -> None:
    for name, kind in (("console.css", "text/css"), ("console.js", "javascript"), ("seatrial.svg", "image/svg+xml")):
        answer = console.get(f"/console/{name}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]


@pytest.mark.slow
def test_pages_are_not_in_the_api_s_document(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    others = {path for path in paths if not path.startswith("/v1/")}
    assert others == {"/healthz", "/readyz", "/metrics", "/.well-known/seatrial-keys.json"}


def test_who_asks_the_start_page_for_json_is_told_where_the_api_is(locked: Console) -> None:
    told = locked.get("/", accept="application/json")
    assert told.headers["content-type"] == "application/json"
    assert told.json()["audits"] == "/v1/audits"
    for place in ("openapi", "documentation"):
        assert locked.get(told.json()[place]).status_code == 200
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    assert locked.get("/", accept=browser).status_code == 303


def test_head_is_answered_as_get(console: Console) -> None:
    for path in ("/", "/models", "/policies"):
        head: httpx.Response = console.client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("secret detail"), 500), (OperationalError("select secret", {}, Exception("secret")), 503)],
    ids=["mistake", "database"],
)
def test_what_goes_wrong_inside_is_a_page_that_tells_the_request(
    console: Console, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(service, "listed", fail)
    page = console.get("/")
    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["x-request-id"] in words(page)
    assert "secret" not in page.text
