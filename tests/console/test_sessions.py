"""Who gets in, for how long, and what a cookie is worth."""

from datetime import timedelta

import pytest
from pydantic import SecretStr

from app.access import repository as keys
from app.access.service import digest_of_secret
from app.console.sessions import SESSION_KEPT
from app.main import create_app
from seatrial.store.activity import Author
from seatrial.store.retention import sweep_old
from seatrial.store.settings import Settings
from seatrial.store.tables import SessionRow
from seatrial.store.tables.base import utc_now
from tests.conftest import BASE_URL, TestClient
from tests.console.conftest import HERE, Console, words


def sessions(console: Console) -> list[SessionRow]:
    with console.services.database.read() as session:
        return session.query(SessionRow).all()


def revoke(console: Console, secret: str) -> None:
    with console.services.database.write() as session:
        row = keys.find_by_digest(session, digest_of_secret(secret))
        assert row is not None
        keys.revoke(session, row.id, Author("operator"))


def test_a_page_leads_a_stranger_to_the_login_and_back(locked: Console) -> None:
    for path in ("/", "/audits/aud_x", "/compare", "/models", "/datasets", "/submit", "/policies"):
        answer = locked.get(path + "?a=1")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/login?next={path.replace('/', '%2F')}%3Fa%3D1"


def test_a_key_opens_the_page_that_was_asked_for(locked: Console) -> None:
    answer = locked.post("/login", key=f" {locked.key()} ", next="/models?cursor=")
    assert (answer.status_code, answer.headers["location"]) == (303, "/models?cursor=")
    assert locked.get("/models").status_code == 200


def test_the_cookie_is_for_this_host_and_for_no_script(locked: Console) -> None:
    cookie = locked.post("/login", key=locked.key()).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert "Secure" not in cookie


def test_over_tls_the_cookie_never_travels_in_the_clear(locked: Console) -> None:
    secret = locked.key()
    answer = locked.client.post("https://127.0.0.1/login", data={"key": secret}, headers=HERE, follow_redirects=False)
    assert answer.headers["set-cookie"].startswith("__Host-seatrial=")
    assert "Secure" in answer.headers["set-cookie"]
    assert locked.client.get("https://127.0.0.1/models", follow_redirects=False).status_code == 200


@pytest.mark.parametrize("forwarded", ["https", "https, http"])
def test_behind_tls_proxies_the_cookie_never_travels_in_the_clear_either(locked: Console, forwarded: str) -> None:
    """Whether uvicorn trusts the proxy or not: the header can only make the cookie stricter."""
    secret, proxied = locked.key(), {"x-forwarded-proto": forwarded, **HERE}
    answer = locked.client.post("/login", data={"key": secret}, headers=proxied, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-seatrial=")
    assert "Secure" in cookie
    # Our client, unlike a browser behind a proxy, sends no such cookie in the clear: by hand, then.
    given = {**proxied, "cookie": cookie.partition(";")[0]}
    assert locked.client.get("/models", headers=given, follow_redirects=False).status_code == 200
    gone = locked.client.post("/logout", headers=given, follow_redirects=False).headers["set-cookie"]
    assert gone.startswith('__Host-seatrial=""')
    assert "Secure" in gone


def test_neither_the_cookie_nor_the_database_holds_the_key_or_the_token(locked: Console) -> None:
    secret = locked.log_in()
    token = locked.client.cookies["seatrial"]
    assert secret not in token
    (row,) = sessions(locked)
    assert {row.digest, row.key_digest} == {digest_of_secret(token), digest_of_secret(secret)}


def test_what_the_database_holds_opens_nothing(locked: Console) -> None:
    locked.log_in()
    (row,) = sessions(locked)
    for stolen in (row.digest, row.key_digest):
        locked.client.cookies.set("seatrial", stolen)
        assert locked.get("/models").status_code == 303
        assert locked.post("/login", key=stolen).status_code == 401


def test_an_expired_key_ends_its_sessions(locked: Console) -> None:
    secret = locked.log_in()
    assert locked.get("/models").status_code == 200
    with locked.services.database.write() as session:
        row = keys.find_by_digest(session, digest_of_secret(secret))
        assert row is not None
        row.expires_at = utc_now() - timedelta(seconds=1)
    assert locked.get("/models").status_code == 303
    assert locked.post("/login", key=secret).status_code == 401


def test_a_revoked_key_ends_its_sessions_at_once(locked: Console) -> None:
    secret = locked.log_in()
    revoke(locked, secret)
    assert locked.get("/").status_code == 303


def test_logging_out_ends_the_session_and_not_only_the_cookie(locked: Console) -> None:
    locked.log_in()
    token = locked.client.cookies["seatrial"]
    assert locked.post("/logout").headers["location"] == "/login"
    locked.client.cookies.set("seatrial", token)
    assert locked.get("/").status_code == 303
    assert sessions(locked) == []


def test_a_session_ends_after_half_a_day(locked: Console) -> None:
    locked.log_in()
    with locked.services.database.write() as session:
        row = session.query(SessionRow).one()
        assert row.expires_at - row.created_at <= SESSION_KEPT + timedelta(seconds=1)
        row.expires_at = utc_now() - timedelta(seconds=1)
    assert locked.get("/").status_code == 303
    sweep_old(locked.services.database)
    assert sessions(locked) == []


def test_a_refused_key_is_told_the_same_whatever_it_is(locked: Console) -> None:
    revoked = locked.key()
    revoke(locked, revoked)
    told = set()
    for key in (revoked, "", "sea_wrong", "x" * 2000, "\0", "key with spaces"):
        answer = locked.post("/login", key=key)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert revoked not in answer.text
        assert "sea_wrong" not in answer.text
        told.add(words(answer))
    assert len(told) == 1
    assert "not valid" in told.pop()


def test_a_login_leads_nowhere_else(locked: Console) -> None:
    key = locked.key()
    slashes = ("//evil.example", "///evil.example", "/\\evil.example")
    for target in ("https://evil.example/", *slashes, "javascript:alert(1)"):
        assert locked.post("/login", key=key, next=target).headers["location"] == "/"


def test_the_operator_s_key_opens_the_console(settings: Settings) -> None:
    secret = "b" * 40
    guarded = settings.model_copy(update={"require_keys": True, "bootstrap_key": SecretStr(secret)})
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        console = Console(client, client.app.state.services)  # type: ignore[attr-defined]
        assert console.post("/login", key=secret).status_code == 303
        assert "project default, admin" in words(console.get("/"))


def test_a_cookie_opens_the_pages_and_not_the_api(locked: Console) -> None:
    locked.log_in("admin")
    assert locked.get("/v1/audits").status_code == 401


def test_on_loopback_without_keys_there_is_nobody_to_log_in(console: Console) -> None:
    assert console.get("/login").headers["location"] == "/"
    page = console.get("/")
    assert page.status_code == 200
    assert "Log out" not in words(page)


def test_a_session_of_one_project_sees_nothing_of_another(locked: Console) -> None:
    audit = locked.finished()
    locked.log_in("admin", project="others")
    for path in ("", "/progress", "/events", "/report", "/bundle", "/records/0", "/figures/0/reliability_diagram"):
        assert locked.get(f"/audits/{audit}{path}").status_code == 404, path
    for action in ("cancel", "retry", "judge", "promote"):
        assert locked.post(f"/audits/{audit}/{action}", policy="standard").status_code in (404, 422), action
    assert locked.get(f"/compare?a={audit}&b={audit}").status_code == 404
    assert audit not in locked.get("/").text
    assert locked.get("/models/cifar-resnet20/history").status_code == 404


def test_a_form_sent_after_the_session_ended_changes_nothing_and_says_so(locked: Console) -> None:
    audit = locked.running()
    locked.log_in()
    locked.client.cookies.clear()
    answer = locked.post(f"/audits/{audit}/cancel")
    assert answer.status_code == 401
    assert "session has ended" in words(answer)
