"""What a database may do otherwise than SQLite: requests that race, and text it does not take."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from app.main import create_app
from app.web.services import Services
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, ModelRow
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.conftest import BASE_URL, TestClient
from tests.console.conftest import HERE
from tests.databases import new_migrated_database
from tests.uploads import dataset_manifest, model_manifest, npz, submission, upload, upload_both, weights
from tests.web.test_hostile import walk
from tests.web.test_problems import assert_problem


@pytest.fixture
def on_postgres(postgres_url: str, tmp_path: Path) -> Iterator[TestClient]:
    """A client of the keyless API on Postgres."""
    with new_migrated_database(postgres_url) as url:
        app = create_app(Settings(home=tmp_path, database_url=url, require_keys=False))
        with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
            yield client


def at_once(*posts: Any) -> None:
    """Run all at the same moment."""
    barrier = threading.Barrier(len(posts))

    def run(post: Any) -> None:
        barrier.wait()
        post()

    threads = [threading.Thread(target=run, args=(post,)) for post in posts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_an_audit_goes_through_all_its_routes(on_postgres: httpx.Client) -> None:
    services: Services = on_postgres.app.state.services  # type: ignore[attr-defined]
    pair = upload_both(on_postgres)
    make_ready(services)
    audit = on_postgres.post("/v1/audits", json=submission(*pair)).json()["id"]
    open_stage(services, first_check(services, audit), "attack", [(0, 10), (10, 20)])
    run_shard(services)
    assert on_postgres.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]["done"] == 10
    run_shard(services)
    end_check(services)
    assert on_postgres.get(f"/v1/audits/{audit}").json()["state"] == "succeeded"
    for path in ("events", "records/0", "figures/0/span"):
        assert on_postgres.get(f"/v1/audits/{audit}/{path}").status_code == 200
    for path in ("/readyz", "/metrics", "/v1/audits?state=succeeded", "/v1/models", "/v1/datasets", "/v1/keys"):
        assert on_postgres.get(path).status_code == 200


def test_two_at_once_with_one_key_are_one_audit(on_postgres: httpx.Client) -> None:
    services: Services = on_postgres.app.state.services  # type: ignore[attr-defined]
    body, answers = submission(*upload_both(on_postgres)), []

    def post() -> None:
        answers.append(on_postgres.post("/v1/audits", json=body, headers={"Idempotency-Key": "race"}))

    at_once(*[post] * 8)
    assert {answer.status_code for answer in answers} == {202}
    with services.database.read() as session:
        ids = session.scalars(select(AuditRow.id)).all()
    assert {answer.json()["id"] for answer in answers} == set(ids)
    assert len(ids) == 1


def test_two_uploads_at_once_with_one_name_store_one(on_postgres: httpx.Client) -> None:
    services: Services = on_postgres.app.state.services  # type: ignore[attr-defined]
    on_postgres.get("/v1/models")
    answers: list[httpx.Response] = []

    def post(fill: float) -> None:
        answers.append(upload(on_postgres, "models", model_manifest(), weights(fill)))

    at_once(*[lambda fill=fill: post(fill) for fill in (0.0, 0.0, 1.0, 1.0)])
    assert sorted({answer.status_code for answer in answers}) == [201, 409]
    with services.database.read() as session:
        row = session.scalars(select(ModelRow)).one()
    store = Path(services.settings.resolved_artifacts_url)
    assert [path.name for path in store.rglob("*") if path.is_file()] == [row.digest.removeprefix("sha256:")]


@pytest.mark.parametrize("label", ["a\0b", "é", "\U0001f600", "'; DROP TABLE audits; --"])
def test_no_text_is_too_odd(on_postgres: httpx.Client, label: str) -> None:
    answer = upload(on_postgres, "datasets", dataset_manifest(labels=["x", label]), npz())
    assert answer.status_code in (201, 422), answer.text
    if answer.status_code == 201:
        assert on_postgres.get(answer.headers["location"]).json()["manifest"]["labels"] == ["x", label]
    assert_problem(on_postgres.post("/v1/audits", json=submission(label, label)), 422)
    assert on_postgres.get("/v1/audits", params={"model": label}).status_code in (200, 422)
    for path in ("/v1/models/", "/v1/audits/", "/v1/datasets/"):
        assert on_postgres.get(path + quote(label, safe="")).status_code in (404, 422)


@pytest.mark.slow
def test_no_id_in_a_path_or_a_query_makes_a_mistake(on_postgres: TestClient) -> None:
    walk(on_postgres)


@pytest.mark.slow
def test_no_text_in_a_body_makes_a_mistake(on_postgres: httpx.Client) -> None:
    services: Services = on_postgres.app.state.services  # type: ignore[attr-defined]
    pair = upload_both(on_postgres)
    make_ready(services)
    audit = on_postgres.post("/v1/audits", json=submission(*pair)).json()["id"]
    webhook = on_postgres.post("/v1/webhooks", json={"url": "https://hooks.invalid/"}).json()["id"]
    check = submission(*pair)["checks"][0]
    for odd in ("aud_\0", "\0", "a\0b", "\ud800", "\udfff\ud800", "\x85", "x" * 3000):
        for method, path, body in (
            ("POST", "/v1/audits", submission(odd, odd)),
            ("POST", "/v1/audits", submission(*pair, policy=odd)),
            ("POST", "/v1/audits", {**submission(*pair), "checks": [{**check, "outliers": {"dataset": odd}}]}),
            ("POST", "/v1/audits/estimate", submission(odd, odd)),
            ("POST", f"/v1/audits/{audit}/judge", {"policy": odd}),
            ("POST", f"/v1/audits/{audit}/judge", {"policy": "standard", "baseline": odd}),
            ("POST", "/v1/baselines", {"audit": odd}),
            ("POST", "/v1/baselines", {"audit": audit, "note": odd}),
            ("POST", "/v1/keys", {"name": odd}),
            ("POST", "/v1/keys", {"name": "a", "project": odd}),
            ("POST", "/v1/webhooks", {"url": f"https://hooks.invalid/{odd}"}),
            ("POST", "/v1/webhooks", {"url": "https://hooks.invalid/", "description": odd}),
            ("PATCH", f"/v1/webhooks/{webhook}", {"description": odd}),
            ("POST", "/v1/policies", {"name": odd, "rules": []}),
            ("POST", "/v1/policies", {"name": "a", "description": odd, "rules": [{"metric": odd, "max": 1}]}),
        ):
            sent = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
            answer = on_postgres.request(method, path, **sent)
            assert answer.status_code < 500, (path, body, answer.text)
        form = {"model": odd, "dataset": odd, "key": odd, "checks": odd, "document": odd, "policy": odd, "name": odd}
        form["note"] = odd
        encoded = {name: text.encode("utf-8", "surrogatepass").decode("latin-1") for name, text in form.items()}
        for path in ("/submit", "/policies", f"/audits/{audit}/judge", f"/audits/{audit}/promote", "/login"):
            assert on_postgres.post(path, data=encoded, headers=HERE).status_code < 500, path


def test_requests_wait_for_one_of_few_connections(postgres_url: str, tmp_path: Path) -> None:
    with new_migrated_database(postgres_url) as url:
        few = Settings(home=tmp_path, database_url=url, require_keys=False, database_pool=1, database_statement_s=0.3)
        app = create_app(few)
        with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
            database = app.state.services.database
            statuses: list[int] = []
            # More at once than there are connections: one, and two for a moment.
            at_once(*(lambda: statuses.append(client.get("/v1/models").status_code) for _ in range(12)))
            assert statuses == [200] * 12
            with database.read() as session, pytest.raises(OperationalError, match="statement timeout"):
                session.execute(text("SELECT pg_sleep(20)"))
