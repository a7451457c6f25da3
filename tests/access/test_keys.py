import hashlib
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr
from sqlalchemy import update

from app.access.authenticator import CACHE_S, Authenticator
from app.access.service import create_key, digest_of_secret, ensure_project
from app.cli import main
from app.main import create_app
from app.web.services import Services
from seatrial.store.database import connect
from seatrial.store.settings import Settings
from seatrial.store.tables import KeyRow
from seatrial.store.tables.base import utc_now
from tests.conftest import BASE_URL, TestClient, key_for
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem


def test_without_a_key_nothing_is_told(keyed: httpx.Client) -> None:
    answer = keyed.get("/v1/audits")
    assert_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    for header in ("Bearer sea_wrong", "Bearer ", "Basic abc", "sea_wrong"):
        assert_problem(keyed.get("/v1/audits", headers={"Authorization": header}), 401)
    for path in ("/v1/audits", "/v1/audits/estimate", "/v1/keys", "/v1/models", "/v1/datasets"):
        assert_problem(keyed.post(path, json={"not": "read"}), 401)
    assert keyed.get("/healthz").status_code == 200


def test_scopes_contain_each_other(keyed: httpx.Client) -> None:
    read, run, admin = (key_for(keyed, scope) for scope in ("read", "run", "admin"))
    assert keyed.get("/v1/audits", headers=read).status_code == 200
    assert_problem(keyed.post("/v1/audits", json={}, headers=read), 403)
    assert_problem(keyed.post("/v1/models", headers=read), 403)
    assert_problem(keyed.get("/v1/keys", headers=run), 403)
    assert_problem(keyed.post("/v1/audits", json={}, headers=run), 422)
    assert keyed.get("/v1/keys", headers=admin).status_code == 200
    assert_problem(keyed.post("/v1/audits", json={}, headers=admin), 422)


def test_the_secret_is_shown_once_and_stored_nowhere(keyed: httpx.Client) -> None:
    admin = key_for(keyed, "admin")
    made = keyed.post("/v1/keys", json={"name": "ci", "scope": "read"}, headers=admin)
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert made.json()["project"] == "vision"
    assert secret.startswith(made.json()["prefix"])
    listed = keyed.get("/v1/keys", headers=admin)
    assert [key["name"] for key in listed.json()["items"]] == ["ci", "admin key"]
    assert secret not in listed.text
    services: Services = keyed.app.state.services  # type: ignore[attr-defined]
    with services.database.read() as session:
        row = session.get_one(KeyRow, made.json()["id"])
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()


def test_a_revoked_key_stops_at_once(keyed: httpx.Client) -> None:
    admin = key_for(keyed, "admin")
    made = keyed.post("/v1/keys", json={"name": "ci", "scope": "read"}, headers=admin).json()
    header = {"Authorization": f"Bearer {made['secret']}"}
    assert keyed.get("/v1/audits", headers=header).status_code == 200
    assert keyed.delete(f"/v1/keys/{made['id']}", headers=admin).status_code == 204
    assert_problem(keyed.get("/v1/audits", headers=header), 401)
    assert keyed.delete(f"/v1/keys/{made['id']}", headers=admin).status_code == 204
    assert keyed.get("/v1/keys", headers=admin).json()["items"][0]["revoked_at"]


def test_a_key_with_an_expiry_says_so_and_ends(keyed: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = key_for(keyed, "admin")
    at = (utc_now() + timedelta(days=2)).replace(microsecond=0)
    made = keyed.post("/v1/keys", json={"name": "ci", "scope": "read", "expires_at": at.isoformat()}, headers=admin)
    assert made.status_code == 201, made.text
    assert datetime.fromisoformat(made.json()["expires_at"]) == at
    listed = keyed.get("/v1/keys", headers=admin).json()["items"]
    assert [one["expires_at"] and datetime.fromisoformat(one["expires_at"]) for one in listed] == [at, None]
    header = {"Authorization": f"Bearer {made.json()['secret']}"}
    assert keyed.get("/v1/audits", headers=header).status_code == 200
    keyed.app.state.services.of(Authenticator)._known.clear()  # type: ignore[attr-defined]
    monkeypatch.setattr("app.access.authenticator.utc_now", lambda: at + timedelta(seconds=1))
    problem = assert_problem(keyed.get("/v1/audits", headers=header), 401, "unauthorized")
    assert f"expired on {at:%Y-%m-%d at %H:%M:%S} UTC" in problem.detail
    assert keyed.get("/v1/audits", headers=admin).status_code == 200
    keyed.delete(f"/v1/keys/{made.json()['id']}", headers=admin)
    assert "not valid" in assert_problem(keyed.get("/v1/audits", headers=header), 401).detail


def test_an_expiring_key_is_remembered_until_it_expires_only(services: Services) -> None:
    secret, _ = create_key(
        services.database, "vision", "cli", "read", expires_at=utc_now() + timedelta(seconds=CACHE_S / 4)
    )
    authenticator = services.of(Authenticator)
    before = time.monotonic()
    assert authenticator.identify(secret) is not None
    until, _ = authenticator._known[digest_of_secret(secret)]
    assert until < before + CACHE_S / 2
    assert authenticator.expired_at(secret) is None


@pytest.mark.parametrize(
    ("expiry", "told"),
    [
        ({"expires_at": "2020-01-01T00:00:00Z"}, "must lie in the future"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "must lie in the future"),
        ({"expires_at": "2031-01-31T12:00:00"}, "offset from UTC"),
        ({"expires_at": 4_000_000_000}, "expires_at"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": 10**9}, "expires_in_days"),
        ({"expires_in_days": 1, "expires_at": "2031-01-31T12:00:00Z"}, "not both"),
    ],
)
def test_an_expiry_that_is_none_is_refused(client: httpx.Client, expiry: dict[str, object], told: str) -> None:
    assert told in assert_problem(client.post("/v1/keys", json={"name": "x", **expiry}), 422).detail


def test_an_expiry_may_be_given_in_days(client: httpx.Client) -> None:
    made = client.post("/v1/keys", json={"name": "x", "expires_in_days": 90})
    left = datetime.fromisoformat(made.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < left <= timedelta(days=90)


@pytest.mark.parametrize("is_last", [False, True])
def test_the_command_makes_and_shows_keys_that_expire(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    def run(*arguments: str) -> Result:
        home = ["--home", str(settings.home)]
        return CliRunner().invoke(main, ["keys", *([] if is_last else home), *arguments, *(home if is_last else [])])

    monkeypatch.setenv("SEATRIAL_HOME", "")
    assert run("create", "ci", "--expires-in", "90d").exit_code == 0
    assert run("create", "other").exit_code == 0
    day = f"{utc_now() + timedelta(days=90):%Y-%m-%d}"
    other, ci = run("list").output.splitlines()
    assert f"ci  valid until {day}" in ci
    assert other.endswith("other  valid")
    with connect(settings).write() as session:
        session.execute(update(KeyRow).values(expires_at=utc_now() - timedelta(days=1)))
    assert "  expired " in run("list").output
    for wrong in ("90", "0d", "d", "-1d", "9999999d", "1y"):
        refused = run("create", "ci", f"--expires-in={wrong}")
        assert (refused.exit_code, "90d" in refused.output or "days" in refused.output) == (2, True), wrong


def test_an_admin_makes_keys_for_its_own_project_only(keyed: httpx.Client) -> None:
    admin, other = key_for(keyed, "admin"), key_for(keyed, "admin", project="speech")
    assert_problem(keyed.post("/v1/keys", json={"name": "x", "project": "speech"}, headers=admin), 403)
    made = keyed.post("/v1/keys", json={"name": "x"}, headers=admin).json()
    assert_problem(keyed.delete(f"/v1/keys/{made['id']}", headers=other), 404)
    assert all(key["project"] == "speech" for key in keyed.get("/v1/keys", headers=other).json()["items"])


def test_the_operator_makes_projects(client: httpx.Client) -> None:
    made = client.post("/v1/keys", json={"name": "x", "scope": "read", "project": "new-one"})
    assert made.status_code == 201
    assert made.json()["project"] == "new-one"
    assert client.delete(f"/v1/keys/{made.json()['id']}").status_code == 204


def test_the_bootstrap_key_is_an_operators(settings: Settings) -> None:
    secret = "b" * 32
    guarded = settings.model_copy(update={"require_keys": True, "bootstrap_key": SecretStr(secret)})
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        header = {"Authorization": f"Bearer {secret}"}
        assert client.post("/v1/keys", json={"name": "x", "project": "p"}, headers=header).status_code == 201
        assert_problem(client.get("/v1/keys", headers={"Authorization": "Bearer " + "c" * 32}), 401)
    with pytest.raises(ValueError, match="at least 32"):
        create_app(guarded.model_copy(update={"bootstrap_key": SecretStr("short")}))


def test_another_projects_things_are_not_there(keyed: httpx.Client) -> None:
    mine, theirs = key_for(keyed), key_for(keyed, project="speech")
    model, dataset = upload_both(keyed, headers=mine)
    audit = keyed.post("/v1/audits", json=submission(model, dataset), headers=mine).json()["id"]
    for path in (
        f"/v1/models/{model}",
        f"/v1/models/{model}/content",
        f"/v1/datasets/{dataset}",
        f"/v1/datasets/{dataset}/content",
        f"/v1/audits/{audit}",
        f"/v1/audits/{audit}/events",
        f"/v1/audits/{audit}/records/0",
        f"/v1/audits/{audit}/figures/0/x",
    ):
        problem = assert_problem(keyed.get(path, headers=theirs), 404)
        assert "this project" in problem.detail
    for verb in ("cancel", "retry"):
        assert_problem(keyed.post(f"/v1/audits/{audit}/{verb}", headers=theirs), 404)
    for path in ("/v1/models", "/v1/datasets", "/v1/audits"):
        assert keyed.get(path, headers=theirs).json() == {"items": [], "next": None}
        assert len(keyed.get(path, headers=mine).json()["items"]) == 1
    problem = assert_problem(keyed.post("/v1/audits", json=submission(model, dataset), headers=theirs), 422)
    assert problem.code == "unknown-reference"
    own_model, own_dataset = upload_both(keyed, headers=theirs)
    assert (own_model, own_dataset) != (model, dataset)


def test_keys_are_made_without_http_too(services: Services) -> None:
    secret, row = create_key(services.database, "vision", "cli", "read")
    assert secret.startswith(row.prefix)
    assert ensure_project(services.database, "vision") == row.project_id
    with pytest.raises(ValueError, match="not a project name"):
        create_key(services.database, "Not A Name", "cli", "read")
    with pytest.raises(ValueError, match="not a scope"):
        create_key(services.database, "vision", "cli", "root")  # type: ignore[arg-type]
